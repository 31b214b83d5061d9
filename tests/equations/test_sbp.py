"""The equations of the chapter on Structured Bayesian Pruning, each checked by a number computed another way.

The judge of the noise is quadrature over log theta. Divergence, moments and draws over the whole range of the
parameters are in `test_sbp_range.py` and `test_sbp_draws.py`, equations that need a network or data in
`test_sbp_networks.py`.
"""

import math

import numpy as np
import pytest
from scipy import integrate

from chapters.unit_noise import formulas
from tests.seeded import double as t

A, B = -20.0, 0.0
# (mu, sigma): the start, two units in use, one pushed against the upper end, two near the prior, one far outside
MU = (0.0, -3.0, -0.5, 2.0, -10.0, -1.0, 5.0)
POINTS = tuple(zip(MU, (math.exp(-5.0), 0.3, 1.5, 0.4, 6.0, 60.0, math.exp(-3.0)), strict=True))


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


def single(function, mu, sigma):
    return function(t(mu), t(sigma)).item()


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
