"""Where in a network its hidden layers are, and how something is put beside them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from torch import nn

Layer = nn.Linear | nn.Conv2d


def layers_of(network: nn.Module) -> dict[str, Layer]:
    """Linear and convolutional layers by name, in the order of the forward pass; the last makes the outputs."""
    return {name: module for name, module in network.named_modules() if isinstance(module, nn.Linear | nn.Conv2d)}


def put_beside(network: nn.Module, make: Callable[[Layer], nn.Module], *, behind: bool) -> nn.Module:
    """Put a module behind every layer but the last, or in front of every layer but the first, in place.

    Args:
        make: called with the layer that stands before the new module; returns it.
    """
    layers = list(layers_of(network).items())
    pairs = layers[:-1]
    if not behind:
        pairs = [(name, before) for (_, before), (name, _) in pairwise(layers)]
    for name, before in pairs:
        parent, _, own = name.rpartition(".")
        layer = network.get_submodule(name)
        new = (layer, make(before)) if behind else (make(before), layer)
        setattr(network.get_submodule(parent), own, nn.Sequential(*new))
    return network


def drawn_anew(network: nn.Module) -> nn.Module:
    """The network with first weights from PyTorch's global generator, to be trained."""
    module: Any
    for module in network.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    return network.requires_grad_(True)
