"""Equations of the Metropolis-Hastings chapter about its own targets and pairs, each checked by another computation."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from chapters.acceptance import pairs, targets


# equation: mh-theorem
@pytest.mark.parametrize(
    ("distance", "width", "shape"), [(1.0, 0.5, "normal"), (0.5, 2.0, "Student t"), (3.0, 1.0, "normal")]
)
def test_one_sum_over_the_order_is_the_double_integral(distance, width, shape):
    p, q = pairs.target()[::4], pairs.density(distance, width, shape)[::4]
    step = 4 * (pairs.GRID[1] - pairs.GRID[0])
    double = np.minimum(np.outer(p, q), np.outer(q, p)).sum() * step**2
    assert pairs.acceptance_rate(p, q, step) == pytest.approx(double, rel=1e-12)


# equation: mh-between
def test_the_rate_lies_between_the_distances_of_the_two_densities():
    generator = np.random.default_rng(0)
    for _ in range(200):
        p, q = generator.dirichlet(np.full(6, 0.4), size=2)
        distance, rate = 0.5 * np.abs(p - q).sum(), pairs.acceptance_rate(p, q, 1.0)
        assert 1 - 2 * distance - 1e-12 <= rate <= 1 - distance + 1e-12


# equation: mh-gaussian
@pytest.mark.parametrize("distance", [0.0, 0.3, 1.0, 2.5])
def test_two_normal_densities_of_one_width(distance):
    closed = 2 * stats.norm.cdf(-distance / math.sqrt(2))
    # the trapezoid rule is exact to rounding for densities that vanish at both ends
    assert pairs.measures(distance, 1.0, "normal")["rate"] == pytest.approx(closed, abs=1e-4)
    assert pairs.measures(distance, 1.0, "normal")["kl"] == pytest.approx(distance**2, abs=1e-9)


# equation: mh-bound
@pytest.mark.parametrize("shape", pairs.SHAPES)
@pytest.mark.parametrize(("distance", "width"), [(0.0, 0.5), (1.0, 0.7), (0.0, 1.0), (0.5, 1.5), (3.5, 4.0)])
def test_divergence_and_overlap_of_a_pair_count_the_tails_beyond_the_grid(distance, width, shape):
    p, q = stats.norm(), stats.norm(distance, width) if shape == "normal" else stats.t(3, distance, width)
    cuts = [-np.inf, *np.linspace(-12.0, 12.0, 49), np.inf]

    def integral(of):
        return sum(integrate.quad(of, a, b, epsabs=1e-11)[0] for a, b in pairwise(cuts))

    def nats(at):
        gap = p.logpdf(at) - q.logpdf(at)
        # far out where p is 0 to rounding, 0 times infinity is 0
        return (p.pdf(at) * gap if p.pdf(at) > 0 else 0.0) - (q.pdf(at) * gap if q.pdf(at) > 0 else 0.0)

    found = pairs.measures(distance, width, shape)
    kl = integral(nats)
    assert found["kl"] == pytest.approx(kl, abs=1e-6)
    assert found["bound"] == pytest.approx(1 - math.sqrt(max(kl, 0.0) / 2), abs=1e-4)
    # min{p, q} has kinks, where the sum over a grid of 0.02 errs by its square
    assert found["overlap"] == pytest.approx(integral(lambda at: min(p.pdf(at), q.pdf(at))), abs=1e-4)


# equation: mh-independent
def test_the_chain_of_a_pair_keeps_the_target():
    draws = pairs.chain(0.5, 1.5, "normal", 20_000)
    # about a third of the draws are effective: ten independent ones apart, KS has its usual law
    assert stats.kstest(draws[100::10], "norm").pvalue > 0.01


# equation: mh-six
def test_the_ring_is_a_density_with_six_equal_modes():
    side = torch.linspace(-9, 9, 721, dtype=torch.float64)
    area = (side[1] - side[0]).item() ** 2
    grid = torch.cartesian_prod(side, side)
    mass = targets.six_gaussians(grid).exp()
    assert area * mass.sum().item() == pytest.approx(1.0, abs=1e-9)
    shares = area * torch.zeros(6, dtype=torch.float64).index_add(0, targets.nearest_mode(grid), mass)
    # cells on the border between two modes belong to one of them
    torch.testing.assert_close(shares, torch.full_like(shares, 1 / 6), atol=1e-4, rtol=0)
    draws = targets.draw_six_gaussians(60_000, torch.Generator().manual_seed(0))
    counts = torch.bincount(targets.nearest_mode(draws), minlength=6)
    assert stats.chisquare(counts).pvalue > 0.01
    radius = (draws - targets.mode_centers()[targets.nearest_mode(draws)]).square().sum(1) / targets.SCALE**2
    assert stats.kstest(radius, "chi2", args=(2,)).pvalue > 0.01


# equation: mh-logistic
def test_the_posterior_of_logistic_regression_and_its_mode():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    y = torch.rand(40, generator=generator) < 0.5
    log_prob = targets.logistic_posterior(x, y)
    point = torch.randn(2, 4, generator=generator, dtype=torch.float64)
    logit = (x @ point[:, :3].T + point[:, 3]).numpy()
    probability = 1 / (1 + np.exp(-logit))
    likelihood = np.where(y.numpy()[:, None], np.log(probability), np.log1p(-probability)).sum(0)
    prior = stats.norm.logpdf(point.numpy()).sum(1)
    constant = 4 * 0.5 * math.log(2 * math.pi)
    np.testing.assert_allclose(log_prob(point), likelihood + prior + constant, rtol=1e-12)
    mode, covariance = targets.laplace(log_prob, 4)
    torch.testing.assert_close(torch.func.grad(lambda at: log_prob(at[None])[0])(mode), torch.zeros(4).double())
    curvature = torch.func.hessian(lambda at: -log_prob(at[None])[0])(mode)
    torch.testing.assert_close(curvature @ covariance, torch.eye(4).double())
