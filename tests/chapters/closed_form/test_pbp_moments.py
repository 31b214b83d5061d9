"""The scalar parts of probabilistic backpropagation: a rectified Gaussian's moments and the update of a precision."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats

from chapters.closed_form.pbp import gamma_update, rectified_moments
from tests.seeded import normal

F64 = torch.float64


@pytest.mark.parametrize("variance", [1e-8, 0.3, 1.0, 50.0])
@pytest.mark.parametrize("ratio", [-36.0, -20.0, -6.0, -1.0, -1e-3, 0.0, 1e-3, 1.0, 6.0, 36.0, 1e4])
def test_rectified_moments_equal_quadrature(ratio, variance):
    scale = variance**0.5
    ours = rectified_moments(torch.tensor(ratio * scale, dtype=F64), torch.tensor(variance, dtype=F64))
    t = abs(ratio)

    def moment(power):
        """E max(0, X)^power for X ~ N(-t, 1), the density's value at t taken out of the integral."""
        return integrate.quad(lambda u: u**power * math.exp(-t * u - 0.5 * u * u), 0.0, np.inf, epsabs=0.0)[0]

    density = math.exp(-0.5 * min(t, 1e3) ** 2) / math.sqrt(2.0 * math.pi)
    first, second = density * moment(1), density * moment(2)
    if ratio > 0:  # max(0, X) = X + max(0, -X)
        mean, var = ratio + first, 1.0 - second - 2.0 * t * first - first**2
    else:
        mean, var = first, second - first**2
    # relative, in both tails; rounding grows like t^4 eps
    assert ours.mean.item() == pytest.approx(mean * scale, rel=1e-9, abs=0)
    assert ours.variance.item() == pytest.approx(var * variance, rel=1e-9, abs=0)
    assert ours.mean_by_mean.item() == pytest.approx(special.ndtr(ratio), rel=1e-12, abs=0)


def test_derivatives_of_rectified_moments_equal_autograd_of_the_textbook_formulas():
    mean, variance = 2.0 * normal(200, seed=1), normal(200, seed=2).square() + 0.3
    m, v = mean.clone().requires_grad_(), variance.clone().requires_grad_()
    s = v.sqrt()
    phi, below = torch.exp(-0.5 * m * m / v) / math.sqrt(2.0 * math.pi), torch.special.ndtr(m / s)
    first = m * below + s * phi
    spread = (m * m + v) * below + m * s * phi - first.square()
    ours = rectified_moments(mean, variance)
    expected = (
        first.detach(),
        spread.detach(),
        *torch.autograd.grad(first.sum(), (m, v), retain_graph=True),
        *torch.autograd.grad(spread.sum(), (m, v)),
    )
    for value, other in zip(ours, expected, strict=True):
        # the textbook's variance loses digits where the mean is some standard deviations below zero
        torch.testing.assert_close(value, other, rtol=1e-8, atol=1e-11)


def test_units_without_variance_or_far_from_zero_are_finite():
    mean = torch.tensor([-1e200, -1e8, -1.0, -1e-300, 0.0, 1e-300, 1.0, 1e8], dtype=F64)
    for variance in (0.0, 1e-290, 1e-100, 1e-12):
        out = rectified_moments(mean, torch.full_like(mean, variance))
        assert all(part.isfinite().all() for part in out)
        # a sure value passes as it is, but within some scales of zero, where the spread, at least 1e-150, counts
        torch.testing.assert_close(out.mean, mean.clamp_min(0.0), rtol=1e-12, atol=max(variance**0.5, 1e-150))
        assert (out.variance >= 0).all() and (out.variance <= variance).all()


def test_the_gamma_has_the_moments_that_three_evidences_give():
    shape, rate = 6.0 + 50 * normal(40).square(), 2.0 + normal(40, seed=1).square()
    variance, square = normal(40, seed=2).square(), normal(40, seed=3).square()
    new_shape, new_rate, total = gamma_update(shape, rate, variance, square)
    z = [
        torch.from_numpy(stats.norm.pdf(square.sqrt(), scale=(variance + rate / (shape - 1 + k)).sqrt()))
        for k in range(3)
    ]
    torch.testing.assert_close(total, variance + rate / (shape - 1), rtol=1e-14, atol=0)
    first, second = shape / rate * z[1] / z[0], shape * (shape + 1) / rate**2 * z[2] / z[0]
    # the new shape is 1 / (a ratio - 1) with a ratio near 1: it is known to about shape * eps
    torch.testing.assert_close(new_shape / new_rate, first, rtol=1e-12, atol=0)
    torch.testing.assert_close(new_shape * (new_shape + 1) / new_rate**2, second, rtol=1e-12, atol=0)


def test_an_update_that_gives_no_gamma_is_refused():
    for square in (1e300, math.inf, math.nan):
        square = torch.tensor([square, 1.0], dtype=F64)
        shape, rate, _ = gamma_update(*(torch.full((2,), value, dtype=F64) for value in (6.0, 6.0, 0.5)), square)
        assert shape[0] == rate[0] == 6.0 and shape[1] != 6.0
