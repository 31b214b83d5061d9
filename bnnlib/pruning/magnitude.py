"""Masks that keep the largest weights."""

from __future__ import annotations

from torch import Tensor

from bnnlib.pruning.ranking import rank_mask


def magnitude_mask(weight: Tensor, sparsity: float, batch_dims: int = 0) -> Tensor:
    """Boolean mask, False for the `sparsity` share of smallest |weight|.

    Args:
        weight: any shape.
        sparsity: share of entries to remove; the number removed is rounded to the nearest integer.
        batch_dims: leading dimensions that are pruned independently (1 for a stack of replicates).

    Returns:
        Tensor of bool in weight's shape. Ties are broken by position, so exactly the asked number is removed.

    Raises:
        ValueError: sparsity is outside [0, 1], or weight is empty or has NaN.

    Example:
        >>> magnitude_mask(torch.tensor([3.0, -1.0, 2.0, 0.5]), sparsity=0.5)
        tensor([ True, False,  True, False])
    """
    return rank_mask(weight.detach().abs(), sparsity, batch_dims)
