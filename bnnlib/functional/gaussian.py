"""Gaussian weights: the divergence of their posterior to a centered Gaussian prior."""

from __future__ import annotations

import torch
from torch import Tensor

from bnnlib._checks import check_scale


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

    Example:
        >>> gaussian_kl(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.5]), prior_scale=1.0)
        tensor([0.0000, 0.8181])
    """
    check_scale("prior_scale", prior_scale)
    return unchecked_gaussian_kl(mean, scale, prior_scale, prior_mean)


def unchecked_gaussian_kl(
    mean: Tensor, scale: Tensor, prior_scale: float | Tensor, prior_mean: float | Tensor = 0.0
) -> Tensor:
    """`gaussian_kl` without a look at a prior scale that is a tensor, which would wait for a GPU."""
    ratio = scale / prior_scale
    shift = (mean - prior_mean) / prior_scale
    return 0.5 * (ratio.square() + shift.square() - 1.0) - torch.log(ratio)


def gaussian_kl_grad(mean: Tensor, scale: Tensor, prior_scale: float | Tensor) -> tuple[Tensor, Tensor]:
    """Gradient of `gaussian_kl` (prior mean 0) in (mean, scale), in closed form.

    Equation (svbnn-kl-gradient). Two elementwise operations each, where autograd through the logarithm needs about ten.

    Example:
        >>> gaussian_kl_grad(torch.tensor([1.0]), torch.tensor([0.5]), prior_scale=1.0)
        (tensor([1.]), tensor([-1.5000]))
    """
    precision = 1.0 / prior_scale**2
    return mean * precision, scale * precision - scale.reciprocal()
