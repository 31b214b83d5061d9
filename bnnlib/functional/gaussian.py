"""Gaussian weights: sampling by location and scale, and the divergence to a centered Gaussian prior."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib._checks import check_positive


def softplus_inverse(scale: float | Tensor) -> Tensor:
    """Unconstrained parameter `rho` with softplus(rho) = scale.

    Args:
        scale: standard deviation(s), any shape, > 0.

    Raises:
        ValueError: a scale is not positive.
    """
    check_positive("scale", scale)
    value = torch.as_tensor(scale)
    value = value if value.is_floating_point() else value.to(torch.get_default_dtype())
    return value + torch.log(-torch.expm1(-value))


def gaussian_kl(mean: Tensor, scale: Tensor, prior_scale: float | Tensor, prior_mean: float | Tensor = 0.0) -> Tensor:
    """KL(N(mean, scale^2) || N(prior_mean, prior_scale^2)) of every weight, in nats.

    Equation (svbnn-gaussian-kl); the last term of equation (10) of Bai, Song and Cheng (2020).

    Args:
        mean: posterior means, any shape.
        scale: posterior standard deviations, same shape, > 0.
        prior_scale: prior standard deviation, a number or broadcastable.
        prior_mean: prior mean, a number or broadcastable.

    Returns:
        Tensor of the broadcast shape; sum it for the divergence of the whole layer.

    Raises:
        ValueError: a prior scale is not positive.
    """
    check_positive("prior_scale", prior_scale)
    ratio = scale / prior_scale
    shift = (mean - prior_mean) / prior_scale
    return 0.5 * (ratio.square() + shift.square() - 1.0) - torch.log(ratio)


def gaussian_kl_grad(mean: Tensor, scale: Tensor, prior_scale: float | Tensor) -> tuple[Tensor, Tensor]:
    """Gradient of `gaussian_kl` (prior mean 0) in (mean, scale), in closed form.

    Equation (svbnn-kl-gradient). Two elementwise operations each, where autograd through the logarithm needs about ten.
    """
    precision = 1.0 / prior_scale**2
    return mean * precision, scale * precision - scale.reciprocal()


class _GaussianWeight(torch.autograd.Function):
    """theta = mean + softplus(rho) * noise; the backward pass also adds kl_weight times the gradient of the KL."""

    @staticmethod
    def forward(ctx, mean, rho, noise, prior_scale, kl_weight):
        scale = F.softplus(rho)
        ctx.save_for_backward(mean, scale, noise)
        ctx.prior_scale, ctx.kl_weight = prior_scale, kl_weight
        return torch.addcmul(mean, scale, noise)

    @staticmethod
    def backward(ctx, grad):
        mean, scale, noise = ctx.saved_tensors
        d_mean, d_scale = grad, grad * noise
        if ctx.kl_weight:
            kl_mean, kl_scale = gaussian_kl_grad(mean, scale, ctx.prior_scale)
            d_mean = torch.add(d_mean, kl_mean, alpha=ctx.kl_weight)
            d_scale = d_scale.add_(kl_scale, alpha=ctx.kl_weight)
        # the derivative of softplus at rho, from its value: 1 - exp(-softplus(rho)) = sigmoid(rho)
        d_rho = d_scale.mul_(torch.expm1(-scale).neg_())
        return d_mean, d_rho, None, None, None


def gaussian_weight(
    mean: Tensor, rho: Tensor, noise: Tensor, prior_scale: float | Tensor = 1.0, kl_weight: float = 0.0
) -> Tensor:
    """Reparameterised Gaussian weight mean + softplus(rho) * noise, equation (svbnn-gaussian-sample).

    Args:
        mean, rho: parameters of one shape.
        noise: standard normal draws of that shape; drawn by the caller, so that compiled regions stay deterministic.
        prior_scale: prior standard deviation, used only when `kl_weight` is not 0.
        kl_weight: if not 0, the backward pass adds `kl_weight` times the exact gradient of the KL divergence, and no KL
            needs to be evaluated or differentiated by the caller. The loss must then have unit weight.
    """
    return _GaussianWeight.apply(mean, rho, noise, prior_scale, kl_weight)


class _GaussianKLSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, mean, rho, prior_scale, with_value):
        scale = F.softplus(rho)
        ctx.save_for_backward(mean, scale)
        ctx.prior_scale = prior_scale
        return gaussian_kl(mean, scale, prior_scale).sum() if with_value else mean.new_zeros(())

    @staticmethod
    def backward(ctx, grad):
        mean, scale = ctx.saved_tensors
        d_mean, d_scale = gaussian_kl_grad(mean, scale, ctx.prior_scale)
        return d_mean.mul_(grad), d_scale.mul_(torch.expm1(-scale).neg_()).mul_(grad), None, None


def gaussian_kl_sum(mean: Tensor, rho: Tensor, prior_scale: float, with_value: bool = True) -> Tensor:
    """Exact sum over all weights of KL(N(mean, softplus(rho)^2) || N(0, prior_scale^2)), in nats.

    Its gradient is evaluated in closed form.

    Args:
        mean, rho: parameters of one shape.
        prior_scale: prior standard deviation.
        with_value: with False the result's value is 0 and only its gradient is exact: half the cost in a training step
            that logs the value now and then.
    """
    return _GaussianKLSum.apply(mean, rho, prior_scale, with_value)
