"""Sums whose gradient is written down, and sums of half-precision terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def transformed() -> bool:
    """Whether a compiler or a transformation of `torch.func` is at work: both follow plain operations alone."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def double_backward(
    function: Callable[..., tuple[Tensor | None, ...]], inputs: Sequence[Tensor], grads: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """Gradients of `function`, made of plain operations, as a graph: for backward passes to be differentiated again.

    Args:
        function: of `inputs`, returns as many tensors as there are `grads`.
        grads: of the outputs; None for one that nothing depends on.
    """
    with torch.enable_grad():
        own = [tensor.view_as(tensor) for tensor in inputs]  # partial derivatives, also where one depends on another
        pairs = [(out, grad) for out, grad in zip(function(*own), grads, strict=True) if grad is not None]
        outputs, given = zip(*pairs, strict=True)
        return torch.autograd.grad(outputs, own, given, create_graph=True, allow_unused=True)


def sum_dtype(like: Tensor) -> torch.dtype:
    """The type for a sum over weights of `like`'s type: float16 ends at 65,504, which a layer's divergence exceeds."""
    return torch.promote_types(like.dtype, torch.float32)


def total(terms: Tensor, dim: int | None = None) -> Tensor:
    """Sum over all terms, or along `dim`; of half-precision terms in float32."""
    return terms.sum(dim, dtype=sum_dtype(terms))


class _ClosedFormSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, gradient, with_value, *parameters):
        ctx.save_for_backward(*parameters)
        ctx.value, ctx.gradient = value, gradient
        parameters = _wide(parameters)
        dtype = sum_dtype(parameters[0])
        return total(value(*parameters)).to(dtype) if with_value else parameters[0].new_zeros((), dtype=dtype)

    @staticmethod
    def backward(ctx, grad):
        saved = ctx.saved_tensors  # once: a checkpoint gives them out once
        if torch.is_grad_enabled():  # create_graph=True
            return None, None, None, *double_backward(lambda *p: (total(ctx.value(*_wide(p))),), saved, [grad])
        found = ctx.gradient(grad, *_wide(saved))
        return None, None, None, *(g.to(p.dtype) for g, p in zip(found, saved, strict=True))


def _wide(parameters: Sequence[Tensor]) -> list[Tensor]:
    return [parameter.to(sum_dtype(parameter)) for parameter in parameters]


def closed_form_sum(
    value: Callable[..., Tensor], gradient: Callable[..., tuple[Tensor, ...]], *parameters: Tensor, with_value: bool
) -> Tensor:
    """The sum of value(*parameters), a scalar, with the gradient gradient(grad, *parameters).

    Args:
        with_value: with False the value is 0 and is not computed.
    """
    if transformed():
        plain = total(value(*_wide(parameters))).to(sum_dtype(parameters[0]))
        return plain if with_value else plain - plain.detach()
    return _ClosedFormSum.apply(value, gradient, with_value, *parameters)
