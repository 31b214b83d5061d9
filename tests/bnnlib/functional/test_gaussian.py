"""Gaussian weights, half-Cauchy scales, variational dropout and the Gaussian-Laplace prior: gradients and ends."""

import math

import pytest
import torch

from bnnlib import functional as bF
from bnnlib.functional import (
    half_cauchy_kl,
    half_cauchy_kl_sum,
    log_alpha,
    sparse_vd_kl,
    sparse_vd_kl_sum,
    sparse_vd_variance,
)
from bnnlib.functional.ssgl import expected_precisions, slab_probability
from chapters.learned_priors.formulas import ssgl_log_density, ssgl_penalty, ssgl_penalty_gradient

DOUBLE = torch.float64


def parameters(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(shape, generator=generator, dtype=DOUBLE)
    rho = torch.randn(shape, generator=generator, dtype=DOUBLE) * 3 - 2
    return mean.requires_grad_(), rho.requires_grad_()


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 0.5, 1.0, 30.0, 700.0])
def test_softplus_inverse_is_the_inverse(scale):
    rho = bF.softplus_inverse(torch.tensor(scale, dtype=DOUBLE))
    # float64 rounding, amplified by at most 1/scale's logarithm
    assert torch.nn.functional.softplus(rho, threshold=800).item() == pytest.approx(scale, rel=1e-12)


MIXTURE = bF.mixture_prior(1.0, 0.05, 0.3)
DIVERGENCES = {
    "normal": (0.6, lambda m, s: bF.gaussian_kl(m, s, 0.6), lambda m, s: bF.gaussian_kl_grad(m, s, 0.6)),
    "mixture": (
        MIXTURE,
        lambda m, s: bF.spike_slab_profile_penalty(m, s, MIXTURE) - 0.5,
        lambda m, s: bF.spike_slab_profile_grad(m, s, MIXTURE),
    ),
}


