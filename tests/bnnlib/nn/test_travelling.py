"""Settings travel with the parameters: what is loaded has the prior that it was trained with."""

import copy

import pytest
import torch
from torch import nn

from bnnlib import nn as bnn
from bnnlib import replicates
from tests.saved import saved


def test_priors_travel_exactly_in_every_dtype():
    layer = bnn.SpikeSlabLinear(5, 4, prior_inclusion_probability=1e-200, prior_scale=1 / 3, temperature=0.7)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        other = bnn.SpikeSlabLinear(5, 4, prior_inclusion_probability=0.5, dtype=dtype)
        other.load_state_dict(saved(copy.deepcopy(layer).to(dtype).state_dict()))
        assert (other.prior_inclusion_probability, other.prior_scale, other.temperature) == (1e-200, 1 / 3, 0.7)


def test_every_layer_loads_into_one_of_other_settings(linear):
    trained, other = linear(5, 4).double(), linear(5, 4).double()
    for name in trained._all_settings():
        if "probability" in name:
            setattr(trained, name, 0.123)
        elif name == "spike_scale":
            trained.spike_scale = 0.01
        else:
            setattr(trained, name, 1.3 * getattr(trained, name))
    other.load_state_dict(saved(trained.state_dict()))
    for name in trained._all_settings():
        assert getattr(other, name) == getattr(trained, name)
    if not isinstance(trained, bnn.ScaleMixtureLinear):
        assert torch.equal(other.kl_divergence(), trained.kl_divergence())


def test_settings_that_go_together_move_together():
    wide = bnn.GaussianSpikeSlabLinear(5, 4, slab_scale=10.0, spike_scale=1.0)
    narrow = bnn.GaussianSpikeSlabLinear(5, 4, slab_scale=0.1, spike_scale=0.01)
    wide.load_state_dict(narrow.state_dict())
    assert (wide.slab_scale, wide.spike_scale) == (0.1, 0.01)
    noise = bnn.StructuredBayesianPruning(4, lower=-10.0, upper=-5.0, initial_location=-6.0, kl_weight=3.0)
    other = bnn.StructuredBayesianPruning(4)
    other.load_state_dict(noise.state_dict())
    assert (other.lower, other.upper, other.kl_weight) == (-10.0, -5.0, 3.0)


def test_modules_converted_by_parameter_keep_their_prior():
    trained, other = (bnn.to_bayesian(nn.LSTM(3, 4), prior_scale=scale) for scale in (0.3, 1.0))
    other.load_state_dict(saved(trained.state_dict()))
    assert other.prior_scale == bnn.bayesian_layers(other)[0].prior_scale == 0.3
    assert torch.equal(other.kl_divergence(), trained.kl_divergence())


def test_a_stack_keeps_the_prior_of_each_network():
    layout, columns = replicates.Layout((5, 4, 2), 3), ([1.0, 2.7, 0.5], 0.05, [0.5, 0.1, 0.6])
    trained, other = (
        replicates.StackedGaussianSpikeSlab(layout, layout.kaiming_uniform(None), *priors)
        for priors in (columns, (5.0, [0.01, 0.02, 0.03], 0.2))
    )
    other.load_state_dict(saved(trained.state_dict()))
    assert torch.equal(other.kl_divergence(), trained.kl_divergence())


def test_a_state_without_settings_leaves_them_alone():
    layer = bnn.GaussianLinear(5, 4, prior_scale=0.3)
    state = layer.state_dict()
    del state["_extra_state"]
    layer.load_state_dict(state)
    layer.load_state_dict(nn.Linear(5, 4).state_dict())
    assert layer.prior_scale == 0.3


def test_bad_settings_are_explained_and_change_nothing():
    layer = bnn.GaussianSpikeSlabLinear(5, 4, slab_scale=1.0, spike_scale=0.1)
    state = layer.state_dict()
    for damaged, words in (
        (state["_extra_state"][:-3], "cannot be read"),
        (bnn.HorseshoeLinear(5, 4).get_extra_state(), "another kind of layer"),
        (torch.tensor(list(b'{"slab_scale": 0.01}'), dtype=torch.uint8), "spike must be narrower"),
    ):
        with pytest.raises(ValueError, match=words):
            layer.load_state_dict({**state, "_extra_state": damaged})
        assert (layer.slab_scale, layer.spike_scale) == (1.0, 0.1)


def test_weight_decay_leaves_posteriors_alone():
    model = nn.Sequential(
        nn.Linear(5, 4), nn.LayerNorm(4), bnn.SpikeSlabLinear(4, 4, prior_inclusion_probability=0.1), nn.Linear(4, 2)
    )
    before = copy.deepcopy(model)
    groups = bnn.parameter_groups(model, 0.5)
    assert [len(group["params"]) for group in groups] == [2, 10]
    optimizer = torch.optim.AdamW(groups, lr=0.1)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    for (name, p), old in zip(model.named_parameters(), before.parameters(), strict=True):
        assert torch.equal(p, old) != (name in ("0.weight", "3.weight"))
    assert len(bnn.parameter_groups(model[2], 0.5)) == 1
    with pytest.raises(ValueError, match="weight_decay is -1"):
        bnn.parameter_groups(model, -1.0)
