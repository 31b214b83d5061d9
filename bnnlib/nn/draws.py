"""Weight draws that can deliver the gradient of the KL divergence within their own backward pass.

Each draw returns, beside the weight, a *token*: a scalar of value 0 whose gradient is exactly that of the weight's
KL divergence. `kl_gradient(model)` collects the tokens of the last forward pass, so that the divergence's gradient
is added in closed form in the one backward pass that the weight needs anyway, instead of in a second chain of
operations over all weights. A token that is not fresh any more (its pass was already differentiated, or the
parameters have changed) is dropped and the closed form is evaluated on its own: the result is the same.
"""

from __future__ import annotations

import weakref

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from bnnlib.functional import (
    gaussian_kl_grad,
    scale_mixture_grad_sample,
    spike_slab_kl_grad,
    spike_slab_profile_grad,
)


def _plus(gradient: Tensor | None, kl: Tensor, factor: Tensor) -> Tensor:
    # on a CPU a Python number is the faster factor; on a GPU reading it would wait for the device
    if kl.is_cpu:
        number = factor.item()
        return kl.mul_(number) if gradient is None else torch.add(gradient, kl, alpha=number)
    return kl.mul_(factor) if gradient is None else torch.addcmul(gradient, kl, factor)


class _GaussianDraw(torch.autograd.Function):
    """What an estimator needs of a Gaussian weight: a draw, the draw's deviation from its mean, or the variance."""

    @staticmethod
    def forward(ctx, mean, rho, noise, prior_scale, output, state):
        ctx.set_materialize_grads(False)
        scale = F.softplus(rho)
        ctx.save_for_backward(mean, rho, scale, noise)
        ctx.prior_scale, ctx.output, ctx.state = prior_scale, output, state
        if output == "variance":
            return scale.square(), mean.new_zeros(())
        return (torch.addcmul(mean, scale, noise) if output == "weight" else scale * noise), mean.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, token):
        mean, rho, scale, noise = ctx.saved_tensors
        ctx.state.spent = True
        d_mean = d_scale = None
        if grad is not None:
            d_mean = grad if ctx.output == "weight" else None
            d_scale = (grad * scale).mul_(2.0) if ctx.output == "variance" else grad * noise
        if token is not None and mean.is_cpu:
            # gaussian_kl_grad, but into the buffers at hand: on a CPU fresh ones of a weight's size cost more in page
            # faults than the arithmetic
            factor = token.item()
            precision = factor / ctx.prior_scale**2
            d_mean = mean * precision if d_mean is None else torch.add(d_mean, mean, alpha=precision)
            d_scale = scale * precision if d_scale is None else d_scale.add_(scale, alpha=precision)
            d_scale.sub_(buffer := scale.reciprocal(), alpha=factor)
            return d_mean, d_scale.mul_(torch.sigmoid(rho, out=buffer)), None, None, None, None
        if token is not None:
            kl_mean, kl_scale = gaussian_kl_grad(mean, scale, ctx.prior_scale)
            d_mean, d_scale = _plus(d_mean, kl_mean, token), _plus(d_scale, kl_scale, token)
        if d_scale is None:
            return None, None, None, None, None, None
        return d_mean, d_scale.mul_(torch.sigmoid(rho)), None, None, None, None


class _MixtureDraw(torch.autograd.Function):
    """As `_GaussianDraw`, for a prior with a spike and a slab."""

    @staticmethod
    def forward(ctx, mean, rho, noise, prior, output, sampled, state):
        ctx.set_materialize_grads(False)
        scale = F.softplus(rho)
        ctx.save_for_backward(mean, rho, scale, noise)
        ctx.prior, ctx.output, ctx.sampled, ctx.state = prior, output, sampled, state
        if output == "variance":
            return scale.square(), mean.new_zeros(())
        return (torch.addcmul(mean, scale, noise) if output == "weight" else scale * noise), mean.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, token):
        mean, rho, scale, noise = ctx.saved_tensors
        ctx.state.spent = True
        d_mean = d_scale = None
        if grad is not None:
            d_mean = grad if ctx.output == "weight" else None
            d_scale = (grad * scale).mul_(2.0) if ctx.output == "variance" else grad * noise
        if token is not None:
            if ctx.sampled:
                kl_mean, kl_scale = scale_mixture_grad_sample(mean, scale, noise, ctx.prior)
            else:
                kl_mean, kl_scale = spike_slab_profile_grad(mean, scale, ctx.prior)
            d_mean, d_scale = _plus(d_mean, kl_mean, token), _plus(d_scale, kl_scale, token)
        if d_scale is None:
            return (None,) * 7
        return d_mean, d_scale.mul_(torch.sigmoid(rho)), None, None, None, None, None


