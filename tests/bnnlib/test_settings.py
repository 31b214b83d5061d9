"""Settings of layers and stacks have one state each: an assignment reaches value, gradient and representation."""

import copy
import inspect
import math

import pytest
import torch
from torch import nn

from bnnlib import nn as bnn
from bnnlib import replicates as R
from tests.bnnlib.replicates.unstacked import unstack
from tests.seeded import seeded

LAYOUT = R.Layout((5, 4, 2), 3)
MIXTURE = {"slab_scale": 1.0, "spike_scale": 0.1, "prior_inclusion_probability": 0.5}
SPIKE_SLAB = {"prior_inclusion_probability": 0.1, "prior_scale": 1.0, "temperature": 0.5}
STACKED = {"slab_scale": [1.0, 2.0, 0.5], "spike_scale": 0.1, "prior_inclusion_probability": 0.3}
EACH = {"slab_scale": 3.0, "spike_scale": [0.01, 0.2, 0.3], "prior_inclusion_probability": [0.01, 0.5, 0.99]}
# kind of layer or stack, its settings, and other values for each of them
KINDS = [
    *[(kind, {"prior_scale": 1.0}, {"prior_scale": 0.3})
      for kind in (bnn.GaussianLinear, bnn.GaussianConv2d, R.StackedGaussian)],
    *[(kind, MIXTURE, {"slab_scale": 2.0, "spike_scale": 0.02, "prior_inclusion_probability": 0.9})
      for kind in (bnn.GaussianSpikeSlabLinear, bnn.ScaleMixtureLinear)],
    (bnn.GaussianSpikeSlabConv2d, MIXTURE, {"slab_scale": 0.7}),
    (bnn.SpikeSlabLinear, SPIKE_SLAB, {"prior_inclusion_probability": 1e-200, "prior_scale": 2.0, "temperature": 2.0}),
    (bnn.SpikeSlabConv2d, SPIKE_SLAB, {"prior_inclusion_probability": 0.9}),
    (bnn.HorseshoeLinear, {"unit_scale": 1.0, "layer_scale": 1.0}, {"unit_scale": 0.1, "layer_scale": 3.0}),
    (bnn.StructuredBayesianPruning, {"kl_weight": 1.0}, {"kl_weight": 5.0}),
    (bnn.StructuredBayesianPruning, {"lower": -20.0, "upper": 0.0}, {"lower": -10.0, "upper": 2.0}),
    (R.StackedSpikeSlab, SPIKE_SLAB, {"prior_inclusion_probability": [1e-200, 0.5, 0.9], "prior_scale": 2.0,
                                      "temperature": 2.0}),
    (R.StackedGaussianSpikeSlab, STACKED, EACH),
    (R.StackedHorseshoe, {}, {"unit_scale": 0.1, "layer_scale": 0.1, "output_scale": 0.1}),
    (R.StackedInputHorseshoe, {}, {"input_scale": 0.1}),
]  # fmt: skip
CASES = [(kind, start, name, value) for kind, start, values in KINDS for name, value in values.items()]
cases = pytest.mark.parametrize(
    ("kind", "start", "name", "value"), CASES, ids=[f"{kind.__name__}-{name}" for kind, _, name, _ in CASES]
)


def stacked(kind):
    return kind.__name__.startswith("Stacked")


def build(kind, **settings):
    torch.manual_seed(0)
    if stacked(kind):
        module = kind(LAYOUT, LAYOUT.kaiming_uniform(seeded(), torch.float64), **settings)
    else:
        shape = (6,) if kind is bnn.StructuredBayesianPruning else (6, 4, 3) if issubclass(kind, nn.Conv2d) else (6, 4)
        module = kind(*shape, **settings, dtype=torch.float64)
    generator = seeded(1)
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return module


def drawn(module):
    """A pass at given noise."""
    if stacked(type(module)):
        return module.draw(seeded(2))
    conv = isinstance(module, nn.Conv2d)
    x = torch.linspace(-1, 1, 150 if conv else 12, dtype=torch.float64)
    return module(x.reshape(6, 5, 5) if conv else x.reshape(2, 6), seeded(2))


def divergence(module):
    with bnn.use_generator(seeded(3)):  # of Bayes by Backprop, which estimates it
        return module.kl_divergence()


def gradients(module, loss):
    return torch.autograd.grad(loss, list(module.parameters()), retain_graph=True)


def as_column(value):
    return torch.as_tensor(value, dtype=torch.float64).reshape(-1, 1)


