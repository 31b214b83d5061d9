"""Draws by key in one pass over the parameters, and their gradients in another, which makes the same noise again.

Between the two nothing is kept but the key. What the kernels do not know (other types and layouts, a divergence with a
number for each row, a backward pass that is itself differentiated) takes the formulas of `bnnlib.functional.draws`, on
noise that is made for it.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from bnnlib import _native
from bnnlib._memory import keep_pages
from bnnlib._noise import Keys, Source, _in_order, fold
from bnnlib.functional._autograd import factor, transformed, zero_sum
from bnnlib.functional.draws import gate_of, gaussian_backward, spike_slab_backward
from bnnlib.functional.gaussian import softplus_scale


def fits(source: Source, *groups: tuple[Tensor, ...]) -> bool:
    """Whether the kernels can draw from groups of parameters by `source`; the first yes to all else compiles them."""
    return (
        isinstance(source, Keys)
        and not transformed()
        and all(_dense(group) for group in groups)
        and _native.available()
    )


def _dense(group: tuple[Tensor, ...]) -> bool:
    """Whether tensors lie in memory alike and without gaps, in the first one's order."""
    first = group[0]
    if not (first.is_cpu and first.numel() <= _native.LARGEST):
        return False
    return all(
        type(one) in (Tensor, nn.Parameter)
        and one.dtype is torch.float32
        and one.shape == first.shape
        and (one.is_contiguous() if first.is_contiguous() else _in_order(one).is_contiguous() != one.is_contiguous())
        for one in group
    )


def _keys(source: Keys, number: int) -> tuple[int, ...]:
    key = int(source.key) & (1 << 64) - 1
    return tuple(fold(key, source.next()) for _ in range(number))


def _made(like: Tensor, kind: str, key: int) -> Tensor:
    noise = torch.empty_like(like, requires_grad=False)
    _native.fill(_in_order(noise).view(-1), kind, key)
    return noise


def _as(like: Tensor, grad: Tensor) -> Tensor | None:
    """A gradient in the order of memory of `like`; None for one that the kernels cannot read."""
    if grad.layout is not torch.strided or grad.dtype is not torch.float32 or type(grad) is not Tensor:
        return None
    return grad.contiguous(memory_format=torch.contiguous_format if like.is_contiguous() else torch.channels_last)


def _number(token: Tensor | None) -> float | None:
    """What the divergence counts in the objective, 0 without a token; None where each row has its own."""
    if token is None:
        return 0.0
    token = factor(token)
    return None if token.dim() else token.item()


class _GaussianByKey(torch.autograd.Function):
    @staticmethod
    def forward(ctx, mean, rho, keys, prior, sampled, dim):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(mean, rho)
        ctx.keys, ctx.constants = keys, (prior, "weight", sampled, dim)
        return _gaussian_value(mean, rho, keys), zero_sum(mean, dim)

    @staticmethod
    def backward(ctx, grad, token):
        mean, rho = ctx.saved_tensors
        prior, number = ctx.constants[0], _number(token)
        known = isinstance(prior, float) or token is None
        if grad is not None and number is not None and known and not torch.is_grad_enabled():
            own = _as(mean, grad)
            if own is not None:
                found = torch.empty_like(mean), torch.empty_like(rho)
                precision = number / prior**2 if number else 0.0
                _native.run("gaussian_grad", ctx.keys, (mean, rho, own), found, (number, precision))
                return *found, *(None,) * 4
        noise = _made(mean, "normal", *ctx.keys)
        scale = softplus_scale(rho.detach())
        return *gaussian_backward(mean, rho, scale, noise, grad, token, *ctx.constants), *(None,) * 4


def _gaussian_value(mean: Tensor, rho: Tensor, keys: tuple[int, ...]) -> Tensor:
    keep_pages()
    weight = torch.empty_like(mean, requires_grad=False)
    _native.run("gaussian", keys, (mean, rho), (weight,))
    return weight


def gaussian_by_key(
    mean: Tensor, rho: Tensor, source: Keys, prior: Any, *, sampled: bool = False, dim: int | None = None
) -> tuple[Tensor, Tensor | None]:
    """`gaussian_draw` of weights with the next noise of `source`, for parameters that `fits` takes."""
    keys = _keys(source, 1)
    if not torch.is_grad_enabled():
        return _gaussian_value(mean, rho, keys), None
    return _GaussianByKey.apply(mean, rho, keys, prior, sampled, dim)


class _SpikeSlabByKey(torch.autograd.Function):
    @staticmethod
    def forward(ctx, mean, rho, logit, keys, temperature, prior_logit, prior_scale, dim):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(mean, rho, logit)
        ctx.keys, ctx.constants = keys, (temperature, prior_logit, prior_scale, dim)
        return _spike_slab_value(mean, rho, logit, keys), zero_sum(mean, dim)

    @staticmethod
    def backward(ctx, grad, token):
        mean, rho, logit = ctx.saved_tensors
        temperature, prior_logit, prior_scale, _ = ctx.constants
        number, known = _number(token), not isinstance(prior_logit, Tensor) and not isinstance(prior_scale, Tensor)
        if grad is not None and number is not None and known and not torch.is_grad_enabled():
            own = _as(mean, grad)
            if own is not None:
                found = torch.empty_like(mean), torch.empty_like(rho), torch.empty_like(logit)
                constants = number, prior_scale**-2, math.log(prior_scale) - 0.5 - prior_logit, 1.0 / temperature
                _native.run("spike_slab_grad", ctx.keys, (mean, rho, logit, own), found, constants)
                return *found, *(None,) * 5
        noise, logistic = _made(mean, "normal", ctx.keys[0]), _made(mean, "logistic", ctx.keys[1])
        eta = logit.detach() + logistic
        saved = mean, rho, softplus_scale(rho.detach()), logit, noise, eta, gate_of(eta)
        return *spike_slab_backward(*saved, grad, token, *ctx.constants), *(None,) * 5


def _spike_slab_value(mean: Tensor, rho: Tensor, logit: Tensor, keys: tuple[int, ...]) -> Tensor:
    keep_pages()
    weight = torch.empty_like(mean, requires_grad=False)
    _native.run("spike_slab", keys, (mean, rho, logit), (weight,))
    return weight


def spike_slab_by_key(
    mean: Tensor, rho: Tensor, logit: Tensor, source: Keys, *constants: Any
) -> tuple[Tensor, Tensor | None]:
    """`spike_slab_draw` with the next noise of `source`, for parameters that `fits` takes."""
    keys = _keys(source, 2)
    if not torch.is_grad_enabled():
        return _spike_slab_value(mean, rho, logit, keys), None
    return _SpikeSlabByKey.apply(mean, rho, logit, keys, *constants)