class _SpikeSlabDraw(torch.autograd.Function):
    @staticmethod
    def forward(ctx, mean, rho, logit, noise, logistic, temperature, prior_logit, prior_scale, state):
        ctx.set_materialize_grads(False)
        scale = F.softplus(rho)
        eta = logit + logistic
        gate = torch.heaviside(eta, eta.new_zeros(()))  # a Boolean gate makes every product with it five times slower
        slab = torch.addcmul(mean, scale, noise)
        ctx.save_for_backward(mean, rho, scale, logit, noise, eta, gate, slab)
        ctx.constants, ctx.state = (temperature, prior_logit, prior_scale), state
        return slab * gate, mean.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, token):
        mean, rho, scale, logit, noise, eta, gate, slab = ctx.saved_tensors
        temperature, prior_logit, prior_scale = ctx.constants
        ctx.state.spent = True
        d_mean = d_scale = d_logit = None
        if grad is not None:
            soft = torch.sigmoid(eta / temperature)
            d_logit = torch.addcmul(soft, soft, soft, value=-1.0).mul_(slab).mul_(grad).mul_(1.0 / temperature)
            d_mean = grad * gate
            d_scale = d_mean * noise
        if token is not None:
            kl_mean, kl_scale, kl_logit = spike_slab_kl_grad(mean, scale, logit, prior_logit, prior_scale)
            d_mean, d_scale, d_logit = (
                _plus(d, kl, token) for d, kl in ((d_mean, kl_mean), (d_scale, kl_scale), (d_logit, kl_logit))
            )
        if d_scale is None:
            return (None,) * 9
        return d_mean, torch.sigmoid(rho).mul_(d_scale), d_logit, None, None, None, None, None, None


class _State:
    """What decides whether the tokens of one forward pass of a layer are still fresh."""

    def __init__(self, parameters: list[Tensor]):
        self.parameters, self.versions = parameters, [p._version for p in parameters]
        self.tokens: list[Tensor] = []
        self.spent = False

    def fresh(self) -> bool:
        return not self.spent and self.versions == [p._version for p in self.parameters]


# outside the modules, so that copies, pickles and state_dicts never see a token
_STATES: weakref.WeakKeyDictionary[torch.nn.Module, _State] = weakref.WeakKeyDictionary()


def _draw(layer: torch.nn.Module, function: type[torch.autograd.Function], draws: list[tuple]) -> list[Tensor]:
    _STATES.pop(layer, None)
    state = _State(
        [parameter for arguments in draws for parameter in arguments if isinstance(parameter, torch.nn.Parameter)]
    )
    results = [function.apply(*arguments, state) for arguments in draws]
    if all(token.requires_grad for _, token in results):
        state.tokens = [token for _, token in results]
        _STATES[layer] = state
    return [weight for weight, _ in results]


def joint_draw(
    layers: list[torch.nn.Module], function: type[torch.autograd.Function], constants: tuple, parameters: list[tuple]
) -> list[Tensor]:
    """One draw for several layers, each with a token of its own.

    Args:
        function: called as function.apply(*constants, states, *firsts, *seconds, ...) with the layers' parameters kind
            by kind; returns a tensor for each layer, then a token for each layer.
        parameters: of each layer.
    """
    states = [_State(list(own)) for own in parameters]
    results = function.apply(*constants, states, *(p for kind in zip(*parameters, strict=True) for p in kind))
    draws, tokens = results[: len(layers)], results[len(layers) :]
    for layer, state, token in zip(layers, states, tokens, strict=True):
        _STATES.pop(layer, None)
        if token.requires_grad:
            state.tokens = [token]
            _STATES[layer] = state
    return list(draws)


def gaussian_draw(
    layer: torch.nn.Module, draws: list[tuple[Tensor, Tensor, Tensor | None, float]], output: str = "weight"
) -> list[Tensor]:
    """For each (mean, rho, noise, prior_scale) a quantity of its Gaussian weight, remembering the layer's tokens.

    Args:
        output: "weight" for mean + scale * noise, "deviation" for scale * noise, "variance" for scale^2 (noise unused).
    """
    return _draw(layer, _GaussianDraw, [(*arguments, output) for arguments in draws])


def mixture_draw(
    layer: torch.nn.Module, draws: list[tuple], output: str = "weight", sampled: bool = False
) -> list[Tensor]:
    """As `gaussian_draw`, for (mean, rho, noise, prior) with a `MixturePrior`.

    Args:
        sampled: the tokens carry Bayes by Backprop's estimate at the drawn weight in place of the closed form.
    """
    return _draw(layer, _MixtureDraw, [(*arguments, output, sampled) for arguments in draws])


def spike_slab_draw(layer: torch.nn.Module, draws: list[tuple]) -> list[Tensor]:
    """`functional.spike_slab_weight` of each tuple of its arguments but the last, remembering the layer's tokens."""
    return _draw(layer, _SpikeSlabDraw, draws)


def take_token(layer: torch.nn.Module) -> Tensor | None:
    """The token of the layer's last draw, if it is fresh; it can be taken once."""
    state = _STATES.pop(layer, None)
    return sum(state.tokens) if state is not None and state.fresh() else None
