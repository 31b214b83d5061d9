"""Draws of the truncated log-normal and its density over the whole range, other intervals of the prior, its ratio."""

import math

import mpmath
import numpy as np
import pytest
import torch
from scipy import integrate

from chapters.unit_noise import formulas

DOUBLE = torch.float64
# one unit in the last place of log theta at -20, the resolution that a draw can have
RESOLUTION = 2.0**-48


def upper_tail(log_theta, mean, scale, lower=-20, upper=0):
    """P(log of the noise > log_theta) from erfc, in the digits of mpmath's context."""

    def above(v):
        return mpmath.erfc(v / mpmath.sqrt(2)) / 2

    near, far, v = ((mean - end) / scale for end in (upper, lower, min(max(log_theta, lower), upper)))
    return (above(near) - above(v)) / (above(near) - above(far))


def posteriors(means, logs) -> tuple[torch.Tensor, torch.Tensor]:
    mean, log_scale = torch.cartesian_prod(torch.tensor(means, dtype=DOUBLE), torch.tensor(logs, dtype=DOUBLE)).T
    return mean, log_scale.exp()


MEANS = [-20.0, -20 + 1e-9, -19.99, -7.0, -1e-3, 0.0, 1e-9, 1e-3, 1.4713512, 5.0]
LOG_SCALES = [-20.0, -10.0, -3.015, -1.0, 0.0, 1.0, 3.0, 5.0]


# equation: sbp-sample
def test_a_level_is_the_share_of_the_distribution_above_the_draw():
    """(sbp-sample) at fixed levels of the upper tail: exact at every mean and scale, no region is left to chance."""
    mean, scale = posteriors(MEANS, LOG_SCALES)
    for level in (1e-10, 1e-3, 0.3, 0.7, 1.0 - 1e-6):
        theta = formulas.truncated_log_normal_sample(mean, scale, torch.full_like(mean, level))
        assert ((theta >= math.exp(-20.0) * (1 - RESOLUTION)) & (theta <= 1.0)).all()
        with mpmath.workdps(50):
            for m, s, t in zip(mean.tolist(), scale.tolist(), theta.tolist(), strict=True):
                m, s, log_theta = mpmath.mpf(m), mpmath.mpf(s), mpmath.log(t)
                low, high = (upper_tail(log_theta + side, m, s) for side in (RESOLUTION, -RESOLUTION))
                assert low - 1e-9 <= level <= high + 1e-9, (level, m, s, t)


@pytest.mark.parametrize("lower, upper", [(-1.0, 0.0), (-3.0, 2.0), (-40.0, -5.0)])
def test_levels_of_other_intervals(lower, upper):
    g = torch.Generator().manual_seed(0)
    mean = lower + (upper + 3.0 - lower) * torch.rand(60, generator=g, dtype=DOUBLE)
    scale = torch.exp(-8.0 + 13.0 * torch.rand(60, generator=g, dtype=DOUBLE))
    level = torch.rand(60, generator=g, dtype=DOUBLE)
    theta = formulas.truncated_log_normal_sample(mean, scale, level, lower, upper)
    with mpmath.workdps(50):
        for m, s, u, t in zip(*(v.tolist() for v in (mean, scale, level, theta)), strict=True):
            found = upper_tail(mpmath.log(t), mpmath.mpf(m), mpmath.mpf(s), lower, upper)
            # log theta is rounded to 2e-16 of the interval's length, in units of the scale e^-8
            assert abs(found - u) < 1e-9, (m, s, u, t)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_levels_and_parameters_give_finite_draws_and_gradients(dtype):
    mean, scale = (v.to(dtype) for v in posteriors(MEANS, LOG_SCALES))
    for level in (0.0, 1e-30, 1e-7, 0.5, 1.0 - 6e-8, 1.0):
        leaves = mean.clone().requires_grad_(), scale.clone().requires_grad_()
        theta = formulas.truncated_log_normal_sample(*leaves, torch.full_like(mean, level))
        assert theta.dtype == dtype and ((theta >= 2.06e-9) & (theta <= 1.0)).all()
        for slope in torch.autograd.grad(theta.sum(), leaves):
            assert slope.isfinite().all(), level


