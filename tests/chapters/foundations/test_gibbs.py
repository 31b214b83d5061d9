"""The Gibbs sampler against enumeration, and against a grid where the spike is Laplace."""

import math

import pytest
import torch

from chapters.foundations.enumeration import SpikeSlabRegression, enumerate_models, spike_slab_regression
from chapters.foundations.gibbs import gibbs
from chapters.foundations.regression import correlated_inputs


def problem(correlation, count=2, p=3, **prior):
    generator = torch.Generator().manual_seed(5)
    x = correlated_inputs((count, 40, p), correlation, generator)
    w = torch.tensor([0.0, 0.25, 0.6], dtype=torch.float64)[:p]
    y = x @ w + torch.randn(count, 40, generator=generator, dtype=torch.float64)
    return spike_slab_regression(x, y, inclusion=0.4, **prior)


@pytest.mark.parametrize("spike", [0.0, 0.15])
def test_the_sampler_agrees_with_enumeration(spike):
    stack = problem(0.5, spike_scale=spike)
    found = gibbs(stack, chains=40, sweeps=400, burn_in=50, generator=torch.Generator().manual_seed(0))
    exact = enumerate_models(stack)
    # 40 chains are independent of each other: their spread is the error
    assert ((found.inclusion - exact.inclusion).abs() < 4 * found.standard_error).all()
    assert found.standard_error.max() < 0.01
    assert (found.r_hat < 1.05).all()  # chains of 400 sweeps
    assert ((found.mean - exact.mean).abs() < 0.05 * exact.scale).all()
    assert torch.allclose(found.scale, exact.scale, rtol=0.05)


def test_a_laplace_spike_agrees_with_a_grid():
    own, cross, scale = 40.0, 9.0, 0.1
    w = torch.linspace(-3.0, 3.0, 60_001, dtype=torch.float64)
    fit = cross * w - 0.5 * own * w**2
    slab = math.log(0.4) + fit - 0.5 * w**2 - 0.5 * math.log(2 * math.pi)
    spike = math.log(0.6) + fit - w.abs() / scale - math.log(2 * scale)
    both = torch.stack([slab, spike]).exp()
    share = both / both.sum()
    tensors = torch.full((1, 1), own, dtype=torch.float64), torch.full((1,), cross, dtype=torch.float64)
    one = SpikeSlabRegression(*tensors, torch.zeros((), dtype=torch.float64), inclusion=0.4)
    generator = torch.Generator().manual_seed(0)
    found = gibbs(one, chains=200, sweeps=200, burn_in=1, laplace_scale=scale, generator=generator)
    # with one weight the conditional probability is the answer; the draws are independent
    assert found.inclusion.item() == pytest.approx(share[0].sum().item(), abs=1e-6)
    mean = (share * w).sum().item()
    sd = ((share * w**2).sum() - mean**2).sqrt().item()
    assert found.mean.item() == pytest.approx(mean, abs=4 * sd / 200)
    assert found.scale.item() == pytest.approx(sd, rel=0.02)


def test_the_same_seed_gives_the_same_draws():
    stack = problem(0.5)
    first, second = (
        gibbs(stack, chains=3, sweeps=10, burn_in=0, generator=torch.Generator().manual_seed(1)) for _ in range(2)
    )
    assert first.inclusion.equal(second.inclusion)
