"""Gaussian weights: divergence against quadrature and torch.distributions, gradients against autograd."""

import pytest
import torch

from bnnlib import functional as bF

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
