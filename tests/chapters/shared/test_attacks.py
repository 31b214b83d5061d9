"""FGSM and PGD: closed forms, the ball, what is averaged and left behind; ten projected steps beside one."""

import copy
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib.models import mlp
from chapters.learned_priors.experiments import mnist
from chapters.learned_priors.experiments import pgd as steps
from chapters.learned_priors.networks import cnn_two_conv
from chapters.shared.attacks import fgsm, pgd
from tests.chapters.cells import CPU, smoke
from tests.seeded import seeded


def inputs(n=8, width=6):
    return 0.3 + 0.4 * torch.rand(n, width, generator=seeded(1), dtype=torch.float64)


def labels(n=8, classes=4):
    return torch.randint(classes, (n,), generator=seeded(2))


def network(seed=0):
    return mlp((6, 16, 4), "tanh", generator=seeded(seed)).double()


def log_p(model, x, y):
    return model(x).log_softmax(-1).gather(-1, y[:, None]).squeeze(-1)


def test_fgsm_of_linear_softmax_is_the_closed_form():
    model, x, y = nn.Linear(6, 4).double(), inputs(), labels()
    with torch.no_grad():
        model.weight.copy_(torch.randn(4, 6, generator=seeded(3), dtype=torch.float64))
        # d(-log p_y)/dx = W'(p - e_y)
        gradient = (model(x).softmax(-1) - F.one_hot(y, 4)) @ model.weight
        expected = (x + 0.25 * gradient.sign()).clamp(0.0, 1.0)
    assert torch.equal(fgsm(model, x, y, size=0.25), expected)


def test_without_labels_it_is_the_papers_max_of_log_p():
    model, x = network(), inputs()
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(leaf).log_softmax(-1).max(-1).values.sum(), leaf)
    assert torch.equal(fgsm(model, x, size=0.1, clip=None), x - 0.1 * gradient.sign())
    assert torch.equal(fgsm(model, x, size=0.1), fgsm(model, x, model(x).argmax(-1), 0.1))


def test_a_confident_network_is_attacked_too():
    model, x = nn.Linear(6, 4), inputs().float()
    with torch.no_grad():
        model.weight.copy_(1e4 * torch.randn(4, 6, generator=seeded(3)))
        logits = model(x)
        y = logits.argmax(-1)
        assert (logits.softmax(-1).max(-1).values == 1.0).all()  # the gradient of log p rounds to 0 at the label
        rivals = logits.scatter(-1, y[:, None], -torch.inf).argmax(-1)
        expected = x + 0.1 * (model.weight[rivals] - model.weight[y]).sign()
    # at such margins the best of the others takes all the weight; 1e4 times a difference of 0.001 is 10
    assert torch.equal(fgsm(model, x, size=0.1, clip=None), expected)


def posterior():
    return [network(seed) for seed in range(5)]


def test_the_average_probability_is_attacked():
    models, x, y = posterior(), inputs(), labels()
    leaf = x.clone().requires_grad_()
    value = torch.stack([log_p(model, leaf, y) for model in models]).exp().mean(0).log()
    (gradient,) = torch.autograd.grad(-value.sum(), leaf)
    assert torch.equal(fgsm(models, x, y, size=0.1, clip=None), x + 0.1 * gradient.sign())


def test_without_labels_the_average_probability_predicts():
    models, x = posterior(), torch.rand(64, 6, generator=seeded(6), dtype=torch.float64)
    with torch.no_grad():
        for model, scale in zip(models, (30.0, 5.0, 5.0, 5.0, 5.0), strict=True):
            model[2].weight.mul_(scale)  # one more certain than the others: the mean of log p is another prediction
        each = torch.stack([model(x).log_softmax(-1) for model in models])
    y = each.exp().mean(0).argmax(-1)
    assert not torch.equal(y, each.mean(0).argmax(-1))
    assert torch.equal(fgsm(models, x, size=0.1), fgsm(models, x, y, size=0.1))


def test_draws_that_share_one_module():
    models, x, y = posterior(), inputs(), labels()
    shared = network()

    def draw(state):
        def model(inside):
            shared.load_state_dict(state)  # in place, which a graph over all draws would not survive
            return shared(inside)

        return model

    states = [copy.deepcopy(model.state_dict()) for model in models]
    assert torch.equal(pgd([draw(s) for s in states], x, y, size=0.1), pgd(models, x, y, size=0.1))


def test_one_step_of_pgd_is_fgsm():
    model, x, y = network(), inputs(), labels()
    assert torch.equal(pgd(model, x, y, size=0.1, steps=1, step_size=0.1), fgsm(model, x, y, size=0.1))


