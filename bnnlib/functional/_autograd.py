"""Sums whose gradient is written down, and sums of half-precision terms."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


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
        ctx.gradient = gradient
        dtype = sum_dtype(parameters[0])
        return total(value(*parameters)).to(dtype) if with_value else parameters[0].new_zeros((), dtype=dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return None, None, None, *ctx.gradient(grad, *ctx.saved_tensors)


def closed_form_sum(
    value: Callable[..., Tensor], gradient: Callable[..., tuple[Tensor, ...]], *parameters: Tensor, with_value: bool
) -> Tensor:
    """The sum of value(*parameters), a scalar, with the gradient gradient(grad, *parameters).

    Args:
        with_value: with False the value is 0 and is not computed.
    """
    return _ClosedFormSum.apply(value, gradient, with_value, *parameters)
