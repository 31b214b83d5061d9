"""The equations of the chapter on Structured Bayesian Pruning, each checked by a number computed another way.

The judge of the noise is quadrature over log theta; the whole range of the parameters is the matter of
`tests/bnnlib/functional/test_truncated_log_normal.py`. Equations that need a network or data are in
`test_sbp_networks.py`.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats

from chapters.unit_noise import formulas

A, B = -20.0, 0.0
# (mu, sigma): the start, two units in use, one pushed against the upper end, two near the prior, one far outside
POINTS = (
    (0.0, math.exp(-5.0)),
    (-3.0, 0.3),
    (-0.5, 1.5),
    (2.0, 0.4),
    (-10.0, 6.0),
    (-1.0, 60.0),
    (5.0, math.exp(-3.0)),
)


def t(*values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def exponent(v, mu, sigma):
    """Log of the normal density in v = log theta, up to its value at the mode on [a, b]."""
    mode = min(max(mu, A), B)
    return -0.5 * ((v - mu) ** 2 - (mode - mu) ** 2) / sigma**2


def masses(mu, sigma, low=A, high=B):
    """Nodes v = log theta between low and high, and the masses there of the normal, without its formulas."""
    mode = min(max(mu, A), B)
    # outside the interval the density falls like an exponential of this width from the nearer end; 45 of them: e^-45
    width = min(sigma, sigma**2 / abs(mu - mode)) if mu != mode else sigma
    edges = np.linspace(max(low, mode - 45 * width), min(high, mode + 45 * width), 61)
    x, w = np.polynomial.legendre.leggauss(24)
    half = 0.5 * np.diff(edges)[:, None]
    v = (edges[:-1, None] + half * (1 + x)).ravel()
    return v, (half * w).ravel() * np.exp(exponent(v, mu, sigma))


def rule(mu, sigma):
    """Nodes and weights that sum to one: averages over the noise."""
    v, mass = masses(mu, sigma)
    return v, mass / mass.sum()


def average(function, mu, sigma):
    v, mass = rule(mu, sigma)
    return float(mass @ function(v))


def single(function, mu, sigma):
    return function(t(mu), t(sigma)).item()


# equation: sbp-log-uniform
def test_the_prior_is_uniform_in_the_logarithm():
    theta = np.exp(np.linspace(-19.9, -0.01, 50))
    ours = formulas.truncated_log_uniform_log_density(t(*theta))
    assert np.allclose(ours, stats.loguniform(math.exp(A), math.exp(B)).logpdf(theta), rtol=1e-12)
    outside = formulas.truncated_log_uniform_log_density(t(1e-10, 1.1))
    assert (outside == -math.inf).all()


# equation: sbp-log-normal, sbp-normalizer
@pytest.mark.parametrize(("mu", "sigma"), POINTS[:-1])
def test_the_posterior_is_a_log_normal_divided_by_the_share_that_the_cut_leaves(mu, sigma):
    v = np.clip(np.linspace(mu - 3 * sigma, mu + 3 * sigma, 41), A + 1e-6, B - 1e-6)
    given = formulas.truncated_log_normal_log_density(t(*np.exp(v)), t(mu).expand(41), t(sigma).expand(41))
    whole = stats.lognorm.logpdf(np.exp(v), sigma, scale=math.exp(mu))
    # Z as an integral of the normal density, not as a difference of Phi
    mode = min(max(mu, A), B)
    near = [A, B, *np.clip([mode - 10 * sigma, mode - sigma, mode + sigma, mode + 10 * sigma], A, B)]
    pieces = np.unique(near)
    z = sum(integrate.quad(stats.norm(mu, sigma).pdf, *ends, epsabs=0)[0] for ends in itertools.pairwise(pieces))
    # the density of theta from log theta loses the digits of exp and log, times the slope v / sigma^2
    assert np.allclose(given, whole - math.log(z), rtol=1e-9, atol=1e-8)
    assert formulas.truncated_log_normal_log_density(t(1.5), t(mu), t(sigma)).item() == -math.inf


# equation: sbp-improper
def test_the_mass_of_a_posterior_under_the_log_uniform_grows_without_end():
    likelihood = lambda theta: np.exp(-0.5 * (1.0 - 2.0 * theta) ** 2)  # noqa: E731, one observation y = 1, x = 2
    at_zero = likelihood(0.0)
    remainder = integrate.quad(lambda theta: (likelihood(theta) - at_zero) / theta, 0, 1)[0]
    for a in (-20.0, -200.0, -2000.0):
        whole = integrate.quad(
            lambda v: likelihood(np.exp(v)), a, 0, points=[-30.0 if a < -30 else -5.0, -3], limit=400
        )[0]
        # what the tail below e^a leaves out is of size e^a
        assert whole == pytest.approx(-a * at_zero + remainder, rel=1e-8)


# equation: sbp-kl
@pytest.mark.parametrize(("mu", "sigma"), POINTS)
def test_the_divergence_is_the_average_log_ratio(mu, sigma):
    v, mass = masses(mu, sigma)
    # the density of log theta is exp(exponent) over its own integral, that of the prior 1 / (b - a)
    direct = mass @ exponent(v, mu, sigma) / mass.sum() - math.log(mass.sum()) + math.log(B - A)
    # differences of numbers of a few nats: digits are absolute
    assert single(formulas.truncated_log_normal_kl, mu, sigma) == pytest.approx(direct, abs=1e-10)


# equation: sbp-mean, sbp-second-moment, sbp-snr
@pytest.mark.parametrize(("mu", "sigma"), POINTS)
def test_moments_and_signal_to_noise_ratio(mu, sigma):
    first = average(np.exp, mu, sigma)
    second = average(lambda v: np.exp(2 * v), mu, sigma)
    centered = average(lambda v: (np.exp(v) - first) ** 2, mu, sigma)  # not second - first^2, which cancels
    assert single(formulas.truncated_log_normal_mean, mu, sigma) == pytest.approx(first, rel=1e-10)
    assert single(formulas.truncated_log_normal_second_moment, mu, sigma) == pytest.approx(second, rel=1e-10)
    assert single(formulas.truncated_log_normal_snr, mu, sigma) == pytest.approx(first / math.sqrt(centered), rel=1e-8)


@pytest.mark.parametrize(("mu", "sigma"), POINTS[1:5])
def test_moments_as_they_are_printed(mu, sigma):
    """The printed forms of "sbp-mean" and "sbp-second-moment", where float64 can still evaluate them."""
    alpha, beta = (A - mu) / sigma, (B - mu) / sigma
    z = special.ndtr(beta) - special.ndtr(alpha)
    for k, function in ((1, formulas.truncated_log_normal_mean), (2, formulas.truncated_log_normal_second_moment)):
        # Phi(k s - alpha) - Phi(k s - beta) by the symmetric tails, which do not round to 1
        share = special.ndtr(beta - k * sigma) - special.ndtr(alpha - k * sigma)
        printed = math.exp(k * mu + 0.5 * (k * sigma) ** 2) * share / z
        assert single(function, mu, sigma) == pytest.approx(printed, rel=1e-8)


# equation: sbp-snr-stable
@pytest.mark.parametrize(("mu", "sigma"), POINTS)
def test_the_ratio_is_a_second_difference_of_the_cumulant_generating_function(mu, sigma):
    v, mass = rule(mu, sigma)
    shift = min(max(mu, A), B)
    k1 = math.log(mass @ np.exp(v - shift)) + shift
    k2 = math.log(mass @ np.exp(2 * (v - shift))) + 2 * shift
    snr = single(formulas.truncated_log_normal_snr, mu, sigma)
    # the difference loses digits for narrow noise: that is why the library sums cumulants there
    assert math.log1p(snr**-2) == pytest.approx(k2 - 2 * k1, abs=1e-12, rel=1e-8)


def test_narrow_noise_has_the_ratio_of_its_cumulants():
    """The series of "sbp-snr-stable", in cumulants of log theta under the density tilted by theta."""
    for mu, sigma in itertools.product((-1.0, 0.0, 0.5), (0.02, 1e-3, 1e-5)):
        v, mass = rule(mu, sigma)
        mass = mass * np.exp(v)
        mass /= mass.sum()
        centered = v - mass @ v
        m2, m3, m4, m6 = (mass @ centered**k for k in (2, 3, 4, 6))
        kappa = {4: m4 - 3 * m2**2, 6: m6 - 15 * m4 * m2 - 10 * m3**2 + 30 * m2**3}
        d = m2 + kappa[4] / 12 + kappa[6] / 360
        # what follows in the series is of order sigma^8; log1p of a large ratio has the digits of its inverse square
        assert math.log1p(single(formulas.truncated_log_normal_snr, mu, sigma) ** -2) == pytest.approx(d, rel=1e-8)


# equation: sbp-sample
@pytest.mark.parametrize(("mu", "sigma"), POINTS)
def test_draws_have_the_distribution_function_of_the_posterior(mu, sigma):
    level = np.linspace(0.02, 0.98, 13)
    drawn = formulas.truncated_log_normal_sample(t(mu).expand(13), t(sigma).expand(13), 1 - t(*level)).log().numpy()
    # the library's levels count from the upper end
    for one, v in zip(level, drawn, strict=True):
        share = masses(mu, sigma, high=v)[1].sum() / masses(mu, sigma)[1].sum()
        assert share == pytest.approx(one, abs=1e-8)


@pytest.mark.parametrize(("mu", "sigma"), POINTS[1:3])
def test_draws_as_they_are_printed(mu, sigma):
    """The printed form of "sbp-sample", where float64 can evaluate it."""
    u = np.linspace(0.05, 0.95, 9)
    low, high = special.ndtr((A - mu) / sigma), special.ndtr((B - mu) / sigma)
    printed = np.exp(mu + sigma * special.ndtri(low + u * (high - low)))
    drawn = formulas.truncated_log_normal_sample(t(mu).expand(9), t(sigma).expand(9), 1 - t(*u))
    assert np.allclose(drawn, printed, rtol=1e-9)


# equation: sbp-limit
def test_without_information_the_noise_is_the_prior():
    moments = [integrate.quad(lambda v, k=k: math.exp(k * v) / 20, A, B, epsabs=0)[0] for k in (1, 2)]
    assert formulas.truncated_log_uniform_moment(1) == pytest.approx(moments[0], rel=1e-10)
    assert formulas.truncated_log_uniform_moment(2) == pytest.approx(moments[1], rel=1e-10)
    ratio = moments[0] / math.sqrt(moments[1] - moments[0] ** 2)
    assert formulas.truncated_log_uniform_snr() == pytest.approx(ratio, rel=1e-10)
    # the chapter's 1/3 = 1 / sqrt((b - a) / 2 - 1), for b = 0 and e^a far below 1
    assert ratio == pytest.approx(1 / math.sqrt(10 - 1), rel=1e-8)
    pair, distance = (formulas.truncated_log_normal_kl, formulas.truncated_log_normal_snr), []
    for sigma in (1e2, 1e3, 1e4):
        kl, snr = (single(f, -3.0, sigma) for f in pair)
        distance.append((kl, abs(snr - ratio)))
    # sigma grows by 10: the divergence falls with its fourth power, the ratio approaches with the second
    assert distance[0][0] > 9e3 * distance[1][0] > 0
    assert distance[1][1] == pytest.approx(distance[0][1] / 100, rel=0.05)
    assert distance[2][1] < 1e-5
