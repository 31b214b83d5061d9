"""Half-Cauchy scales: gradients of the bound, also at extreme values."""

import pytest
import torch

from bnnlib.functional import half_cauchy_kl, half_cauchy_kl_sum


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
