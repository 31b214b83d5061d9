"""The equations of the prior in the chapter on learned priors, each checked by a number that is computed another way.

Those of the samplers and of the stochastic approximation are in `test_aeb_samplers.py`.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, stats

from bnnlib import functional as bF
from bnnlib.sampling import SpikeSlabGaussianLaplacePrior
from chapters.learned_priors import formulas

SEED = 5
V0, V1, SIGMA, DELTA = 0.2, 3.0, 0.8, 0.3
A, B, NU, LAM = 1.5, 4.0, 2.0, 0.7
WEIGHTS = (-3.0, -0.4, -1e-3, 0.0, 1e-6, 0.05, 0.7, 8.0)


def t(values) -> torch.Tensor:
    return torch.as_tensor(values, dtype=torch.float64)


def log_components(weight, sigma=SIGMA, v0=V0, v1=V1):
    """(log Laplace, log Gaussian) of (aeb-prior), from SciPy."""
    return stats.laplace.logpdf(weight, scale=sigma * v0), stats.norm.logpdf(weight, scale=sigma * math.sqrt(v1))


class Model:
    """Linear regression with three sparse weights and one other, small enough to sum over all coins."""

    ridge = 0.5  # variance sigma0^2 of the other weight's prior

    def __init__(self, generator):
        self.x = torch.randn(12, 4, generator=generator, dtype=torch.float64)
        noise = torch.randn(12, generator=generator, dtype=torch.float64)
        self.y = self.x @ t([1.0, 0.0, -0.5, 0.8]) + noise
        self.rho = np.array([0.9, 0.15, 0.6])
        self.coins = list(itertools.product((0, 1), repeat=3))
        self.chances = [np.prod(np.where(coins, self.rho, 1 - self.rho)) for coins in self.coins]

    def log_joint(self, beta, sigma, delta, coins, rows=slice(None)):
        """log of (aeb-hierarchy), the last line, from SciPy's densities; N / n times the likelihood of some rows."""
        rows = np.arange(len(self.y))[rows]
        residual = (self.y - self.x @ beta).numpy()[rows]
        laplace, gaussian = log_components(beta[:3].numpy(), sigma)
        total = len(self.y) / len(rows) * stats.norm.logpdf(residual, scale=sigma).sum()
        total += np.where(coins, gaussian, laplace).sum() + stats.norm.logpdf(beta[3], scale=math.sqrt(self.ridge))
        total += stats.invgamma.logpdf(sigma**2, NU / 2, scale=NU * LAM / 2)
        return total + stats.bernoulli.logpmf(coins, delta).sum() + stats.beta.logpdf(delta, A, B)

    def expected(self, *point):
        """E over the coins of the log of the joint density, written out."""
        pairs = zip(self.coins, self.chances, strict=True)
        return sum(chance * self.log_joint(*point, coins) for coins, chance in pairs)

    def q1(self, beta, sigma):
        """(aeb-q1), with the sparse weights' terms from the library."""
        weight = {"w": torch.nn.Parameter(beta[:3].clone())}
        prior = SpikeSlabGaussianLaplacePrior(weight, spike_scale=V0, slab_variance=V1, sigma=sigma)
        prior.rho["w"] = t(self.rho)
        prior.kappa0["w"], prior.kappa1["w"] = bF.expected_precisions(prior.rho["w"], V0, V1)
        log_likelihood = stats.norm.logpdf((self.y - self.x @ beta).numpy(), scale=sigma).sum()
        scale = (3 + NU + 2) / 2 * math.log(sigma**2) + NU * LAM / (2 * sigma**2)
        return log_likelihood - float(beta[3]) ** 2 / (2 * self.ridge) - scale - prior.energy().item()

    def q2(self, delta):
        """(aeb-q2)."""
        coins = self.rho.sum() * math.log(delta / (1 - delta))
        return coins + (A - 1) * math.log(delta) + (3 + B - 1) * math.log(1 - delta)


# equation: aeb-prior
def test_the_mixture_is_a_density_and_the_law_of_a_weight_whose_coin_is_tossed():
    def density(weight):
        return float(formulas.ssgl_log_density(t(weight), DELTA, SIGMA, V0, V1).exp())

    assert integrate.quad(density, -30, 30, points=[0.0], limit=200)[0] == pytest.approx(1.0, rel=1e-8)
    rng = np.random.default_rng(0)
    coin = rng.random(20_000) < DELTA
    laplace = stats.laplace.rvs(scale=SIGMA * V0, size=20_000, random_state=rng)
    draws = np.where(coin, stats.norm.rvs(scale=SIGMA * math.sqrt(V1), size=20_000, random_state=rng), laplace)
    inside = integrate.quad(density, -0.3, 1.1, points=[0.0])[0]
    # five standard errors of a proportion
    assert abs(np.mean((draws > -0.3) & (draws < 1.1)) - inside) < 5 * math.sqrt(0.25 / 20_000)


