"""The group spike-and-slab prior: what it chooses, what it removes, what it refuses."""

import copy
import math

import pytest
import torch
from torch import nn

from bnnlib import functional as bF
from bnnlib.optim import AdaptiveVariational, GroupSpikeSlab
from tests.refused import refusals
from tests.seeded import seeded

SPIKE, SLAB, N = 1e-2, 2e-4, 10_240


def linear(*scales: float) -> nn.Linear:
    """A layer whose input columns have the given root mean squares."""
    layer = nn.Linear(len(scales), 3)
    layer.weight.data.copy_(torch.tensor(scales) * torch.tensor([[1.0], [-1.0], [1.0]]))
    return layer


def prior_of(layer, **settings) -> GroupSpikeSlab:
    return GroupSpikeSlab(layer, SPIKE, SLAB, N, **({"names": ["weight"]} | settings))


def test_the_e_step_chooses_a_decay_by_the_threshold_and_takes_it_back():
    layer = linear(1.0, 0.1, 0.3)
    prior = prior_of(layer)
    assert prior.threshold("weight") == bF.group_threshold(SPIKE, SLAB, N, 3)  # 0.039: a root of 0.197
    prior.update()
    torch.testing.assert_close(prior.decay["weight"], torch.tensor([[SLAB, SPIKE, SLAB]]))
    torch.testing.assert_close(prior.slab_probability()["weight"] > 0.5, torch.tensor([[True, False, True]]))
    layer.weight.data[:, :2] *= torch.tensor([0.1, 10.0])
    prior.update()
    torch.testing.assert_close(prior.decay["weight"], torch.tensor([[SPIKE, SLAB, SLAB]]))
    assert layer.weight.count_nonzero() == 9 and prior.sparsity() == 0.0


def test_a_removed_group_stays_removed():
    layer = linear(1.0, 0.02, 0.3)
    prior = prior_of(layer, soft_threshold=0.01, hard_threshold=1e-3)
    prior.update()
    assert layer.weight.abs().amax(dim=0).tolist() == pytest.approx([1.0, 0.0, 0.3])
    assert prior.kept()["weight"].tolist() == [[True, False, True]]
    assert prior.sparsity().item() == pytest.approx(1 / 3)
    layer.weight.data.fill_(1.0)
    prior.hold_()
    assert not layer.weight[:, 1].any()
    prior.update()
    assert not prior.kept()["weight"][0, 1]


def test_a_step_of_the_optimizer_decays_and_holds_by_group():
    layer = linear(1.0, 0.02, 0.15)
    prior = prior_of(layer, hard_threshold=1e-3)
    prior.update()
    fixed = {"temperature": 0.0, "scale_lr": 0.0, "initial_scale": 1.0, "momentum": 0.0, "weight_decay": 0.5}
    optimizer = AdaptiveVariational(layer.parameters(), 1.0, N, prior=prior, **fixed)
    before, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
    layer.weight.grad, layer.bias.grad = torch.zeros(3, 3), torch.zeros(3)
    layer.weight.grad[:, 1] = 1.0
    optimizer.step()
    torch.testing.assert_close(layer.weight.detach(), before * torch.tensor([1.0 - SLAB, 0.0, 1.0 - SPIKE]))
    torch.testing.assert_close(layer.bias.detach(), 0.5 * bias)  # not under the prior: the optimizer's own decay


def test_with_another_optimizer_the_gradient_is_that_of_the_prior():
    layer = linear(1.0, 0.1)
    prior = prior_of(layer)
    with pytest.raises(ValueError, match="no gradient"):
        prior.add_gradient_()
    prior.update()
    layer.weight.grad = torch.zeros(3, 2)
    prior.add_gradient_()
    torch.testing.assert_close(layer.weight.grad, layer.weight.detach() * torch.tensor([SLAB, SPIKE]))


@pytest.mark.parametrize("kind", ["input", "output", "kernel"])
def test_every_network_of_a_stack_has_groups_of_its_own(kind):
    weight = torch.randn(3, 4, 5, 3, 3, generator=seeded()) * torch.tensor([1.0, 0.2, 0.05]).view(3, 1, 1, 1, 1)
    settings = {"kind": kind, "hard_threshold": 0.02, "when_empty": "allow"}
    stack = {"w": nn.Parameter(weight.clone())}
    together = GroupSpikeSlab(stack, SPIKE, SLAB, N, batch_dims=1, **settings)
    together.update()
    for r in range(3):
        alone = GroupSpikeSlab({"w": nn.Parameter(weight[r].clone())}, SPIKE, SLAB, N, **settings)
        alone.update()
        assert torch.equal(together.decay["w"][r], alone.decay["w"])
        assert torch.equal(stack["w"][r], alone.weights["w"])
        assert together.sparsity()[r] == alone.sparsity()


