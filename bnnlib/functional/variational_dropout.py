"""Sparse variational dropout: multiplicative Gaussian noise under the log-uniform prior."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib.functional._autograd import closed_form_sum

# Molchanov, Ashukha and Vetrov (2017), equation (14): a fit of the divergence, which has no closed form
_K1, _K2, _K3 = 0.63576, 1.87320, 1.48695
_EPS = 1e-8


def log_alpha(mean: Tensor, log_variance: Tensor, eps: float = _EPS) -> Tensor:
    """log of alpha = sigma^2 / mean^2, the variance of the multiplicative noise, equation (svbnn-vd-alpha).

    Args:
        mean, log_variance: tensors of one shape.
        eps: added to mean^2, so that a weight at 0 has a large but finite alpha.

    Example:
        >>> log_alpha(torch.tensor([1.0, 0.1]), torch.tensor([0.0, 0.0]))
        tensor([0.0000, 4.6052])
    """
    return log_variance - torch.log(mean.square() + eps)


def sparse_vd_kl(log_alpha: Tensor) -> Tensor:
    """KL of N(mean, alpha mean^2) to the log-uniform prior, per weight, in nats, up to its infinite constant.

    Equation (svbnn-vd-kl): k1 - k1 sigmoid(k2 + k3 log alpha) + log(1 + 1/alpha)/2, the approximation of Molchanov
    et al. (2017) with the constant chosen so that it falls to 0 as alpha grows.

    Example:
        >>> sparse_vd_kl(torch.tensor([-3.0, 0.0, 3.0]))
        tensor([2.1156, 0.4312, 0.0254])
    """
    return _K1 * torch.sigmoid(-(_K2 + _K3 * log_alpha)) + 0.5 * F.softplus(-log_alpha)


def sparse_vd_kl_grad(log_alpha: Tensor) -> Tensor:
    """Derivative of `sparse_vd_kl` in log alpha, in closed form.

    Example:
        >>> sparse_vd_kl_grad(torch.tensor([-3.0, 0.0]))
        tensor([-0.5378, -0.3591])
    """
    gate = torch.sigmoid(_K2 + _K3 * log_alpha)
    return -_K1 * _K3 * gate * (1.0 - gate) - 0.5 * torch.sigmoid(-log_alpha)


def sparse_vd_kl_sum(mean: Tensor, log_variance: Tensor, with_value: bool = True) -> Tensor:
    """Sum of `sparse_vd_kl` over all weights, with its gradient in (mean, log_variance) in closed form.

    Args:
        with_value: with False the value is 0 and only the gradient is exact.

    Example:
        >>> mean, log_variance = torch.ones(10, requires_grad=True), torch.zeros(10, requires_grad=True)
        >>> torch.allclose(sparse_vd_kl_sum(mean, log_variance), 10 * sparse_vd_kl(torch.tensor(0.0)))
        True
    """

    def gradient(grad: Tensor, mean: Tensor, log_variance: Tensor) -> tuple[Tensor, Tensor]:
        d_alpha = sparse_vd_kl_grad(log_alpha(mean, log_variance)).mul_(grad)
        return d_alpha * mean / mean.square().add_(_EPS) * -2.0, d_alpha

    return closed_form_sum(
        lambda m, v: sparse_vd_kl(log_alpha(m, v)), gradient, mean, log_variance, with_value=with_value
    )
