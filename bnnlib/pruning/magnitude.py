"""Masks that keep the largest weights."""

from __future__ import annotations

import torch
from torch import Tensor

from bnnlib._checks import check_probability


def magnitude_mask(weight: Tensor, sparsity: float, batch_dims: int = 0) -> Tensor:
    """Boolean mask, False for the `sparsity` share of smallest |weight|.

    Args:
        weight: any shape.
        sparsity: share of entries to remove; the number removed is rounded to the nearest integer.
        batch_dims: leading dimensions that are pruned independently (1 for a stack of replicates).

    Returns:
        Tensor of bool in weight's shape. Ties are broken by position, so exactly the asked number is removed.

    Raises:
        ValueError: sparsity is outside [0, 1].
    """
    check_probability("sparsity", sparsity)
    flat = weight.detach().abs().reshape(*weight.shape[:batch_dims], -1)
    remove = round(sparsity * flat.shape[-1])
    order = flat.argsort(dim=-1, stable=True)
    mask = torch.ones_like(flat, dtype=torch.bool)
    mask.scatter_(-1, order[..., :remove], False)
    return mask.reshape(weight.shape)