def test_channels_are_removed_by_their_range_and_kernels_choose_the_decay():
    layer = nn.Conv2d(3, 4, 3)
    layer.weight.data.normal_(generator=seeded(0))
    layer.weight.data[2] *= 1e-3
    layer.weight.data[:, 1] = 0.05  # without a range
    layer.weight.data[0, 0] *= 0.1
    prior = prior_of(layer, kind="channel", soft_threshold=0.1, hard_threshold=0.1)
    prior.update()
    assert not layer.weight[:, 1].any() and not layer.weight[2].any()
    kept = prior.kept()["weight"][:, :, 0, 0]
    assert kept.tolist() == [[True, False, True], [True, False, True], [False] * 3, [True, False, True]]
    assert prior.decay["weight"].shape == (4, 3, 1, 1)
    assert prior.decay["weight"][0, 0].item() == pytest.approx(SPIKE)
    assert prior.decay["weight"][3, 2].item() == pytest.approx(SLAB)


def test_all_groups_removed_is_refused_and_changes_nothing():
    layer = linear(0.01, 0.02)
    prior = prior_of(layer, hard_threshold=1e-2)
    before = layer.weight.detach().clone()
    with pytest.raises(ValueError, match=r"all groups of weight would be removed: .* hard_threshold = 0\.01"):
        prior.update()
    assert torch.equal(layer.weight, before) and prior.sparsity() == 0.0
    stack = {"w": nn.Parameter(torch.stack([torch.ones(3, 2), before]))}
    with pytest.raises(ValueError, match=r"in the networks \[1\]"):
        GroupSpikeSlab(stack, SPIKE, SLAB, N, hard_threshold=1e-2, batch_dims=1).update()
    allowed = prior_of(layer, hard_threshold=1e-2, when_empty="allow")
    allowed.update()
    assert not layer.weight.any() and allowed.sparsity() == 1.0


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_refused(value):
    layer = linear(1.0, 1.0)
    layer.weight.data[0, 0] = value
    with pytest.raises(ValueError, match="NaN or infinite"):
        prior_of(layer, hard_threshold=1e-3).update()


def test_state_goes_to_another_prior_and_a_copy_keeps_its_own():
    layer, other = linear(1.0, 0.02, 0.15), linear(1.0, 1.0, 1.0)
    prior, later = (prior_of(one, hard_threshold=1e-3) for one in (layer, other))
    prior.update()
    later.load_state_dict(prior.state_dict())
    assert torch.equal(later.decay["weight"], prior.decay["weight"]) and not other.weight[:, 1].any()
    pair = copy.deepcopy((layer, prior))
    assert pair[1].decay_of(pair[0].weight) is not None and pair[1].decay_of(layer.weight) is None
    with pytest.raises(ValueError, match="other weights or groups"):
        prior_of(linear(1.0, 1.0)).load_state_dict(prior.state_dict())


def test_a_module_gives_all_weights_that_have_such_groups():
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 2))
    assert list(GroupSpikeSlab(model, SPIKE, SLAB, N).weights) == ["0.weight", "3.weight"]
    assert list(GroupSpikeSlab(model, SPIKE, SLAB, N, kind="channel").weights) == ["0.weight"]
    assert list(GroupSpikeSlab(model, SPIKE, SLAB, N, names="3.*eight").weights) == ["3.weight"]


GIVEN = {"spike": SPIKE, "slab": SLAB, "num_data": N, "names": ["weight"]}
BAD = [
    ({"spike": 1e-4}, "must be the stronger one"),
    *(({name: value}, f"{name} is {value!r}") for name, values in (
        ("slab", (-1,)), ("num_data", (0, None)), ("kind", ("row",)), ("soft_threshold", (-0.1, math.nan)),
        ("hard_threshold", (0,)), ("prior_slab_probability", (0,)), ("when_empty", ("ignore",)), ("warm_up", (-1,)),
    ) for value in values),
    ({"names": ["conv*"]}, "names has 'conv\\*', which no parameter fits"),
    ({"names": ["bias"]}, "at least 2 dimensions"),
    ({"kind": "kernel", "names": None}, "at least 3 dimensions"),
]  # fmt: skip
test_bad_settings_are_named = refusals(
    [(lambda s=s: GroupSpikeSlab(linear(1.0, 1.0), **(GIVEN | s)), words) for s, words in BAD]
)


def test_as_a_callback_it_waits_for_the_warm_up():
    layer = linear(1.0, 0.02)
    prior = prior_of(layer, hard_threshold=1e-3, warm_up=2)

    class Run:
        epoch = 2

    prior.on_epoch(Run)
    assert prior.sparsity() == 0.0
    Run.epoch = 3
    prior.on_epoch(Run)
    assert prior.sparsity() == 0.5
    layer.weight.data.fill_(1.0)
    prior.on_step(Run)
    assert not layer.weight[:, 1].any()