# equation: aeb-hierarchy, aeb-posterior
@pytest.mark.parametrize("coins", [(0, 0, 0), (1, 0, 1), (1, 1, 1)])
def test_the_energy_given_the_coins_is_minus_the_log_posterior(coins, generator):
    model = Model(generator)
    model.rho = np.array(coins, dtype=float)  # known coins
    points = [t([0.4, -0.2, 1.0, 0.1]), t([-1.0, 0.3, 0.0, 2.0])]
    energies = [-model.q1(beta, SIGMA) for beta in points]
    logs = [model.log_joint(beta, SIGMA, DELTA, coins) for beta in points]
    assert energies[0] - energies[1] == pytest.approx(logs[1] - logs[0], rel=1e-10)


# equation: aeb-posterior
def test_the_minibatch_energy_is_unbiased(generator):
    model, beta = Model(generator), t([0.4, -0.2, 1.0, 0.1])
    coins = (1, 0, 1)
    batches = itertools.combinations(range(12), 4)
    some = [model.log_joint(beta, SIGMA, DELTA, coins, list(rows)) for rows in batches]
    assert np.mean(some) == pytest.approx(model.log_joint(beta, SIGMA, DELTA, coins), rel=1e-10)


# equation: aeb-bound
def test_each_step_of_the_bound(generator):
    model, point = Model(generator), (t([0.4, -0.2, 1.0, 0.1]), SIGMA, DELTA)
    batches = [list(rows) for rows in itertools.combinations(range(12), 10)]
    logs = np.array([[model.log_joint(*point, coins, rows) for coins in model.coins] for rows in batches])
    logs -= logs.max()  # a constant in front of the density
    chances = np.array(model.chances)
    outer = np.log((np.exp(logs).mean(axis=0) * chances).sum())
    swapped = np.log((np.exp(logs) @ chances).mean())
    middle, inner = np.log(np.exp(logs) @ chances).mean(), (logs @ chances).mean()
    assert outer == pytest.approx(swapped, rel=1e-12)
    assert swapped > middle + 1e-3 > middle > inner + 1e-3


# equation: aeb-q1, aeb-q2
def test_the_expected_log_joint_falls_into_two_parts(generator):
    model = Model(generator)
    one, two = (t([0.4, -0.2, 1.0, 0.1]), 0.8, 0.3), (t([-1.0, 0.3, 0.01, 2.0]), 1.7, 0.05)
    parts = [model.q1(beta, sigma) + model.q2(delta) for beta, sigma, delta in (one, two)]
    assert parts[0] - parts[1] == pytest.approx(model.expected(*one) - model.expected(*two), rel=1e-10)
    # Q1 alone when delta stays, Q2 alone when beta and sigma stay
    moved = model.expected(*two[:2], 0.3) - model.expected(*two)
    assert model.q2(0.3) - model.q2(0.05) == pytest.approx(moved, rel=1e-9)


# text-book roles, the reversed roles of the published networks, extremes
SETTINGS = [(0.5, 1.0, 0.1, 10.0), (0.5, 1.0, 0.005, 1e-5), (0.01, 2.0, 0.5, 1e-3), (0.999, 0.3, 1.0, 0.1)]


# equation: aeb-slab-probability
@pytest.mark.parametrize("scaled", [True, False])  # the published code for networks leaves sigma out of the densities
@pytest.mark.parametrize(("delta", "sigma", "v0", "v1"), [(DELTA, SIGMA, V0, V1), *SETTINGS])
def test_the_slab_s_probability_by_bayes_theorem(delta, sigma, v0, v1, scaled):
    w = np.array(WEIGHTS[:-1])  # SciPy's Laplace density is 0 at 1,600 scales
    laplace, gaussian = log_components(w, sigma if scaled else 1.0, v0, v1)
    log_a, log_b = math.log(delta) + gaussian, math.log1p(-delta) + laplace
    odds = bF.slab_log_odds(t(w), delta, sigma, v0, v1, scaled=scaled)
    assert np.allclose(odds, log_a - log_b, rtol=1e-12, atol=1e-12)
    # numbers and tensors take different paths
    for values in ((delta, sigma, v0, v1), t([delta, sigma, v0, v1])):
        ours = bF.slab_probability(t(w), *values, scaled=scaled)
        assert np.allclose(ours, np.exp(log_a - np.logaddexp(log_a, log_b)), rtol=1e-10, atol=1e-300)
    if scaled:  # softplus(z) is taken to be z beyond 20, which is e^-20 = 2e-9 off
        density = formulas.ssgl_log_density(t(w), delta, sigma, v0, v1)
        assert np.allclose(density, np.logaddexp(log_a, log_b), rtol=1e-12, atol=3e-9)


