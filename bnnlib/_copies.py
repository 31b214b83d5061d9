"""Copies of networks, also of those whose weights a hook computes."""

from __future__ import annotations

import copy

from torch import Tensor, nn


def copied(model: nn.Module) -> nn.Module:
    """A deep copy of a model.

    A pruning hook and the older weight norm keep what they have computed as an attribute, which PyTorch does not copy
    since it is no leaf of the graph. The hook of the copy computes it again.
    """
    computed = [v for module in model.modules() for v in vars(module).values() if isinstance(v, Tensor)]
    return copy.deepcopy(model, {id(value): value.detach().clone() for value in computed if not value.is_leaf})
