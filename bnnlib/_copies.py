"""Copies of networks, also of those whose weights a hook computes, and modules in the places of others."""

import copy

from torch import Tensor, nn


def copied(model: nn.Module) -> nn.Module:
    """A deep copy of a model.

    A pruning hook and the older weight norm keep what they have computed as an attribute, which PyTorch does not copy
    since it is no leaf of the graph. The hook of the copy computes it again.
    """
    computed = [v for module in model.modules() for v in vars(module).values() if isinstance(v, Tensor)]
    return copy.deepcopy(model, {id(value): value.detach().clone() for value in computed if not value.is_leaf})


def replaced(model: nn.Module, new: dict[nn.Module, nn.Module]) -> nn.Module:
    """The model with new modules in the places of some, wherever they stand in it."""
    for module in [*model.modules(), *new.values()]:  # a new one may hold old ones
        for name, child in module._modules.items():
            if child in new:
                module._modules[name] = new[child]
    return new.get(model, model)