@pytest.mark.parametrize("random_start", [False, True])
def test_pgd_stays_in_the_ball_and_in_the_range(random_start):
    model, x = network(), inputs(200)
    x[:50] = x[:50].round()  # some at the ends of the range
    for size in (0.01, 0.2):
        out = pgd(model, x, size=size, steps=7, step_size=size, random_start=random_start, generator=seeded())
        assert float((out - x).abs().max()) <= size * (1 + 1e-12)  # rounding of x + size - x
        assert 0.0 <= float(out.min()) and float(out.max()) <= 1.0
    assert float((out - x).abs().max()) >= 0.999 * size


def test_random_starts_are_seeded():
    model, x = network(), inputs()
    a, b = (pgd(model, x, size=0.1, steps=1, step_size=0.01, random_start=True, generator=seeded(4)) for _ in range(2))
    other = pgd(model, x, size=0.1, steps=1, step_size=0.01, random_start=True, generator=seeded(5))
    assert torch.equal(a, b) and not torch.equal(a, other)


@pytest.mark.parametrize("attack", [fgsm, pgd])
def test_nothing_is_left_behind(attack):
    model = cnn_two_conv(0.5, generator=seeded()).train()
    model.conv1.eval()
    x = torch.rand(3, 1, 28, 28, generator=seeded())
    kept, weights = x.clone(), copy.deepcopy(model.state_dict())
    model.fc1.weight.grad = torch.ones_like(model.fc1.weight)
    out = attack(model, x, size=0.1)
    assert out.shape == x.shape and not out.requires_grad and out.dtype == x.dtype
    assert torch.equal(out, attack(model, x, size=0.1))  # no dropout, so no chance
    assert model.training and model.dropout.training and not model.conv1.training
    assert torch.equal(model.fc1.weight.grad, torch.ones_like(model.fc1.weight))
    assert all(p.grad is None for name, p in model.named_parameters() if name != "fc1.weight")
    assert all(p.requires_grad for p in model.parameters())
    assert torch.equal(x, kept) and not x.requires_grad
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())


def test_the_mode_is_restored_after_an_error():
    model = network().train()
    with pytest.raises(ValueError, match="class numbers"):
        fgsm(model, inputs(), torch.zeros(3, dtype=torch.long), size=0.1)
    assert all(part.training for part in model.modules())


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_it_works_where_gradients_are_off(context):
    model, expected = network(), fgsm(network(), inputs(), size=0.1)
    with context():
        assert torch.equal(fgsm(model, inputs(), size=0.1), expected)


def test_size_zero_changes_nothing():
    assert torch.equal(fgsm(network(), inputs(), size=0.0), inputs())
    assert torch.equal(pgd(network(), inputs(), size=0.0), inputs())


PARAMS = {"batch": 20, "steps": 10}


def _models() -> tuple[list, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5, generator=generator)
    return [model], torch.rand(50, 1, 8, 8, generator=generator)


@cache
def _rows(method: str) -> list[dict]:
    cell = smoke("aeb-pgd", method, images=20)
    (need,) = cell.needs
    return steps.run_cell(cell, CPU, None, [mnist.run_cell(need.cell, CPU, None).product]).rows


def test_both_attacks_stay_within_the_distance_and_the_steps_find_more_than_one_does():
    models, x = _models()
    once, often = (steps.attacked(kind, models, x, 0.1, PARAMS, seed=1) for kind in ("FGSM", "PGD"))
    assert torch.equal(once, fgsm(models, x, size=0.1))
    for moved in (once, often):
        assert (moved - x).abs().max() <= 0.1 + 1e-6 and moved.min() >= 0 and moved.max() <= 1
    (model,) = models
    with torch.no_grad():
        of_class = model(x).argmax(1, keepdim=True)
        kept = [model(moved).softmax(1).gather(1, of_class).mean() for moved in (once, often)]
    assert kept[1] < kept[0]
    assert torch.equal(often, steps.attacked("PGD", models, x, 0.1, PARAMS, seed=1))


@pytest.mark.slow
def test_samplers_are_attacked_through_their_average_too():
    for method in ("SGHMC-SA", "Vanilla"):
        rows = _rows(method)
        settings = ["MNIST"] + [f"MNIST, {kind} zeta={size:g}" for size in steps.SIZES for kind in ("FGSM", "PGD")]
        assert list(dict.fromkeys(row["setting"] for row in rows)) == settings
        assert ("accuracy_averaged_attack" in {row["metric"] for row in rows}) == (method == "SGHMC-SA")
        assert all(0.0 <= row["value"] <= 100.0 for row in rows)
