"""Settings of a stacked posterior: an assignment reaches value and gradient, and bad values are refused."""

import math

import pytest
import torch

from bnnlib import replicates as R
from tests.bnnlib.replicates.unstacked import unstack

LAYOUT = R.Layout((5, 4, 2), 3)
MIXTURE = {"slab_scale": [1.0, 2.0, 0.5], "spike_scale": 0.1, "prior_inclusion_probability": 0.3}
SPIKE_SLAB = {"prior_inclusion_probability": 0.1, "prior_scale": 1.0, "temperature": 0.5}
CASES = [
    (R.StackedGaussian, {"prior_scale": 1.0}, "prior_scale", 0.3),
    (R.StackedSpikeSlab, SPIKE_SLAB, "prior_inclusion_probability", [1e-200, 0.5, 0.9]),
    (R.StackedSpikeSlab, SPIKE_SLAB, "prior_scale", 2.0),
    (R.StackedSpikeSlab, SPIKE_SLAB, "temperature", 2.0),
    (R.StackedGaussianSpikeSlab, MIXTURE, "slab_scale", 3.0),
    (R.StackedGaussianSpikeSlab, MIXTURE, "spike_scale", [0.01, 0.2, 0.3]),
    (R.StackedGaussianSpikeSlab, MIXTURE, "prior_inclusion_probability", [0.01, 0.5, 0.99]),
    (R.StackedHorseshoe, {}, "unit_scale", 0.1),
    (R.StackedHorseshoe, {}, "layer_scale", 0.1),
    (R.StackedHorseshoe, {}, "output_scale", 0.1),
    (R.StackedInputHorseshoe, {}, "input_scale", 0.1),
]
cases = pytest.mark.parametrize(
    ("kind", "start", "name", "value"), CASES, ids=[f"{kind.__name__}-{name}" for kind, _, name, _ in CASES]
)


def build(kind, **settings):
    generator = torch.Generator().manual_seed(0)
    posterior = kind(LAYOUT, LAYOUT.kaiming_uniform(generator, torch.float64), **settings)
    with torch.no_grad():
        for p in posterior.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return posterior


def gradients(posterior, loss):
    return torch.autograd.grad(loss, list(posterior.parameters()), retain_graph=True)


@cases
def test_an_assigned_posterior_is_a_freshly_built_one(kind, start, name, value):
    posterior, fresh = build(kind, **start), build(kind, **{**start, name: value})
    posterior.draw(torch.Generator().manual_seed(2))  # the token of the value before must not be used
    setattr(posterior, name, value)
    column = torch.as_tensor(value, dtype=torch.float64).reshape(-1, 1)
    torch.testing.assert_close(
        torch.as_tensor(getattr(posterior, name), dtype=column.dtype).expand_as(column), column, rtol=1e-13, atol=0
    )
    torch.testing.assert_close(posterior.kl_divergence(), fresh.kl_divergence(), rtol=1e-12, atol=0)
    stale, exact = gradients(posterior, posterior.kl_gradient()), gradients(fresh, fresh.kl_divergence().sum())
    torch.testing.assert_close(stale, exact, rtol=1e-11, atol=1e-12)
    draws = [
        one.draw(torch.Generator().manual_seed(2)).sin().sum() + one.kl_gradient(0.1) for one in (posterior, fresh)
    ]
    torch.testing.assert_close(*map(gradients, (posterior, fresh), draws), rtol=1e-11, atol=1e-12)
    if kind is not R.StackedInputHorseshoe:  # which has no layers
        for r, part in enumerate(posterior.kl_divergence()):
            total = sum(layer.kl_divergence() for layer in unstack(R.StackedMLP(posterior, "tanh"), r)[::2])
            torch.testing.assert_close(total, part, rtol=1e-10, atol=0)


@cases
def test_bad_values_are_refused_and_change_nothing(kind, start, name, value):
    posterior = build(kind, **start)
    before = posterior.kl_divergence()
    for bad in (-1.0, math.nan):
        with pytest.raises(ValueError, match=name):
            setattr(posterior, name, bad)
    if name in ("slab_scale", "spike_scale", "prior_inclusion_probability"):
        with pytest.raises(ValueError, match=r"2 values, but there are 3 replicates.*one for each"):
            setattr(posterior, name, [0.15, 0.2])
        with pytest.raises(ValueError, match=f"{name} is a tensor with values"):
            setattr(posterior, name, [0.15, math.nan, 0.15])
    assert torch.equal(posterior.kl_divergence(), before)


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