# equation: aeb-precisions
def test_the_precisions_are_those_of_the_expected_log_prior():
    rho, step = 0.35, 1e-6
    kappa0, kappa1 = bF.expected_precisions(t(rho), V0, V1)

    def expected(weight):
        laplace, gaussian = log_components(weight)
        return (1 - rho) * laplace + rho * gaussian

    for weight in (-1.3, 0.2, 2.0):
        slope = (expected(weight + step) - expected(weight - step)) / (2 * step)
        assert float(formulas.ssgl_penalty_gradient(t(weight), kappa0, kappa1, SIGMA)) == pytest.approx(
            -slope, rel=1e-6
        )
        difference = float(formulas.ssgl_penalty(t(weight), kappa0, kappa1, SIGMA))
        assert difference == pytest.approx(expected(0.0) - expected(weight), rel=1e-9)


# equation: aeb-scale
def test_the_scale_maximizes_q1(generator):
    model, beta = Model(generator), t([0.4, -0.2, 1.0, 0.1])
    best = optimize.minimize_scalar(lambda s: -model.q1(beta, s), bounds=(0.05, 10), method="bounded")
    kappa0, kappa1 = bF.expected_precisions(t(model.rho), V0, V1)
    linear = (kappa0 * beta[:3].abs()).sum()
    errors, squares = (model.y - model.x @ beta).square().sum(), (kappa1 * beta[:3] ** 2).sum()
    strict = bF.optimal_sigma(linear, errors + squares + NU * LAM, 12 + 3 + NU + 2)
    assert float(strict) == pytest.approx(best.x, abs=1e-5)
    # the paper's R_a is 2 smaller: another number, by about 2 / (2 R_a) of itself
    printed = bF.optimal_sigma(linear, errors + squares + NU * LAM, 12 + 3 + NU)
    assert 1.0 < float(printed / strict) < 1 + 2 / (12 + 3 + NU)

    # classification: without the likelihood's terms C_a = p + nu + 2 is exact
    def without_likelihood(sigma):
        return (3 + NU + 2) * math.log(sigma) + float(linear) / sigma + float(squares + NU * LAM) / (2 * sigma**2)

    best = optimize.minimize_scalar(without_likelihood, bounds=(0.01, 10), method="bounded")
    assert float(bF.optimal_sigma(linear, squares + NU * LAM, 3 + NU + 2)) == pytest.approx(best.x, abs=1e-5)


# equation: aeb-inclusion
def test_the_inclusion_probability_maximizes_q2(generator):
    model = Model(generator)
    best = optimize.minimize_scalar(lambda d: -model.q2(d), bounds=(1e-6, 1 - 1e-6), method="bounded")
    assert float(bF.optimal_inclusion(t(model.rho.sum()), 3, A, B)) == pytest.approx(best.x, abs=1e-5)


# equation: aeb-penalty
def test_the_effective_penalty_and_its_slope():
    laplace, gaussian = log_components(np.array(WEIGHTS))
    expected = -np.logaddexp(math.log(1 - DELTA) + laplace, math.log(DELTA) + gaussian)
    assert np.allclose(-formulas.ssgl_log_density(t(WEIGHTS), DELTA, SIGMA, V0, V1), expected, rtol=1e-12)
    w = t([v for v in WEIGHTS if v != 0.0]).requires_grad_()
    (slope,) = torch.autograd.grad(-formulas.ssgl_log_density(w, DELTA, SIGMA, V0, V1).sum(), w)
    kappa = bF.expected_precisions(bF.slab_probability(w, DELTA, SIGMA, V0, V1), V0, V1)
    assert torch.allclose(slope, formulas.ssgl_penalty_gradient(w, *kappa, SIGMA), rtol=1e-9)


# equation: aeb-trap
@pytest.mark.parametrize("outlier", [0.0, 1.0])
def test_em_multiplies_a_small_share_of_slabs_by_the_factor_of_the_text(outlier, generator):
    weight = 0.05 * torch.randn(30, generator=generator, dtype=torch.float64)
    weight[0] += outlier
    b, sigma, v0, v1 = 30.0, 1.3, 0.1, 5.0
    spike, slab = log_components(weight.numpy(), sigma, v0, v1)
    growth = np.exp(slab - spike).sum() / (b + 30 - 1)
    assert bool(growth > 1) == (outlier > 0)  # one weight far out keeps the slab
    settings = {"spike_scale": v0, "slab_variance": v1, "sigma": sigma, "inclusion": 1e-12, "a": 1.0, "b": b}
    settings |= {"step_size": 1.0, "update": ("rho", "inclusion")}
    prior = SpikeSlabGaussianLaplacePrior({"beta": torch.nn.Parameter(weight)}, **settings)
    prior.update()
    # the terms of second order in delta are below 1e-12 of the largest ratio, e^6
    assert float(prior.inclusion["beta"]) / 1e-12 == pytest.approx(growth, rel=1e-6)
