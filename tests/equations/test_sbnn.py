"""The equations of the chapter on closed-form inclusion probabilities, each checked by a number computed another way.

Those of importance, pruning, minibatches and the simulations are in `test_sbnn_networks.py`.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, special, stats

from bnnlib import functional as bF
from bnnlib import nn as bnn
from chapters.closed_form import formulas
from tests.seeded import double as t

TAU1, TAU0, PI = 0.9, 0.06, 0.3
PRIOR = bF.mixture_prior(TAU1, TAU0, PI)
# (m, sigma): in the spike, at the threshold, in the slab, wide without a mean
POINTS = ((0.02, 0.05), (0.1, 0.09), (-1.2, 0.3), (0.0, 0.7))


def average(function, m, s):
    """E f(w) for w ~ N(m, s^2), by the trapezoid rule, which has no error but rounding for functions so smooth."""
    w = np.linspace(m - 12 * s, m + 12 * s, 8001)
    return np.trapezoid(stats.norm.pdf(w, m, s) * function(w), w)


def log_joint(w, z):
    """log of (sbnn-prior) for one weight, from SciPy."""
    return np.log(PI if z else 1 - PI) + stats.norm.logpdf(w, scale=TAU1 if z else TAU0)


def log_marginal(w):
    return np.logaddexp(log_joint(w, 1), log_joint(w, 0))


def bernoulli_kl(p, q):
    return special.rel_entr(p, q) + special.rel_entr(1 - p, 1 - q)


def divergence(m, s, p):
    """KL(N(m, s^2) Bern(p) || prior) over the weight and its indicator, by its definition."""
    total = 0.0
    for z, chance in ((1, p), (0, 1 - p)):
        total += chance * average(lambda w, z=z: stats.norm.logpdf(w, m, s) - log_joint(w, z), m, s)
        total += special.xlogy(chance, chance)
    return total


# equation: sbnn-prior
@pytest.mark.parametrize("w", [-2.0, 0.01, 0.4])
def test_the_prior_s_four_numbers_are_its_log_density(w):
    half_log = 0.5 * math.log(2 * math.pi)
    slab = -0.5 * w**2 * PRIOR.slab_precision - PRIOR.slab_cost - half_log
    spike = -0.5 * w**2 * PRIOR.spike_precision - PRIOR.spike_cost - half_log
    assert slab == pytest.approx(log_joint(w, 1), rel=1e-12)
    assert spike == pytest.approx(log_joint(w, 0), rel=1e-12)


# equation: sbnn-marginal-prior
def test_the_indicator_summed_out_leaves_the_scale_mixture():
    w = np.linspace(-3, 3, 61)
    assert np.allclose(bF.scale_mixture_log_density(t(*w), PRIOR), log_marginal(w), rtol=1e-12)
    density = lambda w: float(bF.scale_mixture_log_density(t(w), PRIOR).exp())  # noqa: E731
    assert integrate.quad(density, -12, 12, points=[-0.2, 0.0, 0.2], limit=400)[0] == pytest.approx(1.0, rel=1e-9)
    # the share of the slab is E(Z | w)
    share = np.exp(log_joint(w, 1) - log_marginal(w))
    assert np.allclose(bF.closed_form_inclusion(t(*w), 0.0, PRIOR), share, rtol=1e-10)


# equation: sbnn-posterior, sbnn-objective, sbnn-split
def test_the_objective_splits_into_misfit_and_penalties():
    # two weights, one observation: the expectation is a sum over four settings of Z and an integral over two weights
    x, y, noise = np.array([0.8, -1.5]), 0.6, 0.7
    m, s, p = np.array([0.1, -0.3]), np.array([0.08, 0.2]), np.array([0.35, 0.9])
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    w0, w1 = np.meshgrid(m[0] + s[0] * nodes, m[1] + s[1] * nodes, indexing="ij")
    mass = np.outer(weights, weights)
    log_likelihood = stats.norm.logpdf(y, x[0] * w0 + x[1] * w1, noise)
    log_q_w = stats.norm.logpdf(w0, m[0], s[0]) + stats.norm.logpdf(w1, m[1], s[1])
    direct = 0.0
    for z in itertools.product((0, 1), repeat=2):
        chance = np.prod(np.where(z, p, 1 - p))
        log_prior = log_joint(w0, z[0]) + log_joint(w1, z[1])
        direct -= chance * (mass * (log_likelihood + log_prior - log_q_w - np.log(chance))).sum()
    penalties = formulas.spike_slab_penalty(t(*m), t(*s), t(*p), PRIOR)
    split = -(mass * log_likelihood).sum() + float((penalties - 0.5).sum())
    # the integrands are polynomials of degree two: the rule is exact, and only rounding is left
    assert split == pytest.approx(direct, rel=1e-11)


# equation: sbnn-penalty
@pytest.mark.parametrize("m, s", POINTS)
@pytest.mark.parametrize("p", [0.0, 0.2, 0.97, 1.0])
def test_the_penalty_is_the_divergence_plus_one_half(m, s, p):
    assert float(formulas.spike_slab_penalty(t(m), t(s), t(p), PRIOR)) - 0.5 == pytest.approx(
        divergence(m, s, p), rel=1e-9
    )


def searched(m, s):
    """SciPy's search over p for the least divergence."""
    return optimize.minimize_scalar(
        lambda p: divergence(m, s, p), bounds=(0, 1), method="bounded", options={"xatol": 1e-10}
    )


