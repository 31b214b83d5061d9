"""Gaussian weights: the divergence of their posterior to a centered Gaussian prior."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib._checks import check_scale
from bnnlib.functional._autograd import transformed

# below it softplus would leave the range in which 1 / sigma is finite, with some room for factors of the divergence
_LOWEST = {torch.float64: -700.0, torch.float32: -80.0, torch.bfloat16: -80.0, torch.float16: -10.0}


def lowest_rho(rho: Tensor) -> float:
    """The `rho` below which `softplus_scale` does not follow any more."""
    return _LOWEST.get(rho.dtype, -80.0)


def softplus_scale(rho: Tensor) -> Tensor:
    """Standard deviation softplus(rho) > 0, which the families of posteriors with a `rho` share.

    It is at least exp(-80) = 1.8e-35 in single precision, exp(-700) = 9.9e-305 in double precision. A lower rho counts
    as -80 or -700, so that divergences stay finite; its gradient is the one there, which leads back: that of -log sigma
    is -1.

    Args:
        rho: any shape.

    Example:
        >>> softplus_scale(torch.tensor([0.0, -120.0]))
        tensor([6.9315e-01, 1.8049e-35])
    """
    low = lowest_rho(rho)
    if transformed() or (torch.is_grad_enabled() and rho.requires_grad):
        finite = rho.clamp_min(-1e4)  # a difference of infinite numbers would be NaN
        return F.softplus(torch.where(rho < low, low + (finite - finite.detach()), rho))
    return F.softplus(rho).clamp_min_(math.exp(low))


def softplus_slope(rho: Tensor, out: Tensor | None = None) -> Tensor:
    """Derivative of `softplus_scale`: sigmoid(rho)."""
    return torch.sigmoid(rho, out=out).clamp_min_(math.exp(lowest_rho(rho)))


def softplus_inverse(scale: float | Tensor) -> Tensor:
    """Unconstrained parameter `rho` with softplus(rho) = scale.

    Args:
        scale: standard deviation(s), any shape, > 0.

    Raises:
        ValueError: a scale is not positive.

    Example:
        >>> torch.nn.functional.softplus(softplus_inverse(torch.tensor([1e-3, 1.0])))
        tensor([0.0010, 1.0000])
    """
    check_scale("scale", scale)
    value = scale if isinstance(scale, Tensor) else torch.as_tensor(scale)
    value = value if value.is_floating_point() else value.to(torch.get_default_dtype())
    return value + torch.log(-torch.expm1(-value))


def gaussian_kl(mean: Tensor, scale: Tensor, prior_scale: float | Tensor) -> Tensor:
    """KL(N(mean, scale^2) || N(0, prior_scale^2)) of every weight, in nats.

    Equation (svbnn-gaussian-kl); the last term of equation (10) of Bai, Song and Cheng (2020).

    Args:
        mean: posterior means, any shape.
        scale: posterior standard deviations, same shape, > 0.
        prior_scale: prior standard deviation, a number or broadcastable.

    Returns:
        Tensor of the broadcast shape; sum it for the divergence of the whole layer.

    Raises:
        ValueError: a prior scale is not positive.

    Example:
        >>> gaussian_kl(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.5]), prior_scale=1.0)
        tensor([0.0000, 0.8181])
    """
    check_scale("prior_scale", prior_scale)
    return unchecked_gaussian_kl(mean, scale, prior_scale)


def unchecked_gaussian_kl(mean: Tensor, scale: Tensor, prior_scale: float | Tensor) -> Tensor:
    """`gaussian_kl` without a look at a prior scale that is a tensor, which would wait for a GPU."""
    ratio = scale / prior_scale
    shift = mean / prior_scale
    return 0.5 * (ratio.square() + shift.square() - 1.0) - torch.log(ratio)


def gaussian_kl_grad(mean: Tensor, scale: Tensor, prior_scale: float | Tensor) -> tuple[Tensor, Tensor]:
    """Gradient of `gaussian_kl` in (mean, scale), in closed form.

    Equation (svbnn-kl-gradient). Two elementwise operations each, where autograd through the logarithm needs about ten.

    Example:
        >>> gaussian_kl_grad(torch.tensor([1.0]), torch.tensor([0.5]), prior_scale=1.0)
        (tensor([1.]), tensor([-1.5000]))
    """
    precision = 1.0 / prior_scale**2
    return mean * precision, scale * precision - scale.reciprocal()
