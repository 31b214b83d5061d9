"""Dirac spike-and-slab: extreme logits and priors, gradients of the fused draw, and what is refused."""

import math

import pytest
import torch

from bnnlib import functional as bF
from chapters.spike_slab.formulas import bernoulli_kl
from tests.seeded import double

DOUBLE = torch.float64


def parameters(n=60, seed=0, logits=3.0):
    generator = torch.Generator().manual_seed(seed)
    mean, rho, logit = (torch.randn(n, generator=generator, dtype=DOUBLE) for _ in range(3))
    return mean.requires_grad_(), (rho - 2).requires_grad_(), (logits * logit).requires_grad_()


def noises(n=60, seed=1):
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(n, generator=generator, dtype=DOUBLE)
    return normal, bF.logistic_noise(torch.rand(n, generator=generator, dtype=DOUBLE))


@pytest.mark.parametrize("probability", [1e-300, 1e-200, 1e-5, 0.3, 0.5, 1 - 1e-12])
def test_log_odds_is_exact(probability):
    expected = math.log(probability) - math.log1p(-probability)
    assert bF.log_odds(probability) == expected
    assert bF.log_odds(double(probability)).item() == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("prior", [1e-200, 1e-5, 0.4])
def test_bernoulli_kl_limits_at_logits_of_100(prior):
    # a gate that is certain costs the prior's surprise at it
    on, off = bernoulli_kl(double(100.0), prior).item(), bernoulli_kl(double(-100.0), prior).item()
    assert on == pytest.approx(-math.log(prior), rel=1e-14)
    assert off == pytest.approx(-math.log1p(-prior), rel=1e-12, abs=1e-40)


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
@pytest.mark.parametrize("logit", [-100.0, -36.8, 36.8, 100.0])
def test_divergence_and_gradient_are_finite_and_right_at_extreme_logits(dtype, logit):
    mean, rho, gate = (torch.tensor([v], dtype=dtype, requires_grad=True) for v in (0.7, -1.0, logit))
    value = bF.spike_slab_kl_sum(mean, rho, gate, bF.log_odds(1e-4), 1.3)
    gradients = torch.autograd.grad(value, (mean, rho, gate))
    phi = 1 / (1 + math.exp(-logit))
    slab = bF.gaussian_kl(mean, torch.nn.functional.softplus(rho), 1.3).item()
    expected = slab - math.log(1e-4) if logit > 0 else -math.log1p(-1e-4)
    assert value.item() == pytest.approx(expected, rel=1e-5 if dtype == torch.float32 else 1e-12)
    assert all(g.isfinite().all() for g in gradients)
    slope = phi * (1 / (1 + math.exp(logit))) * (logit - bF.log_odds(1e-4) + slab)
    assert gradients[2].item() == pytest.approx(slope, rel=1e-4 if dtype == torch.float32 else 1e-10, abs=1e-41)


@pytest.mark.parametrize("prior", [1e-200, 1e-4, 0.5])
def test_closed_form_gradients_equal_autograd(prior):
    mean, rho, logit = parameters()
    scale = torch.nn.functional.softplus(rho.detach()).requires_grad_()
    expected = torch.autograd.grad(bF.spike_slab_kl(mean, scale, logit, prior, 1.3).sum(), (mean, scale, logit))
    ours = bF.spike_slab_kl_grad(mean, scale, logit, bF.log_odds(prior), 1.3)
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-11)
    direct = bF.spike_slab_kl(mean, torch.nn.functional.softplus(rho), logit, prior, 1.3).sum()
    expected = torch.autograd.grad(direct * 0.2, (mean, rho, logit))
    for with_value in (True, False):
        value = bF.spike_slab_kl_sum(mean, rho, logit, bF.log_odds(prior), 1.3, with_value)
        assert value.item() == pytest.approx(direct.item() if with_value else 0.0)
        found = torch.autograd.grad(value * 0.2, (mean, rho, logit))
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def test_float32_gradients_by_autograd_keep_their_digits():
    grid = torch.cartesian_prod(
        double(*torch.linspace(-30, 30, 25).tolist()), double(*torch.logspace(-4, 2, 13).tolist()),
        double(-100.0, -3.0, -1e-3, 0.0, 0.5, 10.0, 100.0),
    ).float()  # fmt: skip
    for prior in (1e-200, 1e-4, 0.4):
        found = []
        for dtype in (torch.float32, DOUBLE):
            logit, scale, mean = point = [c.to(dtype).requires_grad_() for c in grid.unbind(dim=1)]
            found.append(torch.autograd.grad(bF.spike_slab_kl(mean, scale, logit, prior, 1.3).sum(), point))
        phi, slab = torch.sigmoid(logit), bF.gaussian_kl(mean, scale, 1.3)
        # 8 roundings of the terms that are added; a difference of two may itself be next to 0
        terms = logit.abs() + slab.abs() + abs(bF.log_odds(prior)) + scale.log().abs()
        sizes = phi * torch.sigmoid(-logit) * terms, phi * (scale / 1.69 + 1 / scale), phi * mean.abs() / 1.69
        for single, exact, size in zip(*found, sizes, strict=True):
            assert ((single.double() - exact).abs() <= 8 * 2**-24 * size + 1e-37).all()