# equation: sbnn-inclusion, sbnn-profile
@pytest.mark.parametrize("m, s", [(0.02, 0.05), (0.1, 0.09), (-0.18, 0.04), (0.0, 0.15)])
def test_the_closed_form_minimizes_and_the_profile_is_the_minimum(m, s):
    found = searched(m, s)
    star = float(bF.closed_form_inclusion(t(m), t(s), PRIOR))
    # a search that compares values of a parabola locates its minimum to the root of their precision
    assert star == pytest.approx(found.x, abs=1e-5)
    best = float(bF.spike_slab_profile_penalty(t(m), t(s), PRIOR)) - 0.5
    assert best == pytest.approx(divergence(m, s, star), rel=1e-9) and best <= found.fun + 1e-9
    # at any other p the excess is a divergence of coins
    for p in (0.0, 0.3, 0.8):
        excess = float(formulas.spike_slab_penalty(t(m), t(s), t(p), PRIOR)) - 0.5 - best
        assert excess == pytest.approx(bernoulli_kl(p, star), rel=1e-6, abs=1e-9)


# equation: sbnn-inclusion, sbnn-profile
def test_a_layer_has_the_closed_form_and_the_profile_s_divergence():
    layer = bnn.GaussianSpikeSlabLinear(
        3, 2, slab_scale=TAU1, spike_scale=TAU0, prior_inclusion_probability=PI, initial_scale=0.05, dtype=torch.float64
    )
    with torch.no_grad():
        layer.weight.mul_(0.3), layer.bias.mul_(0.3)  # small enough for no p* to round to 1
    parts = [part.detach().flatten() for part in layer.mean()]
    expected = sum(searched(m, 0.05).fun for part in parts for m in part.tolist())
    assert layer.kl_divergence().item() == pytest.approx(expected, rel=1e-9)
    by_formula = bF.closed_form_inclusion(parts[0], 0.05, PRIOR)
    assert torch.allclose(layer.inclusion_probability.flatten(), by_formula, rtol=1e-12)


# equation: sbnn-gradient
@pytest.mark.parametrize("m, s", POINTS)
def test_the_gradient_is_the_slope_of_the_least_divergence(m, s):
    def least(m, s):
        return divergence(m, s, float(bF.closed_form_inclusion(t(m), t(s), PRIOR)))

    step = 1e-5
    in_m = (least(m + step, s) - least(m - step, s)) / (2 * step)
    in_s = (least(m, s + step) - least(m, s - step)) / (2 * step)
    star = float(bF.closed_form_inclusion(t(m), t(s), PRIOR))
    kappa = star / TAU1**2 + (1 - star) / TAU0**2
    assert m * kappa == pytest.approx(in_m, rel=1e-5, abs=1e-6)
    assert 0.5 * (kappa - s**-2) * 2 * s == pytest.approx(in_s, rel=1e-5, abs=1e-6)
    ours = bF.spike_slab_profile_grad(t(m), t(s), PRIOR)
    assert [float(v) for v in ours] == pytest.approx([m * kappa, s * kappa - 1 / s], rel=1e-10, abs=1e-12)


# equation: sbnn-log-odds, sbnn-threshold
@pytest.mark.parametrize("m, s", POINTS)
def test_the_log_odds_are_linear_in_the_second_moment_and_vanish_at_the_threshold(m, s):
    line = special.logit(PI) + (m**2 + s**2) / 2 * (TAU0**-2 - TAU1**-2) - math.log(TAU1 / TAU0)
    assert float(bF.inclusion_log_odds(t(m**2 + s**2), PRIOR)) == pytest.approx(line, rel=1e-12)
    # where the divergence is the same for both coins
    root = optimize.brentq(lambda r: divergence(r, 1e-3, 1.0) - divergence(r, 1e-3, 0.0), 1e-3, 1.0, xtol=1e-12)
    threshold = math.sqrt(2 * (math.log(TAU1 / TAU0) - special.logit(PI)) / (TAU0**-2 - TAU1**-2))
    assert math.hypot(root, 1e-3) == pytest.approx(threshold, rel=1e-7)
    assert float(bF.closed_form_inclusion(t(threshold), 0.0, PRIOR)) == pytest.approx(0.5, abs=1e-12)


