"""Settings of a layer: each has one state, so that an assignment reaches value, gradient and representation alike."""

import copy
import inspect
import math

import pytest
import torch
from torch import nn

from bnnlib import nn as bnn

MIXTURE = {"slab_scale": 1.0, "spike_scale": 0.1, "prior_inclusion_probability": 0.5}
SPIKE_SLAB = {"prior_inclusion_probability": 0.1, "prior_scale": 1.0, "temperature": 0.5}
# kind of layer, its settings, and other values for each of them
LAYERS = [
    (bnn.GaussianLinear, {"prior_scale": 1.0}, {"prior_scale": 0.3}),
    (bnn.GaussianConv2d, {"prior_scale": 1.0}, {"prior_scale": 0.3}),
    (
        bnn.GaussianSpikeSlabLinear,
        MIXTURE,
        {"slab_scale": 2.0, "spike_scale": 0.02, "prior_inclusion_probability": 0.9},
    ),
    (bnn.GaussianSpikeSlabConv2d, MIXTURE, {"slab_scale": 0.7}),
    (bnn.ScaleMixtureLinear, MIXTURE, {"slab_scale": 2.0, "spike_scale": 0.02, "prior_inclusion_probability": 0.9}),
    (bnn.SpikeSlabLinear, SPIKE_SLAB, {"prior_inclusion_probability": 1e-200, "prior_scale": 2.0, "temperature": 2.0}),
    (bnn.SpikeSlabConv2d, SPIKE_SLAB, {"prior_inclusion_probability": 0.9}),
    (bnn.HorseshoeLinear, {"unit_scale": 1.0, "layer_scale": 1.0}, {"unit_scale": 0.1, "layer_scale": 3.0}),
    (bnn.StructuredBayesianPruning, {"kl_weight": 1.0}, {"kl_weight": 5.0}),
    (bnn.StructuredBayesianPruning, {"lower": -20.0, "upper": 0.0}, {"lower": -10.0, "upper": 2.0}),
]
CASES = [(kind, start, name, value) for kind, start, values in LAYERS for name, value in values.items()]
cases = pytest.mark.parametrize(
    ("kind", "start", "name", "value"), CASES, ids=[f"{kind.__name__}-{name}" for kind, _, name, _ in CASES]
)


def build(kind, **settings):
    torch.manual_seed(0)
    shape = (6,) if kind is bnn.StructuredBayesianPruning else (6, 4, 3) if issubclass(kind, nn.Conv2d) else (6, 4)
    layer = kind(*shape, **settings, dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return layer


def passed(layer, seed=2):
    """A forward pass at given noise."""
    conv = isinstance(layer, nn.Conv2d)
    x = torch.linspace(-1, 1, 150 if conv else 12, dtype=torch.float64)
    return layer(x.reshape(6, 5, 5) if conv else x.reshape(2, 6), torch.Generator().manual_seed(seed))


def divergence(layer):
    with bnn.use_generator(torch.Generator().manual_seed(3)):  # of Bayes by Backprop, which estimates it
        return layer.kl_divergence()


def gradients(layer, loss):
    return torch.autograd.grad(loss, list(layer.parameters()), retain_graph=True)


@cases
def test_an_assigned_layer_is_a_freshly_built_one(kind, start, name, value):
    layer, fresh = build(kind, **start), build(kind, **{**start, name: value})
    before = repr(layer)
    setattr(layer, name, value)
    assert getattr(layer, name) == value and repr(layer) == repr(fresh)
    assert (repr(layer) != before) == (f"{name}=" in before or f"{name}=" in repr(fresh))
    assert torch.equal(divergence(layer), divergence(fresh))
    for ours, theirs in zip(gradients(layer, divergence(layer)), gradients(fresh, divergence(fresh)), strict=True):
        assert torch.equal(ours, theirs)
    losses = [passed(module).sin().mean() + module.kl_gradient() / 10 for module in (layer, fresh)]
    for ours, theirs in zip(gradients(layer, losses[0]), gradients(fresh, losses[1]), strict=True):
        assert torch.equal(ours, theirs)
    assert getattr(copy.deepcopy(layer), name) == value
    assert set(layer.state_dict()) == {"_extra_state", *dict(layer.named_parameters())}


@cases
def test_a_pass_before_an_assignment_leaves_no_stale_gradient(kind, start, name, value):
    layer = build(kind, **start)
    passed(layer)
    setattr(layer, name, value)
    with bnn.use_generator(torch.Generator().manual_seed(3)):
        gradient = layer.kl_gradient()
    for ours, theirs in zip(gradients(layer, gradient), gradients(layer, divergence(layer)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


@cases
def test_bad_values_are_refused_and_change_nothing(kind, start, name, value):
    layer = build(kind, **start)
    before, at = divergence(layer), getattr(layer, name)
    for bad in (-30.0 if name == "upper" else 30.0 if name == "lower" else -1.0, math.nan):
        with pytest.raises(ValueError, match=name if name not in ("lower", "upper") else "the interval is"):
            setattr(layer, name, bad)
    assert getattr(layer, name) == at and torch.equal(divergence(layer), before)


def test_signatures_name_every_setting():
    for kind, shape in ((bnn.SpikeSlabLinear, nn.Linear), (bnn.SpikeSlabConv2d, nn.Conv2d)):
        names = list(inspect.signature(kind).parameters)
        plain = [name for name in inspect.signature(shape).parameters if name not in ("device", "dtype")]
        assert names[: len(plain)] == plain and names[-2:] == ["device", "dtype"]
        own = ["prior_inclusion_probability", "prior_scale", "initial_scale", "initial_inclusion_probability"]
        assert names[len(plain) : -2] == [*own, "temperature"]

    class Square(bnn.GaussianLinear):
        def __init__(self, width):
            super().__init__(width, width, prior_scale=0.5)

    assert list(inspect.signature(Square).parameters) == ["width"] and Square(3).prior_scale == 0.5
