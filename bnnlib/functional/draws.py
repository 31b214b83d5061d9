"""Weight draws that can deliver the gradient of the KL divergence within their own backward pass.

Each draw returns, beside the weight, a *token* of value 0 whose gradient is exactly that of the weight's KL
divergence: loss + token / n adds it in closed form in the one backward pass that the weight needs anyway, instead of
in a second chain of operations over all weights. A token left alone costs nothing.
"""

import math
from typing import Any

import torch
from torch import Tensor

from bnnlib._checks import check_scale
from bnnlib.functional._autograd import closed_form_sum, double_backward, factor, total, transformed, zero_sum
from bnnlib.functional.gaussian import gaussian_kl_grad, softplus_scale, softplus_slope, unchecked_gaussian_kl
from bnnlib.functional.gaussian_spike_slab import (
    MixturePrior,
    scale_mixture_grad_sample,
    scale_mixture_kl_sample,
    spike_slab_profile_grad,
    spike_slab_profile_penalty,
)
from bnnlib.functional.spike_slab import gate_of, prior_log_odds_kl, spike_slab_kl_grad, spike_slab_value

_FULL = (torch.float32, torch.float64)


def _plus(gradient: Tensor | None, kl: Tensor, factor: Tensor) -> Tensor:
    # on a CPU a Python number is the faster factor; on a GPU reading it would wait for the device
    if factor.dim() == 0 and kl.is_cpu:
        number = factor.item()
        return kl.mul_(number) if gradient is None else torch.add(gradient, kl, alpha=number)
    if gradient is None or factor.dim():
        kl = kl.mul_(factor)
        return kl if gradient is None else kl.add_(gradient)
    return torch.addcmul(gradient, kl, factor)


def _kl_grad(mean: Tensor, scale: Tensor, noise: Any, prior: Any, sampled: bool) -> tuple[Tensor, Tensor]:
    if not isinstance(prior, MixturePrior):
        return gaussian_kl_grad(mean, scale, prior)
    if sampled:  # an estimate at the drawn weight
        return scale_mixture_grad_sample(mean, scale, noise, prior)
    return spike_slab_profile_grad(mean, scale, prior)


def _kl(mean: Tensor, scale: Tensor, noise: Any, prior: Any, sampled: bool) -> Tensor:
    if not isinstance(prior, MixturePrior):
        return unchecked_gaussian_kl(mean, scale, prior)
    if sampled:
        return scale_mixture_kl_sample(mean, scale, noise, prior)
    return spike_slab_profile_penalty(mean, scale, prior) - 0.5


class _GaussianDraw(torch.autograd.Function):
    @staticmethod
    def forward(ctx, mean, rho, noise, prior, output, sampled, dim):
        ctx.set_materialize_grads(False)
        scale = softplus_scale(rho)
        ctx.save_for_backward(mean, rho, scale, noise)
        ctx.constants = prior, output, sampled, dim
        return _quantity(mean, scale, noise, output), zero_sum(mean, dim)

    @staticmethod
    def backward(ctx, grad, token):
        return *gaussian_backward(*ctx.saved_tensors, grad, token, *ctx.constants), *(None,) * 5


def gaussian_backward(mean, rho, scale, noise, grad, token, prior, output, sampled, dim):
    """Gradients in (mean, rho) of what `gaussian_draw` gives, from those of the weight and of the token."""
    if torch.is_grad_enabled():  # create_graph=True

        def plain(mean: Tensor, rho: Tensor) -> tuple[Tensor, Tensor | None]:
            weight, scale = _quantity(mean, softplus_scale(rho), noise, output), softplus_scale(rho)
            return weight, None if token is None else total(_kl(mean, scale, noise, prior, sampled), dim)

        return double_backward(plain, (mean, rho), (grad, token))
    d_mean = d_scale = None
    if grad is not None:
        d_mean = grad if output == "weight" else None
        d_scale = (grad * scale).mul_(2.0) if output == "variance" else grad * noise
    token = None if token is None else factor(token)
    if token is not None and token.is_cpu and not token.dim() and isinstance(prior, float):
        # gaussian_kl_grad, but into the buffers at hand: on a CPU fresh ones of a weight's size cost more in page
        # faults than the arithmetic
        number = token.item()
        precision = number / prior**2
        d_mean = mean * precision if d_mean is None else torch.add(d_mean, mean, alpha=precision)
        d_scale = scale * precision if d_scale is None else d_scale.add_(scale, alpha=precision)
        d_scale.sub_(buffer := scale.reciprocal(), alpha=number)
        return d_mean, d_scale.mul_(softplus_slope(rho, out=buffer))
    if token is not None:
        kl_mean, kl_scale = _kl_grad(mean, scale, noise, prior, sampled)
        d_mean, d_scale = _plus(d_mean, kl_mean, token), _plus(d_scale, kl_scale, token)
    return d_mean, None if d_scale is None else d_scale.mul_(softplus_slope(rho))


def _quantity(mean: Tensor, scale: Tensor, noise: Any, output: str) -> Tensor:
    if output == "variance":
        return scale.square()
    return torch.addcmul(mean, scale, noise) if output == "weight" else scale * noise