# equation: sbnn-log-odds
def test_the_three_remarks_and_the_other_limit():
    r = t(0.3)
    at = lambda tau1, tau0: float(bF.closed_form_inclusion(r, 0.0, bF.mixture_prior(tau1, tau0, PI)))  # noqa: E731
    grid = bF.closed_form_inclusion(torch.linspace(0, 1, 101, dtype=torch.float64), 0.0, PRIOR)
    assert (grid.diff() >= 0).all() and float(grid[0]) == pytest.approx(
        PI * TAU0 / (PI * TAU0 + (1 - PI) * TAU1), rel=1e-12
    )
    assert at(0.5, 0.4999999) == pytest.approx(PI, abs=1e-6)
    assert at(1e12, 0.1) < 1e-9 and at(1.0, 1e-9) == 1.0


# equation: sbnn-bbb, sbnn-gap
@pytest.mark.parametrize("m, s", POINTS)
def test_keeping_the_indicator_loosens_the_bound_by_the_gap(m, s):
    without = average(lambda w: stats.norm.logpdf(w, m, s) - log_marginal(w), m, s)
    odds = lambda w: log_joint(w, 1) - log_joint(w, 0)  # noqa: E731
    for p in (0.2, float(bF.closed_form_inclusion(t(m), t(s), PRIOR))):
        gap = average(lambda w, p=p: p * -special.log_expit(odds(w)) + (1 - p) * -special.log_expit(-odds(w)), m, s)
        gap += special.xlogy(p, p) + special.xlogy(1 - p, 1 - p)
        assert gap > 0 and divergence(m, s, p) == pytest.approx(without + gap, rel=1e-7)
    # p* averages the conditional log-odds
    star = float(bF.inclusion_log_odds(t(m**2 + s**2), PRIOR))
    assert star == pytest.approx(average(odds, m, s), rel=1e-8)


# equation: sbnn-bbb-mean, sbnn-bbb-scale
@pytest.mark.parametrize("m, s", POINTS)
@pytest.mark.parametrize("noise", [-1.3, 0.2, 2.1])
def test_bayes_by_backprop_s_gradients_are_slopes_along_the_path_of_a_draw(m, s, noise):
    def f(m, variance):  # log q(w) - log pi(w) at w = m + sigma noise
        s = math.sqrt(variance)
        w = m + s * noise
        return stats.norm.logpdf(w, m, s) - log_marginal(w)

    step = 1e-6 * s**2
    in_m = (f(m + 1e-6, s**2) - f(m - 1e-6, s**2)) / 2e-6
    in_variance = (f(m, s**2 + step) - f(m, s**2 - step)) / (2 * step)
    w = m + s * noise
    share = math.exp(log_joint(w, 1) - log_marginal(w))
    score = share / TAU1**2 + (1 - share) / TAU0**2
    assert w * score == pytest.approx(in_m, rel=1e-5, abs=1e-5)
    inner = m / s * noise + noise**2
    printed = 0.5 * inner * (score - s**-2) + (noise**2 - 1 + m / s * noise) / (2 * s**2)
    short = 0.5 * inner * score - 1 / (2 * s**2)
    assert printed == pytest.approx(short, rel=1e-10) and short == pytest.approx(in_variance, rel=1e-5, abs=1e-4)
    ours = bF.scale_mixture_grad_sample(t(m), t(s), t(noise), PRIOR)
    assert [float(v) for v in ours] == pytest.approx([w * score, 2 * s * short], rel=1e-9)
    # the supplement's intermediate line has the other sign and is another number
    slip = w * score * noise / (2 * s) - (w - m) / s**2 * noise / (2 * s) - (1 + noise**2) / (2 * s**2)
    assert abs(slip - short) == pytest.approx(noise**2 / s**2, rel=1e-9)


# equation: sbnn-reparameterization, svbnn-gaussian-sample
@pytest.mark.parametrize("prior", [PRIOR, None])
def test_a_draw_and_its_derivatives(prior):
    m, rho = t(0.3, -0.2).requires_grad_(), t(-3.0, 0.5).requires_grad_()
    noise = t(0.7, -1.1)
    w = bF.gaussian_draw(m, rho, noise, prior)[0]
    assert torch.allclose(w, m + torch.log1p(rho.exp()) * noise)
    slopes = torch.autograd.grad(w.sum(), (m, rho))
    assert torch.allclose(slopes[0], torch.ones(2, dtype=torch.float64))
    assert torch.allclose(slopes[1], noise / (1 + torch.exp(-rho)))
