"""Sums whose gradient is written down, and sums of half-precision terms."""

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

    It returns as many tensors as there are `grads`, which are None for one that nothing depends on.
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


def zero_sum(like: Tensor, dim: int | None) -> Tensor:
    """0 in the form of a sum of `like` over all, or along dim=1 for each row."""
    return like.new_zeros(like.shape[: dim or 0], dtype=sum_dtype(like))


def factor(grad: Tensor) -> Tensor:
    """The gradient of a sum of `zero_sum`'s form as a factor: a scalar where all rows share one, else a column."""
    if grad.dim() == 0:
        return grad
    return grad[0] if grad.stride(0) == 0 else grad.unsqueeze(1)


class _ClosedFormSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, gradient, with_value, dim, *parameters):
        ctx.save_for_backward(*parameters)
        ctx.value, ctx.gradient, ctx.dim = value, gradient, dim
        zero = zero_sum(parameters[0], dim)
        return total(value(*_wide(parameters)), dim).to(zero.dtype) if with_value else zero

    @staticmethod
    def backward(ctx, grad):
        saved = ctx.saved_tensors  # once: a checkpoint gives them out once
        if torch.is_grad_enabled():  # create_graph=True
            return *(None,) * 4, *double_backward(lambda *p: (total(ctx.value(*_wide(p)), ctx.dim),), saved, [grad])
        gradients = ctx.gradient(factor(grad), *_wide(saved))
        return *(None,) * 4, *(g.to(p.dtype) for g, p in zip(gradients, saved, strict=True))


def _wide(parameters: Sequence[Tensor]) -> list[Tensor]:
    return [parameter.to(sum_dtype(parameter)) for parameter in parameters]


def closed_form_sum(
    value: Callable[..., Tensor],
    gradient: Callable[..., tuple[Tensor, ...]],
    *parameters: Tensor,
    with_value: bool = True,
    dim: int | None = None,
) -> Tensor:
    """The sum of value(*parameters), or 0 without computing it, with the gradient gradient(grad, *parameters)."""
    if transformed():
        plain = total(value(*_wide(parameters)), dim).to(sum_dtype(parameters[0]))
        return plain if with_value else plain - plain.detach()
    return _ClosedFormSum.apply(value, gradient, with_value, dim, *parameters)