def test_reparameterisation_gradients_are_those_of_the_quantile():
    """d log theta = -(dT / d parameter) / (dT / d log theta) with the tail T in 50 digits, differenced numerically."""
    mean, scale = posteriors([-20.0, -19.99, -7.0, -0.01, 0.0, 0.01, 1.4713512, 5.0], [-3.015, -1.0, 0.0, 1.0, 5.0])
    for level in (1e-3, 0.4, 0.95):
        leaves = mean.clone().requires_grad_(), scale.clone().requires_grad_()
        theta = formulas.truncated_log_normal_sample(*leaves, torch.full_like(mean, level))
        slopes = torch.autograd.grad(theta.log().sum(), leaves)
        with mpmath.workdps(50):
            for m, s, t, *ours in zip(*(v.tolist() for v in (mean, scale, theta, *slopes)), strict=True):
                place = mpmath.log(t), mpmath.mpf(m), mpmath.mpf(s)
                d_log, d_mean, d_scale = (
                    mpmath.diff(upper_tail, place, tuple(int(i == k) for i in range(3))) for k in range(3)
                )
                for found, exact in zip(ours, (-d_mean / d_log, -d_scale / d_log), strict=True):
                    # a difference of terms of size 1 and (v, up to 30 here), to 1e-8 of them
                    assert abs(found - exact) < 1e-8 * (1 + abs(exact) + abs(m / s)), (level, m, s, found, exact)


# equation: sbp-log-normal, sbp-normalizer
def test_the_density_over_the_whole_range_and_outside():
    mean, scale = posteriors(MEANS, LOG_SCALES)
    theta = formulas.truncated_log_normal_sample(mean, scale, torch.full_like(mean, 0.4))
    theta = theta.clamp(math.exp(-20.0) * (1 + 1e-12), 1.0)
    found = formulas.truncated_log_normal_log_density(theta, mean, scale)
    assert found.isfinite().all()
    with mpmath.workdps(50):
        for m, s, t, ours in zip(*(v.tolist() for v in (mean, scale, theta, found)), strict=True):
            place = mpmath.log(t), mpmath.mpf(m), mpmath.mpf(s)
            exact = mpmath.log(-mpmath.diff(upper_tail, place, (1, 0, 0))) - place[0]
            # log theta is rounded to its last digit: times the slope of the log density that is the error allowed
            slope = abs((place[0] - m) / s**2) + 1
            assert abs(ours - exact) < 1e-8 + 2.0 * RESOLUTION * slope, (m, s, t, ours, exact)
    outside = torch.tensor([math.exp(-20.1), 1.0001, 5.0])
    assert (formulas.truncated_log_normal_log_density(outside, torch.zeros(3), torch.ones(3)) == -math.inf).all()


# equation: sbp-log-uniform, sbp-limit
@pytest.mark.parametrize("lower, upper", [(-20.0, 0.0), (-1.0, 0.0), (-3.0, 2.0)])
def test_the_log_uniform_prior(lower, upper):
    level = torch.linspace(0.0, 1.0, 5, dtype=DOUBLE)
    theta = torch.exp(lower + (upper - lower) * level)
    inner = theta[1:-1]
    density = formulas.truncated_log_uniform_log_density(inner, lower, upper).exp()
    torch.testing.assert_close(density * inner, torch.full_like(inner, 1.0 / (upper - lower)), rtol=1e-13, atol=0)
    outside = torch.tensor([math.exp(lower - 0.1), math.exp(upper + 0.1)])
    assert (formulas.truncated_log_uniform_log_density(outside, lower, upper) == -math.inf).all()
    moments = [formulas.truncated_log_uniform_moment(k, lower, upper) for k in (1, 2, 3)]
    for order, found in enumerate(moments, 1):
        exact = integrate.quad(lambda v, k=order: np.exp(k * v), lower, upper, epsrel=1e-12)[0] / (upper - lower)
        assert found == pytest.approx(exact, rel=1e-10)
    snr = moments[0] / math.sqrt(moments[1] - moments[0] ** 2)
    assert formulas.truncated_log_uniform_snr(lower, upper) == pytest.approx(snr, rel=1e-12)
    # the posterior of a wide scale: the divergence falls with its fourth power, the ratio approaches with the second
    wide = (
        torch.full((3,), 0.2 * lower + 0.8 * upper, dtype=DOUBLE),
        torch.tensor([1e2, 1e3, 1e4], dtype=DOUBLE),
        lower,
        upper,
    )
    distance = (formulas.truncated_log_normal_snr(*wide) - snr).abs().tolist()
    assert distance[1] == pytest.approx(distance[0] / 100, rel=0.05) and distance[2] < 1e-5
    if (lower, upper) == (-20.0, 0.0):  # the chapter's 1/3 = 1 / sqrt((b - a) / 2 - 1), for e^a far below 1
        kl = formulas.truncated_log_normal_kl(*wide).tolist()
        assert kl[0] > 9e3 * kl[1] > 0
        assert snr == pytest.approx(1.0 / 3.0, rel=1e-8)


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