def test_the_divergence_s_derivatives_in_the_prior_and_of_broadcast_arguments():
    tensors = (double(0.3, -1.0)[:, None], double(0.2), double(-2.0, 0.1, 4.0), double(0.3), double(1.3))
    tracked = [tensor.clone().requires_grad_() for tensor in tensors]
    assert torch.autograd.gradcheck(bF.spike_slab_kl, tracked) and torch.autograd.gradgradcheck(
        bF.spike_slab_kl, tracked
    )
    assert torch.autograd.gradcheck(bernoulli_kl, (tracked[2], tracked[3]))


def test_logistic_noise_is_finite_at_the_ends():
    for dtype in (torch.float32, DOUBLE):
        assert bF.logistic_noise(torch.tensor([0.0, 1.0], dtype=dtype)).isfinite().all()


def plain_gradients(point, normal, logistic, downstream, temperature, prior, prior_scale, factor):
    """Weight and gradients by autograd, through the soft gate and the divergence."""
    mean, rho, logit = point = [p.detach().requires_grad_() for p in point]
    soft = torch.sigmoid((logit + logistic) / temperature)
    gate = (logit + logistic > 0).to(soft.dtype) + soft - soft.detach()
    weight = gate * (mean + torch.nn.functional.softplus(rho) * normal)
    divergence = bF.spike_slab_kl(mean, torch.nn.functional.softplus(rho), logit, prior, prior_scale).sum()
    return weight, torch.autograd.grad((weight * downstream).sum() + factor * divergence, point)


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
@pytest.mark.parametrize(
    ("prior", "prior_scale", "temperature"), [(1e-4, 1.0, 0.5), (1e-200, 0.3, 0.7), (0.9, 2.0, 3.0)]
)
def test_the_fused_gradient_is_the_plain_one_also_of_large_logits(dtype, prior, prior_scale, temperature):
    point = [p.detach().to(dtype) for p in parameters(4000, logits=8.0)]
    normal, logistic, downstream = (
        z.to(dtype)
        for z in (*noises(4000), torch.randn(4000, dtype=DOUBLE, generator=torch.Generator().manual_seed(6)))
    )
    tracked = [p.clone().requires_grad_() for p in point]
    constants = temperature, bF.log_odds(prior), prior_scale
    weight, token = bF.spike_slab_draw(*tracked, normal, logistic, *constants)
    loss = (weight * downstream).sum() + 0.01 * token
    ours = torch.autograd.grad(loss, tracked, retain_graph=True)
    again = torch.autograd.grad(loss, tracked)
    assert all(torch.equal(a, b) for a, b in zip(ours, again, strict=True))  # nothing that is kept is overwritten
    wide = [z.double() for z in (normal, logistic, downstream)]
    value, expected = plain_gradients([p.double() for p in point], *wide, temperature, prior, prior_scale, 0.01)
    eps = torch.finfo(dtype).eps
    # roundings of eta = logit + logistic, which the relaxation divides by the temperature, and of up to 12 operations
    torch.testing.assert_close(weight.double(), value, rtol=8 * eps, atol=8 * eps)
    for mine, theirs in zip(ours, expected, strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=200 * eps, atol=100 * eps)
    # without the weight's part the digits of phi (1 - phi) remain
    idle = bF.spike_slab_draw(*tracked, normal, logistic, *constants)
    bare = torch.autograd.grad((idle[0] * 0.0).sum() + 0.01 * idle[1], tracked)
    none = [z.double() for z in (normal, logistic, downstream * 0.0)]
    _, expected = plain_gradients([p.double() for p in point], *none, temperature, prior, prior_scale, 0.01)
    mean, rho, logit = (p.double() for p in point)
    slab = bF.gaussian_kl(mean, torch.nn.functional.softplus(rho), prior_scale)
    size = (
        0.01 * torch.sigmoid(logit) * torch.sigmoid(-logit) * (logit.abs() + slab.abs() + abs(bF.log_odds(prior)) + 10)
    )
    assert ((bare[2].double() - expected[2]).abs() <= 16 * eps * size + 1e-40).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, DOUBLE])
def test_the_gate_is_a_step_at_0_and_lets_nan_through(dtype):
    small = torch.finfo(dtype).smallest_normal
    eta = torch.tensor([-math.inf, -2.0, -small, 0.0, small, small / 4, 1e-3, 5.0, math.inf, math.nan], dtype=dtype)
    zero, one = torch.zeros_like(eta), torch.ones_like(eta)
    for gradients in (True, False):
        with torch.set_grad_enabled(gradients):
            weight = bF.spike_slab_draw(one, one, eta, zero, zero)[0]
        assert torch.equal(weight[:-1], torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 1], dtype=dtype)) and weight[-1].isnan()
