"""The acceptance test and the losses on it, against worked values, quadrature and autograd."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from bnnlib import functional as bF

DOUBLE = torch.float64
INF = math.inf


def t(*values):
    return torch.tensor(values, dtype=DOUBLE)


def test_the_ratio_of_worked_values():
    # p(x) = 0.2, p(x') = 0.6, q(x' | x) = 0.5, q(x | x') = 0.1: xi = 0.6 * 0.1 / (0.2 * 0.5) = 0.6
    log_xi = bF.log_acceptance_ratio(*(t(value).log() for value in (0.2, 0.6, 0.5, 0.1)))
    assert float(log_xi) == pytest.approx(math.log(0.6), abs=1e-15)
    assert float(bF.acceptance_probability(log_xi)) == pytest.approx(0.6, abs=1e-15)
    assert float(bF.acceptance_probability(-log_xi)) == 1.0


def test_the_test_at_the_ends():
    log_ratio = t(-INF, -1e6, 0.0, 1e-3, 1e6, INF)
    assert torch.equal(bF.acceptance_probability(log_ratio), t(0.0, 0.0, 1.0, 1.0, 1.0, 1.0))
    assert bF.acceptance_probability(t(math.nan)).isnan().all()  # for the caller to find
    single = bF.acceptance_probability(torch.tensor([200.0, -200.0]))
    assert single.isfinite().all()


def test_constants_of_the_densities_cancel():
    values = [torch.randn(20, generator=torch.Generator().manual_seed(i), dtype=DOUBLE) for i in range(4)]
    shifted = bF.log_acceptance_ratio(values[0] + 3.0, values[1] + 3.0, values[2] - 5.0, values[3] - 5.0)
    assert torch.allclose(shifted, bF.log_acceptance_ratio(*values))


def test_losses_and_their_gradients():
    log_ratio = t(-2.0, -0.5, 0.7).requires_grad_()
    bF.acceptance_rate_loss(log_ratio).backward()
    assert torch.allclose(log_ratio.grad, t(-math.exp(-2.0), -math.exp(-0.5), 0.0) / 3)
    assert float(bF.symmetric_kl_loss(t(1.0, -2.0, 4.0))) == -1.0


@pytest.mark.parametrize(("shift", "scale"), [(0.5, 1.0), (1.0, 0.6), (-0.4, 1.5)])
def test_the_symmetric_loss_is_both_divergences(shift, scale):
    generator = torch.Generator().manual_seed(0)
    p, q = stats.norm(0.0, 1.0), stats.norm(shift, scale)
    x = torch.randn(400_000, generator=generator, dtype=DOUBLE)
    y = shift + scale * torch.randn(400_000, generator=generator, dtype=DOUBLE)
    ends = [torch.as_tensor(law.logpdf(points.numpy())) for points in (x, y) for law in (p, q)]
    ratio = bF.log_acceptance_ratio(ends[0], ends[2], ends[3], ends[1])
    expected = 0.5 * (scale**2 + shift**2 + scale**-2 + shift**2 / scale**2) - 1.0
    error = float(ratio.std()) / 400_000**0.5
    assert abs(float(bF.symmetric_kl_loss(ratio)) - expected) < 4.0 * error


def test_the_lower_bound():
    assert bF.acceptance_lower_bound(0.0) == 1.0
    assert bF.acceptance_lower_bound(0.5) == 0.5
    assert float(bF.acceptance_lower_bound(t(2.0))) == 0.0
    for broken in (-0.1, INF, math.nan, t(1.0, -1.0)):
        with pytest.raises(ValueError, match="divergence is"):
            bF.acceptance_lower_bound(broken)


def test_total_variation_over_several_dimensions():
    first, second = t(0.5, 0.3, 0.2), t(0.2, 0.2, 0.6)
    assert float(bF.total_variation(first, second)) == pytest.approx(0.4)
    joint = first[:, None] * second
    assert float(bF.total_variation(joint, joint.T, dims=2)) == pytest.approx(
        0.5 * np.abs(joint.numpy() - joint.numpy().T).sum()
    )
    assert bF.total_variation(joint, joint.T).shape == (3,)


def test_pinsker_with_mass_one_is_pinskers():
    p, f = torch.softmax(torch.randn(2, 500, 6, generator=torch.Generator().manual_seed(0), dtype=DOUBLE), dim=-1)
    kl = (p * (p / f).log()).sum(-1)
    assert torch.allclose(bF.pinsker_bound(kl, torch.ones(500, dtype=DOUBLE)), 0.5 * kl)
    for mass in (0.2, 0.9, 3.0):
        formal = (p * (p / (mass * f)).log()).sum(-1)
        bound = bF.pinsker_bound(formal, torch.full((500,), mass, dtype=DOUBLE))
        assert (bF.total_variation(p, mass * f) ** 2 <= bound + 1e-12).all()


def test_the_constant_of_the_implicit_bound():
    assert bF.implicit_bound_constant(1.0) == pytest.approx(2.0)
    assert bF.implicit_bound_constant(0.5, 0.5) == pytest.approx(5.0 / (3 * 0.25 * 0.125))
    for settings in ((0.0,), (1.5,), (0.5, 0.0), (0.5, 2.0)):
        with pytest.raises(ValueError, match=" is "):
            bF.implicit_bound_constant(*settings)


def test_discriminator_losses():
    delta = torch.randn(100, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    d = torch.sigmoid(delta)
    assert float(bF.upper_bound_loss(delta)) == pytest.approx(float((-delta + (-delta).exp()).mean()))
    assert float(bF.markov_cross_entropy(d.log(), d.log())) == pytest.approx(float(-2 * d.log().mean()))
    expected = -(d[:50].log().mean() + (1 - d[50:]).log().mean())
    assert float(bF.conditional_cross_entropy(delta[:50], delta[50:])) == pytest.approx(float(expected))
    assert bF.conditional_cross_entropy(t(1e4, -1e4), t(1e4)).isfinite()


def test_the_upper_bound_loss_is_least_at_the_true_ratio():
    """Pointwise p a (-D) + p b exp(-D) + q ... over one pair and its mirror, by scipy."""
    forward, backward = 0.3, 0.7  # p(x) q(y | x) and p(y) q(x | y)
    values = np.linspace(-3.0, 3.0, 60_001)
    loss = forward * (np.exp(-values) - values) + backward * (np.exp(values) + values)
    assert values[loss.argmin()] == pytest.approx(math.log(forward / backward), abs=1e-3)


def test_bounded_logit():
    logit = torch.linspace(-50, 50, 1001, dtype=DOUBLE)
    for lower in (0.01, 0.3):
        d = torch.sigmoid(bF.bounded_logit(logit, lower))
        assert d.min() >= lower - 1e-12 and d.max() <= 1 - lower + 1e-12
        assert torch.allclose(bF.bounded_logit(-logit, lower), -bF.bounded_logit(logit, lower))
    assert float(bF.bounded_logit(t(1e-4), 0.1)) == pytest.approx(1e-4, rel=1e-6)
    for lower in (0.0, 0.5, 1.0, math.nan):
        with pytest.raises(ValueError, match="lower is"):
            bF.bounded_logit(logit, lower)


def test_the_rate_of_two_normal_laws_by_quadrature():
    """E min{1, xi} over p x q is 1 - TV of the joint laws: for equal scales a normal law along the diagonal."""
    p, q = stats.norm(0.0, 1.0), stats.norm(1.2, 1.0)

    def integrand(y, x):
        ratio = bF.log_acceptance_ratio(*(t(law.logpdf(v)) for law, v in ((p, x), (p, y), (q, y), (q, x))))
        return p.pdf(x) * q.pdf(y) * float(bF.acceptance_probability(ratio))

    line = np.linspace(-6, 7.2, 81)
    values = [[integrand(y, x) for y in line] for x in line]
    rate = integrate.trapezoid(integrate.trapezoid(values, line), line)
    assert rate == pytest.approx(2 * stats.norm.cdf(-0.6 * 2**0.5), abs=1e-3)