@cases
def test_an_assigned_module_is_a_freshly_built_one(kind, start, name, value):
    module, fresh = build(kind, **start), build(kind, **{**start, name: value})
    close = {"rtol": 1e-11, "atol": 1e-12} if stacked(kind) else {"rtol": 0, "atol": 0}  # logarithms are kept there
    before = repr(module)
    drawn(module)  # the token of the value before must not be used
    setattr(module, name, value)
    for one in (module, copy.deepcopy(module)):
        found = as_column(getattr(one, name)).expand_as(as_column(value))
        torch.testing.assert_close(found, as_column(value), rtol=1e-13 if stacked(kind) else 0, atol=0)
    assert repr(module) == repr(fresh)
    assert (repr(module) != before) == (f"{name}=" in before or f"{name}=" in repr(fresh))
    with bnn.use_generator(seeded(3)):
        stale = gradients(module, module.kl_gradient())
    torch.testing.assert_close(stale, gradients(fresh, divergence(fresh).sum()), rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(divergence(module), divergence(fresh), **close)
    for loss in (lambda m: divergence(m).sum(), lambda m: drawn(m).sin().mean() + m.kl_gradient() / 10):
        torch.testing.assert_close(*(gradients(one, loss(one)) for one in (module, fresh)), **close)
    if not stacked(kind):
        assert set(module.state_dict()) == {"_extra_state", *dict(module.named_parameters())}
    elif kind is not R.StackedInputHorseshoe:  # which has no layers
        for r, part in enumerate(module.kl_divergence()):
            total = sum(layer.kl_divergence() for layer in unstack(R.StackedMLP(module, "tanh"), r)[::2])
            torch.testing.assert_close(total, part, rtol=1e-10, atol=0)


@cases
def test_bad_values_are_refused_and_change_nothing(kind, start, name, value):
    module, words = build(kind, **start), {"lower": "the interval is", "upper": "the interval is"}.get(name, name)
    before, at = divergence(module), getattr(module, name)
    refused = [({"lower": 30.0, "upper": -30.0}.get(name, -1.0), words), (math.nan, words)]
    if stacked(kind) and name in STACKED:
        refused.append(([0.15, 0.2], r"2 values, but there are 3 replicates.*one for each"))
        refused.append(([0.15, math.nan, 0.15], f"{name} is a tensor with values"))
    for bad, message in refused:
        with pytest.raises(ValueError, match=message):
            setattr(module, name, bad)
    assert torch.equal(as_column(getattr(module, name)), as_column(at)) and torch.equal(divergence(module), before)


def test_signatures_name_every_setting():
    for kind, shape in ((bnn.SpikeSlabLinear, nn.Linear), (bnn.SpikeSlabConv2d, nn.Conv2d)):
        names = list(inspect.signature(kind).parameters)
        plain = [name for name in inspect.signature(shape).parameters if name not in ("device", "dtype")]
        own = ["prior_inclusion_probability", "prior_scale", "initial_scale", "initial_inclusion_probability"]
        assert names == [*plain, *own, "temperature", "device", "dtype"]

    class Square(bnn.GaussianLinear):
        def __init__(self, width):
            super().__init__(width, width, prior_scale=0.5)

    assert list(inspect.signature(Square).parameters) == ["width"] and Square(3).prior_scale == 0.5


def test_a_prior_of_1e_200_survives_single_precision():
    posterior = build(R.StackedSpikeSlab, prior_inclusion_probability=1e-200)
    exact = posterior.kl_divergence()
    torch.testing.assert_close(posterior.float().kl_divergence().double(), exact, rtol=1e-6, atol=0)
    assert posterior.prior_inclusion_probability == 1e-200
    assert (posterior.draw(None).sum() + posterior.kl_gradient()).isfinite()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
def test_the_priors_of_a_mixture_are_read_back_near_0_and_1(dtype, tolerance):
    weight, given = LAYOUT.kaiming_uniform(None, dtype), torch.tensor([1e-8, 0.5, 1 - 1e-6], dtype=torch.float64)
    posterior = R.StackedGaussianSpikeSlab(LAYOUT, weight, [1.0, 2.7, 1.0], 2.5e-3, given.tolist())
    assert posterior.slab_scale.flatten().tolist() == pytest.approx([1.0, 2.7, 1.0], rel=tolerance)
    assert float(posterior.spike_scale) == pytest.approx(2.5e-3, rel=tolerance)
    # the stack keeps log(tau / pi), about 20 nats, in the precision of its weights
    found = posterior.prior_inclusion_probability.flatten().double()
    torch.testing.assert_close(found, given, rtol=50 * tolerance, atol=0)
    torch.testing.assert_close(1 - found, 1 - given, rtol=50 * tolerance + 1e-9, atol=0)
