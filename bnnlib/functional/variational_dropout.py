"""Sparse variational dropout: multiplicative Gaussian noise under the log-uniform prior."""

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib.functional._autograd import closed_form_sum, double_backward, sum_dtype, total, transformed

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


def _gradient(factor: Tensor, mean: Tensor, log_variance: Tensor) -> tuple[Tensor, Tensor]:
    """factor times the derivatives of `sparse_vd_kl` in (mean, log_variance), in float32 or better; four buffers."""
    mean, log_variance = (p.to(sum_dtype(p)) for p in (mean, log_variance))
    number = factor.item() if factor.is_cpu and not factor.dim() else factor  # reading it on a GPU would wait
    square = mean.square().add_(_EPS)
    alpha = torch.log(square)
    torch.sub(log_variance, alpha, out=alpha)
    d_alpha = torch.mul(alpha, _K3).add_(_K2).sigmoid_()
    d_alpha.addcmul_(d_alpha, d_alpha, value=-1.0).mul_(-_K1 * _K3)
    d_alpha.add_(alpha.neg_().sigmoid_(), alpha=-0.5).mul_(number)
    return torch.div(mean, square, out=square).mul_(d_alpha).mul_(-2.0), d_alpha


def sparse_vd_kl_sum(mean: Tensor, log_variance: Tensor, with_value: bool = True, dim: int | None = None) -> Tensor:
    """Sum of `sparse_vd_kl` over all weights, with its gradient in (mean, log_variance) in closed form.

    Args:
        with_value: with False the value is 0 and only the gradient is exact.
        dim: sum along it alone.

    Example:
        >>> mean, log_variance = torch.ones(10, requires_grad=True), torch.zeros(10, requires_grad=True)
        >>> torch.allclose(sparse_vd_kl_sum(mean, log_variance), 10 * sparse_vd_kl(torch.tensor(0.0)))
        True
    """

    def value(mean: Tensor, log_variance: Tensor) -> Tensor:
        return sparse_vd_kl(log_alpha(mean, log_variance))

    return closed_form_sum(value, _gradient, mean, log_variance, with_value=with_value, dim=dim)


class _Variance(torch.autograd.Function):
    @staticmethod
    def forward(ctx, mean, log_variance):
        ctx.set_materialize_grads(False)
        variance = torch.exp(log_variance)
        ctx.save_for_backward(mean, log_variance, variance)
        return variance, mean.new_zeros((), dtype=sum_dtype(mean))

    @staticmethod
    def backward(ctx, grad, token):
        return variance_backward(*ctx.saved_tensors, grad, token)


def variance_backward(mean, log_variance, variance, grad, token):
    """Gradients in (mean, log_variance) of what `sparse_vd_variance` gives, from those of variance and token."""
    if torch.is_grad_enabled():  # create_graph=True

        def plain(mean: Tensor, log_variance: Tensor) -> tuple[Tensor, Tensor | None]:
            if token is None:
                return log_variance.exp(), None
            dtype = sum_dtype(mean)
            return log_variance.exp(), total(sparse_vd_kl(log_alpha(mean.to(dtype), log_variance.to(dtype))))

        return double_backward(plain, (mean, log_variance), (grad, token))
    if token is None:
        return None, None if grad is None else grad * variance
    d_mean, d_log_variance = (d.to(mean.dtype) for d in _gradient(token, mean, log_variance))
    return d_mean, d_log_variance if grad is None else d_log_variance.addcmul_(grad, variance)


def sparse_vd_variance(mean: Tensor, log_variance: Tensor) -> tuple[Tensor, Tensor | None]:
    """exp(log_variance) and the token of `sparse_vd_kl_sum`, whose gradient then comes with that of the variance.

    Args:
        mean, log_variance: parameters of one shape.

    Returns:
        (variance, token): the token is a scalar as `bnnlib.functional.gaussian_draw` gives it, None while a graph is
        compiled.

    Example:
        >>> mean, log_variance = torch.zeros(2, 3, requires_grad=True), torch.zeros(2, 3, requires_grad=True)
        >>> variance, token = sparse_vd_variance(mean, log_variance)
        >>> variance.shape, token.shape
        (torch.Size([2, 3]), torch.Size([]))
    """
    if transformed():  # which could not follow a token
        return torch.exp(log_variance), None
    return _Variance.apply(mean, log_variance)