@pytest.mark.parametrize("prior", DIVERGENCES)
def test_closed_form_gradients_equal_autograd(prior):
    prior, divergence, slopes = DIVERGENCES[prior]
    mean, rho = parameters(50)
    scale = torch.nn.functional.softplus(rho.detach()).requires_grad_()
    expected = torch.autograd.grad(divergence(mean, scale).sum(), (mean, scale))
    torch.testing.assert_close(slopes(mean, scale), expected, rtol=1e-10, atol=1e-12)
    total = divergence(mean, torch.nn.functional.softplus(rho)).sum()
    expected = torch.autograd.grad(total * 0.37, (mean, rho))
    for with_value in (True, False):
        value = bF.gaussian_kl_sum(mean, rho, prior, with_value)
        assert value.item() == pytest.approx(total.item() if with_value else 0.0, rel=1e-13)
        torch.testing.assert_close(torch.autograd.grad(value * 0.37, (mean, rho)), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("output", ["weight", "deviation", "variance"])
def test_the_token_has_exactly_the_gradient_of_the_divergence(output):
    mean, rho = parameters(20)
    noise = torch.randn(20, dtype=DOUBLE, generator=torch.Generator().manual_seed(1))
    draw, token = bF.gaussian_draw(mean, rho, noise, 1.3, output=output)
    assert token.item() == 0
    scale = torch.nn.functional.softplus(rho)
    plain = {"weight": mean + scale * noise, "deviation": scale * noise, "variance": scale.square()}[output]
    divergence = 0.25 * bF.gaussian_kl_sum(mean, rho, 1.3)
    pairs = ((draw.sin().sum() + 0.25 * token, plain.sin().sum() + divergence), (0.25 * token, divergence))
    for fused, loss in pairs:  # with the weight's own gradient, and alone
        both = (torch.autograd.grad(one, (mean, rho), retain_graph=True) for one in (fused, loss))
        torch.testing.assert_close(*both, rtol=1e-11, atol=1e-13)


def test_gradient_and_extreme_values_are_finite():
    location = torch.tensor([-200.0, 0.0, 200.0], requires_grad=True)
    log_scale = torch.full((3,), -3.0, requires_grad=True)
    value = half_cauchy_kl(location, log_scale, 1e-5)
    value.sum().backward()
    assert value.isfinite().all() and location.grad.isfinite().all() and log_scale.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("prior", [1e-5, 0.3, 1.0])
def test_the_sum_s_gradient_is_that_of_autograd(dtype, prior):
    generator = torch.Generator().manual_seed(0)
    location = 4.0 * torch.randn(300, generator=generator, dtype=torch.float64)
    log_scale = torch.randn(300, generator=generator, dtype=torch.float64) - 2.0
    point = [p.to(dtype).requires_grad_() for p in (location, log_scale)]
    wide = [p.detach().double().requires_grad_() for p in point]
    divergence = half_cauchy_kl(*wide, prior).sum()
    expected = torch.autograd.grad(0.3 * divergence, wide)
    eps = torch.finfo(dtype).eps
    for with_value in (True, False):
        value = half_cauchy_kl_sum(*point, prior, with_value)
        assert value.item() == pytest.approx(divergence.item() if with_value else 0.0, rel=1e-5)
        for mine, theirs in zip(torch.autograd.grad(0.3 * value, point), expected, strict=True):
            # the exponent is a sum of numbers up to 40
            torch.testing.assert_close(mine.double(), theirs, rtol=100 * eps, atol=20 * eps)
    assert torch.autograd.gradgradcheck(
        lambda *p: half_cauchy_kl_sum(*p, prior), [w[:5].detach().requires_grad_() for w in wide]
    )


def test_divergence_and_log_alpha_are_finite_far_out_and_at_a_mean_of_zero():
    value = sparse_vd_kl(torch.tensor([-100.0, -5.0, 0.0, 3.0, 100.0], dtype=torch.float64))
    assert value.isfinite().all() and value[-1] < 1e-20
    found = log_alpha(torch.zeros(1), torch.full((1,), -10.0))
    assert found.item() == pytest.approx(-10.0 - math.log(1e-8), rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_divergence_s_gradient_and_the_token_of_the_variance_are_those_of_plain_operations(dtype):
    generator = torch.Generator().manual_seed(0)
    mean, noise, downstream = torch.randn(3, 2000, generator=generator, dtype=torch.float64)
    point = (mean * torch.logspace(-6, 1, 2000)).to(dtype), (4 * noise - 6).to(dtype)
    downstream = downstream.to(dtype)
    wide = [p.double().requires_grad_() for p in point]
    divergence = sparse_vd_kl(log_alpha(*wide)).sum()
    alone = torch.autograd.grad(0.3 * divergence, wide, retain_graph=True)
    both = torch.autograd.grad((wide[1].exp() * downstream.double()).sum() + 0.3 * divergence, wide)
    eps = torch.finfo(dtype).eps
    # log alpha is a difference of logarithms up to 20, s (1 - s) of a sigmoid s always has the error eps, and PyTorch's
    # softplus is a line from 20 on
    slope = 2.0 * wide[0].detach().abs() / (wide[0].detach().square() + 1e-8)
    weighted = (wide[1].detach().exp() * downstream).abs()

    def check(ours, expected):
        for mine, theirs, size in zip(ours, expected, (slope, 1.0 + weighted), strict=True):
            assert mine.dtype == dtype
            error = (20.0 * eps + math.exp(-20.0)) * size + 100.0 * eps * theirs.abs()
            assert ((mine.double() - theirs).abs() <= error).all()

    tracked = [p.clone().requires_grad_() for p in point]
    value = sparse_vd_kl_sum(*tracked)
    assert value.item() == pytest.approx(divergence.item(), rel=1e-5)
    check(torch.autograd.grad(0.3 * value, tracked), alone)
    variance, token = sparse_vd_variance(*tracked)
    assert torch.equal(variance, point[1].exp()) and token.item() == 0.0
    loss = (variance * downstream).sum() + 0.3 * token
    for create_graph in (False, True):  # as numbers twice, and as a graph
        check(torch.autograd.grad(loss, tracked, create_graph=create_graph, retain_graph=True), both)
        check(torch.autograd.grad(loss, tracked, create_graph=create_graph, retain_graph=True), both)
    (only,) = torch.autograd.grad((sparse_vd_variance(*tracked)[0] * downstream).sum(), tracked[1])
    assert torch.equal(only, downstream * variance.detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("v1", [1e-12, 1e-5, 10.0])
def test_nothing_of_the_gaussian_laplace_prior_overflows(dtype, v1):
    w = torch.tensor([0.0, 1e-30, 1e-6, 1.0, 1e4, -1e4], dtype=dtype)
    rho = slab_probability(w, 0.5, 1.0, 0.1, v1)
    assert torch.isfinite(rho).all() and (rho >= 0).all() and (rho <= 1).all()
    precisions = expected_precisions(rho, 0.1, v1)
    for values in (
        ssgl_log_density(w, 0.5, 1.0, 0.1, v1),
        ssgl_penalty(w, *precisions, 1.0),
        ssgl_penalty_gradient(w, *precisions, 1.0),
    ):
        assert torch.isfinite(values).all()
    assert ssgl_penalty_gradient(w, *precisions, 1.0)[0] == 0.0
