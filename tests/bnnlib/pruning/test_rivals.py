"""Rivals that prune while they train: the ramp; what the groups are, and that a step is the proximal map."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from bnnlib.models import mlp
from bnnlib.pruning import AGPPruner, GroupLasso, agp_sparsity
from bnnlib.train.fit import Callback, fit
from chapters.shared.networks import lenet5_caffe

RAMP = {"final_sparsity": 0.9, "begin_step": 10, "end_step": 50}


def run_at(rate: float, momentum: float = 0.0, step: int = 1) -> SimpleNamespace:
    """As much of a run as the callback looks at."""
    sgd = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=rate, momentum=momentum)
    return SimpleNamespace(step=step, optimizer=sgd)


def test_layers_that_are_not_named_stay():
    model = mlp((5, 4, 3), generator=torch.Generator().manual_seed(0))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    GroupLasso(model, 0.1, layers=("0",)).on_step(run_at(1.0))
    same = [torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True)]
    assert same == [False, True, True, True]


def test_groups_of_a_convolutional_network():
    """Filters and channels of the convolutions but for the one input, rows and columns of fc1, columns of fc2."""
    model = lenet5_caffe(generator=torch.Generator().manual_seed(0))

    def groups(**settings) -> list[tuple[tuple[int, ...], int, float]]:
        return [(tuple(weight.shape), dim, factor) for weight, dim, factor in GroupLasso(model, 0.1, **settings).groups]

    conv1, conv2, fc1, fc2 = (20, 1, 5, 5), (50, 20, 5, 5), (500, 800), (10, 500)
    every = [(conv1, 0, 1.0), (conv2, 0, 1.0), (conv2, 1, 1.0), (fc1, 0, 1.0), (fc1, 1, 1.0), (fc2, 1, 1.0)]
    assert groups() == every
    assert groups(layers=["conv1", "conv2"]) == every[:3] and groups(layers="conv1") == every[:1]
    assert groups(layers=["conv2"], scale_by_size=True) == [(conv2, 0, 500**0.5), (conv2, 1, 1250**0.5)]


@pytest.mark.parametrize("scale", [False, True])
def test_a_step_minimizes_the_proximal_objective(scale):
    """1/2 |w - v|^2 + t f |w| of one group, f its factor: the map's result against a fine search along the ray of v.

    The minimum lies on the ray by symmetry. One column of two is short enough to become exactly 0.
    """
    layer = nn.Linear(2, 6, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(6, 2, generator=torch.Generator().manual_seed(1)) * torch.tensor([1.0, 0.05]))
    before = layer.weight.detach().double().clone()
    GroupLasso(nn.Sequential(layer), strength=0.5, scale_by_size=scale).on_step(run_at(0.2))
    amount = 0.2 * 0.5 * (math.sqrt(6) if scale else 1.0)
    factors = torch.linspace(0, 1.2, 120_001, dtype=torch.float64)
    for column in range(2):
        v = before[:, column]
        objective = 0.5 * (factors - 1).square() * v.dot(v) + amount * factors * v.norm()
        best = factors[objective.argmin()] * v
        torch.testing.assert_close(layer.weight[:, column].double(), best, rtol=0, atol=2e-5)  # the search's grid
    assert layer.weight[:, 1].eq(0).all() and layer.weight[:, 0].ne(0).all()


def test_momentum_does_not_change_where_training_ends():
    """One weight v, loss (w - v)^2 / 2: the minimum of loss + strength |w| is v - strength, momentum or not."""
    ends = []
    for momentum in (0.0, 0.9):
        layer = nn.Linear(1, 2, bias=False)
        model = nn.Sequential(layer, nn.Linear(2, 1, bias=False))  # so that the rows of `layer` are groups
        with torch.no_grad():
            layer.weight.fill_(1.0)
            model[1].weight.zero_()
        callback = GroupLasso(model, 0.25)
        optimizer = torch.optim.SGD([layer.weight], lr=0.05, momentum=momentum)
        for _ in range(600):
            optimizer.zero_grad()
            (0.5 * (layer.weight - 1.0).square()).sum().backward()
            optimizer.step()
            callback.on_step(SimpleNamespace(step=1, optimizer=optimizer))
        ends.append(layer.weight.detach())
    torch.testing.assert_close(
        ends[0], torch.full((2, 1), 0.75), rtol=0, atol=1e-3
    )  # O(learning rate) of the split step
    torch.testing.assert_close(ends[1], ends[0], rtol=0, atol=1e-2)


def test_a_group_at_zero_stays_there_and_no_strength_changes_nothing():
    model = mlp((4, 3, 2), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        model[0].weight[1] = 0.0
    before = [parameter.detach().clone() for parameter in model.parameters()]
    GroupLasso(model, 0.0).on_step(run_at(1.0))
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    GroupLasso(model, 0.1).on_step(run_at(1.0))
    assert model[0].weight[1].eq(0).all() and model[0].weight.isfinite().all()


@pytest.mark.slow
def test_training_finds_the_inputs_that_matter():
    """Two of twelve inputs decide: most of the other columns become exactly 0, and none without the penalty."""
    kept = {}
    for strength in (0.0, 0.03):
        generator = torch.Generator().manual_seed(3)
        x = torch.randn(512, 12, generator=generator)
        y = (x[:, 2] + x[:, 7] > 0).long()
        model = mlp((12, 32, 2), generator=generator)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        settings = {"epochs": 60, "batch_size": 64, "optimizer": optimizer, "generator": generator}
        fit(model, (x, y), **settings, callbacks=[GroupLasso(model, strength)])
        kept[strength] = set(model[0].weight.ne(0).any(0).nonzero().flatten().tolist())
        assert (model(x).argmax(1) == y).double().mean() > 0.9  # chance is 0.5
    assert len(kept[0.0]) == 12
    assert {2, 7} <= kept[0.03] and len(kept[0.03]) <= 6


def test_after_the_last_step_dead_groups_are_held_and_the_others_are_free():
    model = mlp((4, 3, 2), generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        model[0].weight[:, 2] = 1e-6
    callback = GroupLasso(model, 0.1, last_step=5)
    callback.on_step(run_at(0.01, step=5))
    assert model[0].weight[:, 2].eq(0).all()
    resumed = GroupLasso(model, 0.1, last_step=5)
    resumed.load_state_dict(callback.state_dict())
    for one in (callback, resumed):
        with torch.no_grad():
            model[0].weight.add_(1.0)  # as a step of the optimizer
        before = model[0].weight.detach().clone()
        one.on_step(run_at(0.01, step=6))
        assert model[0].weight[:, 2].eq(0).all()
        others = [0, 1, 3]
        assert torch.equal(model[0].weight[:, others], before[:, others])


class Watch(Callback):
    def __init__(self, pruner) -> None:
        self.pruner, self.seen = pruner, []

    def on_step(self, run) -> None:
        zeros = sum(int((w == 0).sum()) for w in self.pruner.weights.values())
        total = sum(w.numel() for w in self.pruner.weights.values())
        self.seen.append(zeros / total)


def test_the_weights_follow_the_cubic_ramp():
    model = mlp((20, 30, 4), generator=torch.Generator().manual_seed(0))
    pruner = AGPPruner(model, frequency=5, **RAMP)
    watch = Watch(pruner)
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(80, 20, generator=generator), torch.randint(4, (80,), generator=generator)
    fit(model, (x, y), epochs=6, batch_size=8, generator=generator, callbacks=[pruner, watch])
    assert len(watch.seen) == 60
    for step, share in enumerate(watch.seen, 1):
        last = min(50, 10 + (step - 10) // 5 * 5) if step >= 10 else 0
        expected = agp_sparsity(last, **RAMP) if last else 0.0
        assert share == pytest.approx(expected, abs=2 / 720)  # each of two layers rounds to whole weights
    assert watch.seen[-1] == pytest.approx(0.9, abs=1 / 720)


REFUSED = [
    *[(lambda c=c: AGPPruner(mlp((2, 2)), **RAMP | c), next(iter(c)))
      for c in ({"final_sparsity": 1.2}, {"end_step": 10}, {"frequency": 0}, {"initial_sparsity": -0.1})],
    (lambda: GroupLasso(mlp((4, 3, 2)), -1.0), "strength is -1"),
    (lambda: GroupLasso(mlp((4, 3, 2)), 1.0, layers=["0", "conv9"]), r"layers has 'conv9', but .* are 0, 2\."),
    (lambda: GroupLasso(nn.ReLU(), 1.0), "ReLU has no linear or convolutional layer"),
    *[(lambda k=k: lasso_step(k), rf"needs torch\.optim\.SGD, .* not {k.__name__}")
      for k in (torch.optim.Adam, torch.optim.RMSprop)],  # the second has a momentum too
]  # fmt: skip


def lasso_step(kind):
    model = mlp((4, 3, 2))
    GroupLasso(model, 1.0).on_step(SimpleNamespace(step=1, optimizer=kind(model.parameters())))


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=range(len(REFUSED)))
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
