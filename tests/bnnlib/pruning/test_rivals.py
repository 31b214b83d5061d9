"""Rivals that prune while they train: what the groups are, and that a step is the proximal map."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from bnnlib.models import mlp
from bnnlib.pruning import GroupLasso
from bnnlib.train.fit import fit
from chapters.shared.networks import lenet5_caffe
from tests.seeded import seeded


def run_at(rate: float, momentum: float = 0.0, step: int = 1) -> SimpleNamespace:
    """As much of a run as the callback looks at."""
    sgd = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=rate, momentum=momentum)
    return SimpleNamespace(step=step, optimizer=sgd)


def test_each_weight_is_shrunk_at_the_rate_of_its_own_group():
    def shrunk(sgd_of, layers):
        model = mlp((5, 4, 3), generator=seeded(0))
        GroupLasso(model, 0.1, layers=layers).on_step(SimpleNamespace(step=1, optimizer=sgd_of(model)))
        return [model[0].weight, model[2].weight]

    def groups(model):
        slow = {"params": model[2].parameters(), "lr": 0.1, "momentum": 0.5}
        return torch.optim.SGD([{"params": model[0].parameters()}, slow], lr=1.0)

    first, second = shrunk(groups, None)
    assert torch.equal(first, shrunk(lambda model: run_at(1.0).optimizer, "0")[0])
    assert torch.equal(second, shrunk(lambda model: run_at(0.1, 0.5).optimizer, "2")[1])


def test_layers_that_are_not_named_stay():
    model = mlp((5, 4, 3), generator=seeded(0))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    GroupLasso(model, 0.1, layers=("0",)).on_step(run_at(1.0))
    same = [torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True)]
    assert same == [False, True, True, True]


def test_groups_of_a_convolutional_network():
    """Filters and channels of the convolutions but for the one input, rows and columns of fc1, columns of fc2."""
    model = lenet5_caffe(generator=seeded(0))

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
    layer.weight.data.copy_(torch.randn(6, 2, generator=seeded(1)) * torch.tensor([1.0, 0.05]))
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


SOFT = [
    lambda weights: torch.optim.SGD(weights, lr=0.05),
    lambda weights: torch.optim.SGD(weights, lr=0.05, momentum=0.9),
    lambda weights: torch.optim.SGD(weights, lr=0.5, momentum=0.9, dampening=0.9),
    lambda weights: torch.optim.SGD(weights, lr=0.05, dampening=0.5),  # which counts with a momentum alone
    lambda weights: torch.optim.Adam(weights, lr=0.01),
    lambda weights: torch.optim.AdamW(weights, lr=0.01, weight_decay=0.0, amsgrad=True),
]


@pytest.mark.parametrize("optimizer_of", SOFT)
def test_training_ends_at_the_minimum_whatever_the_optimizer(optimizer_of):
    """One weight v, loss (w - v)^2 / 2: the minimum of loss + strength |w| is v - strength."""
    layer = nn.Linear(1, 2, bias=False)
    model = nn.Sequential(layer, nn.Linear(2, 1, bias=False))  # so that the rows of `layer` are groups
    layer.weight.data.fill_(1.0)
    model[1].weight.data.zero_()
    callback, optimizer = GroupLasso(model, 0.25), optimizer_of([layer.weight])
    for _ in range(600):
        optimizer.zero_grad()
        (0.5 * (layer.weight - 1.0).square()).sum().backward()
        optimizer.step()
        callback.on_step(SimpleNamespace(step=1, optimizer=optimizer))
    # O(learning rate) of the split step, which momentum makes ten times as long
    assert layer.weight.flatten().tolist() == pytest.approx([0.75] * 2, abs=1e-2)


@pytest.mark.parametrize("amsgrad", [False, True])
def test_a_step_of_adam_minimizes_the_objective_in_its_own_metric(amsgrad):
    """sum h (w - v)^2 / 2 + t |w| of a column, h what Adam divided by: the slope is 0 at w, or no slope leads off 0."""
    generator, betas = seeded(1), (0.8, 0.9)
    layer = nn.Linear(3, 6, bias=False)
    layer.weight.data.copy_(torch.randn(6, 3, generator=generator) * torch.tensor([1.0, 0.02, 0.3]))
    adam = torch.optim.Adam(layer.parameters(), lr=0.01, betas=betas, eps=1e-3, amsgrad=amsgrad)
    squares = torch.zeros(6, 3, dtype=torch.float64)
    largest = squares.clone()
    for _ in range(3):
        layer.weight.grad = torch.randn(6, 3, generator=generator) * torch.rand(6, 3, generator=generator)
        squares = betas[1] * squares + (1.0 - betas[1]) * layer.weight.grad.double() ** 2
        largest = torch.maximum(largest, squares)
        adam.step()
    h = ((largest if amsgrad else squares) / (1.0 - betas[1] ** 3)).sqrt() + 1e-3
    v, t = layer.weight.detach().double().clone(), 0.01 * 8.0
    GroupLasso(nn.Sequential(layer), strength=8.0).on_step(SimpleNamespace(step=3, optimizer=adam))
    w = layer.weight.detach().double()
    gone = (h * v).norm(dim=0) <= t
    assert 0 < gone.sum() < 3 and w[:, gone].eq(0).all()
    slope = h * (w - v) + t * w / w.norm(dim=0)
    # two Newton steps, which shrink these columns by a tenth to a half; a step of training does by far less
    assert slope[:, ~gone].abs().max() < 1e-3 * t


def test_a_group_at_zero_stays_there():
    model = mlp((4, 3, 2), generator=seeded(2))
    model[0].weight.data[1] = 0.0
    GroupLasso(model, 0.1).on_step(run_at(1.0))
    assert model[0].weight[1].eq(0).all() and model[0].weight.isfinite().all()


@pytest.mark.slow
def test_training_finds_the_inputs_that_matter():
    """Two of twelve inputs decide: most of the other columns become exactly 0, and none without the penalty."""
    kept = {}
    for strength in (0.0, 0.03):
        generator = seeded(3)
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
    model = mlp((4, 3, 2), generator=seeded(4))
    model[0].weight.data[:, 2] = 1e-6
    callback = GroupLasso(model, 0.1, last_step=5)
    callback.on_step(run_at(0.01, step=5))
    assert model[0].weight[:, 2].eq(0).all()
    resumed = GroupLasso(model, 0.1, last_step=5)
    resumed.load_state_dict(callback.state_dict())
    for one in (callback, resumed):
        model[0].weight.data.add_(1.0)  # as a step of the optimizer
        before = model[0].weight.detach().clone()
        one.on_step(run_at(0.01, step=6))
        assert model[0].weight[:, 2].eq(0).all()
        others = [0, 1, 3]
        assert torch.equal(model[0].weight[:, others], before[:, others])


OPTIMIZERS = [torch.optim.SGD, torch.optim.AdamW]


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_what_is_frozen_stays_and_a_nan_is_not_hidden(kind):
    model = mlp((4, 3, 2), generator=seeded(2))
    optimizer, callback = kind(model.parameters(), lr=0.01), GroupLasso(model, 50.0, last_step=2)
    model(torch.randn(5, 4, generator=seeded(3))).square().sum().backward()
    optimizer.step()
    model[0].weight.requires_grad_(False)
    model[2].weight.data[0, 0] = math.nan
    before = model[0].weight.clone()
    for step in (1, 2, 3):
        callback.on_step(SimpleNamespace(step=step, optimizer=optimizer))
    assert torch.equal(model[0].weight, before)
    assert model[2].weight[0, 0].isnan() and model[2].weight[:, 1:].eq(0.0).all()


@pytest.mark.parametrize(
    ("kind", "rate", "strength", "steps"),
    [(torch.optim.SGD, 1.0, 0.0, 0), (torch.optim.Adam, 1e-3, 0.1, 0), *((kind, 0.0, 0.1, 1) for kind in OPTIMIZERS)],
)
def test_no_strength_no_rate_and_adam_before_its_first_step_change_nothing(kind, rate, strength, steps):
    model = mlp((4, 3, 2), generator=seeded(2))
    optimizer = kind(model.parameters(), lr=rate)
    for _ in range(steps):
        model(torch.randn(5, 4, generator=seeded(3))).square().sum().backward()
        optimizer.step()
    before = [parameter.clone() for parameter in model.parameters()]
    GroupLasso(model, strength).on_step(SimpleNamespace(step=1, optimizer=optimizer))
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


def test_a_run_that_is_resumed_beyond_the_last_step_is_shrunk_once_and_then_held():
    model = mlp((4, 3, 2), generator=seeded(2))
    callback = GroupLasso(model, 0.1, last_step=3)
    callback.load_state_dict(GroupLasso(model, 1.0, last_step=9).state_dict())
    model[0].weight.data[0] *= 1e-3
    callback.on_step(run_at(0.1, step=7))
    assert model[0].weight[0].eq(0.0).all()
    model[0].weight.data += 1.0
    callback.on_step(run_at(0.1, step=8))
    assert model[0].weight[0].eq(0.0).all() and model[0].weight[1:].gt(0.1).all()
    with pytest.raises(ValueError, match="groups of shapes"):
        GroupLasso(mlp((5, 3, 2)), 1.0).load_state_dict(callback.state_dict())


def test_the_layer_that_makes_the_outputs_can_be_named_and_grouped_filters_are_groups():
    model = mlp((5, 4, 3), generator=seeded(0))
    dims = [(weight is model[0].weight, dim) for weight, dim, _ in GroupLasso(model, 0.1, outputs="0").groups]
    assert dims == [(True, 1), (False, 0), (False, 1)]
    depthwise = nn.Sequential(nn.Conv1d(4, 4, 3, groups=2), nn.Conv3d(4, 2, 3))
    assert [(weight.dim(), dim) for weight, dim, _ in GroupLasso(depthwise, 0.1).groups] == [(3, 0), (5, 1)]
    assert len(GroupLasso(model, 0.1, layers=["0", "0"]).groups) == 2