def gaussian_draw(
    mean: Tensor,
    rho: Tensor,
    noise: Tensor | None,
    prior: float | Tensor | MixturePrior | None,
    *,
    output: str = "weight",
    sampled: bool = False,
    dim: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Reparameterised Gaussian weight mean + softplus(rho) * noise and the token of its divergence to `prior`.

    Equation (svbnn-gaussian-sample), which is (sbnn-reparameterization), (3.5) of Saha et al. (2024).

    Args:
        mean, rho: parameters of one shape.
        noise: standard normal draws of that shape; drawn by the caller, so that compiled regions stay deterministic.
        prior: the standard deviation of N(0, prior^2), or a `MixturePrior` in the parameters' dtype; None is for draws
            whose token is left alone.
        output: "weight", "deviation" for softplus(rho) * noise, or "variance" for softplus(rho)^2 (noise unused).
        sampled: under a mixture the token carries Bayes by Backprop's estimate at the drawn weight in place of the
            closed form at p*.
        dim: 1 for a token (rows,) with one number for each row of weights.

    Returns:
        (weight, token): the token is a scalar, or has a number for each row; None while a graph is compiled, and
        without gradients.

    Example:
        >>> mean, rho = torch.zeros(2, 3, requires_grad=True), torch.zeros(2, 3, requires_grad=True)
        >>> weight, token = gaussian_draw(mean, rho, torch.randn(2, 3), 1.0)
        >>> weight.shape, token.shape
        (torch.Size([2, 3]), torch.Size([]))
    """
    # a transformation could not follow a token, and without gradients nobody asks for one
    if transformed() or not torch.is_grad_enabled():
        return _quantity(mean, softplus_scale(rho), noise, output), None
    return _GaussianDraw.apply(mean, rho, noise, prior, output, sampled, dim)


def gaussian_kl_sum(
    mean: Tensor, rho: Tensor, prior: float | Tensor | MixturePrior, with_value: bool = True, dim: int | None = None
) -> Tensor:
    """Exact sum over all weights of the KL of N(mean, softplus(rho)^2) to the prior, in nats, with a closed gradient.

    To N(0, prior^2) by equation (svbnn-gaussian-kl); to a `MixturePrior`, at p*, it is R* - 1/2 each, the second part
    of the objective in equation (sbnn-split), (3.6) of Saha et al. (2024).

    Args:
        mean, rho: parameters of one shape.
        prior: as for `gaussian_draw`.
        with_value: with False the result's value is 0 and only its gradient is exact: half the cost in a training step
            that logs the value now and then.
        dim: sum along it alone.

    Example:
        >>> mean, rho = torch.zeros(10, requires_grad=True), softplus_inverse(torch.full((10,), 0.5)).requires_grad_()
        >>> round(gaussian_kl_sum(mean, rho, 1.0).item(), 4)
        3.1815
    """
    if isinstance(prior, float):
        check_scale("prior", prior)

    def value(mean: Tensor, rho: Tensor) -> Tensor:
        return _kl(mean, softplus_scale(rho), None, prior, False)

    def gradient(grad: Tensor, mean: Tensor, rho: Tensor) -> tuple[Tensor, Tensor]:
        d_mean, d_scale = _kl_grad(mean, softplus_scale(rho), None, prior, False)
        return d_mean.mul_(grad), d_scale.mul_(softplus_slope(rho)).mul_(grad)

    return closed_form_sum(value, gradient, mean, rho, with_value=with_value, dim=dim)


def _spike_slab_grad(grad, token, saved, temperature, prior_logit, prior_scale) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of weight and divergence together, in few passes over memory and, what costs more, few new buffers."""
    mean, rho, scale, logit, noise, eta, gate = saved
    precision = 1.0 / prior_scale**2
    phi = torch.sigmoid(logit).mul_(token.item() if token.is_cpu and not token.dim() else token)  # a GPU would wait
    d_mean = grad * gate
    d_rho = torch.mul(d_mean, noise)
    d_mean.addcmul_(phi, mean, value=precision)
    d_rho.addcmul_(phi, scale, value=precision).addcdiv_(phi, scale, value=-1.0)
    d_rho.mul_(buffer := softplus_slope(rho))
    torch.log(scale, out=buffer)
    torch.sub(logit, buffer, out=buffer).addcmul_(scale, scale, value=0.5 * precision)
    buffer.addcmul_(mean, mean, value=0.5 * precision).add_(math.log(prior_scale) - 0.5 - prior_logit)
    # sigmoid(-logit) keeps the digits that 1 - phi loses
    phi.mul_(buffer).mul_(torch.neg(logit, out=buffer).sigmoid_())
    torch.div(eta, temperature, out=buffer).sigmoid_()
    torch.ops.aten.sigmoid_backward.grad_input(grad, buffer, grad_input=buffer)
    phi.addcmul_(buffer, mean, value=1.0 / temperature)
    return d_mean, d_rho, phi.addcmul_(buffer.mul_(scale), noise, value=1.0 / temperature)


class _SpikeSlabDraw(torch.autograd.Function):
    """Hard gate forward, soft gate backward."""

    @staticmethod
    def forward(ctx, mean, rho, logit, noise, logistic, temperature, prior_logit, prior_scale, dim):
        ctx.set_materialize_grads(False)
        scale = softplus_scale(rho)
        eta = logit + logistic
        gate = gate_of(eta)
        ctx.save_for_backward(mean, rho, scale, logit, noise, eta, gate)
        ctx.constants = temperature, prior_logit, prior_scale, dim
        return torch.addcmul(mean, scale, noise).mul_(gate), zero_sum(mean, dim)

    @staticmethod
    def backward(ctx, grad, token):
        return *spike_slab_backward(*ctx.saved_tensors, grad, token, *ctx.constants), *(None,) * 6


def spike_slab_backward(
    mean, rho, scale, logit, noise, eta, gate, grad, token, temperature, prior_logit, prior_scale, dim
):
    """Gradients in (mean, rho, logit) of what `spike_slab_draw` gives, from those of the weight and of the token."""
    if torch.is_grad_enabled():  # create_graph=True
        logistic = (eta - logit).detach()

        def plain(mean: Tensor, rho: Tensor, logit: Tensor) -> tuple[Tensor, Tensor | None]:
            weight = _relaxed(mean, rho, logit, noise, logistic, temperature)
            if token is None:
                return weight, None
            return weight, total(prior_log_odds_kl(mean, softplus_scale(rho), logit, prior_logit, prior_scale), dim)

        return double_backward(plain, (mean, rho, logit), (grad, token))
    token = None if token is None else factor(token)
    numbers = not (isinstance(prior_logit, Tensor) or isinstance(prior_scale, Tensor))
    if grad is not None and token is not None and numbers and mean.dtype in _FULL:
        saved = mean, rho, scale, logit, noise, eta, gate
        return _spike_slab_grad(grad, token, saved, temperature, prior_logit, prior_scale)
    d_mean = d_scale = d_logit = None
    if grad is not None:
        soft = torch.sigmoid(eta / temperature)
        slab = torch.addcmul(mean, scale, noise)
        d_logit = torch.addcmul(soft, soft, soft, value=-1.0).mul_(slab).mul_(grad).mul_(1.0 / temperature)
        d_mean = grad * gate
        d_scale = d_mean * noise
    if token is not None:
        kl_mean, kl_scale, kl_logit = spike_slab_kl_grad(mean, scale, logit, prior_logit, prior_scale)
        d_mean, d_scale, d_logit = (
            _plus(d, kl, token) for d, kl in ((d_mean, kl_mean), (d_scale, kl_scale), (d_logit, kl_logit))
        )
    return d_mean, None if d_scale is None else d_scale.mul_(softplus_slope(rho)), d_logit


def _relaxed(mean: Tensor, rho: Tensor, logit: Tensor, noise: Tensor, logistic: Tensor, temperature: float) -> Tensor:
    """The hard gate in value and the soft one in gradient, in plain operations."""
    eta = logit + logistic
    soft = torch.sigmoid(eta / temperature)
    gate = (eta > 0).to(eta.dtype) + (soft - soft.detach())
    return torch.addcmul(mean, softplus_scale(rho), noise) * gate


def spike_slab_draw(
    mean: Tensor,
    rho: Tensor,
    logit: Tensor,
    noise: Tensor,
    logistic: Tensor,
    temperature: float = 0.5,
    prior_logit: float | Tensor = 0.0,
    prior_scale: float | Tensor = 1.0,
    dim: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Sparse weight draw with the straight-through Gumbel-softmax gradient, and the token of its divergence.

    Equation (svbnn-straight-through).

    Args:
        mean, rho, logit: parameters of one shape.
        noise, logistic: standard normal draws and `logistic_noise` of that shape, drawn by the caller.
        temperature: of the soft gate in the backward pass.
        prior_logit, prior_scale: of the prior; prior_logit is log_odds(lambda).
        dim: as for `gaussian_draw`.

    Returns:
        (weight, token): the weight is exactly 0 where the gate is closed; the token is that of `gaussian_draw`.

    Example:
        >>> mean, rho, logit = (torch.zeros(2, 3, requires_grad=True) for _ in range(3))
        >>> noise, logistic = torch.randn(2, 3), logistic_noise(torch.rand(2, 3))
        >>> weight, token = spike_slab_draw(mean, rho, logit, noise, logistic, 0.5, prior_logit=-4.0, prior_scale=1.0)
        >>> weight.shape, bool((weight == 0).any())
        (torch.Size([2, 3]), True)
    """
    if not torch.is_grad_enabled():
        return spike_slab_value(mean, softplus_scale(rho), logit, noise, logistic), None
    if transformed():
        return _relaxed(mean, rho, logit, noise, logistic, temperature), None
    return _SpikeSlabDraw.apply(mean, rho, logit, noise, logistic, temperature, prior_logit, prior_scale, dim)
