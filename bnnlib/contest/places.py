"""Where in a network its hidden layers are, and how something is put beside them."""

from collections.abc import Callable
from copy import deepcopy
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn

Layer = nn.Linear | nn.Conv2d


@torch.no_grad()
def layers_of(network: nn.Module, example: Tensor) -> dict[str, Layer]:
    """Linear and convolutional layers by name, in the order in which `example` comes through them, at its first call.

    The last makes the outputs. Layers that are not called are not among them.
    """
    called: list[str] = []
    copy = deepcopy(network).eval()  # whose modes and hooks are nobody's
    for name, layer in copy.named_modules():
        if isinstance(layer, Layer):
            layer.register_forward_pre_hook(lambda *_, name=name: called.append(name))
    copy(example)
    return {name: cast(Layer, network.get_submodule(name)) for name in dict.fromkeys(called)}


def put_beside(network: nn.Module, example: Tensor, make: Callable[[Layer], nn.Module], *, behind: bool) -> nn.Module:
    """Put a module behind every layer but the last, or in front of every layer but the first, in place.

    Args:
        example: rows that go through the network once.
        make: called with the layer that stands before the new module; returns it.
    """
    layers = list(layers_of(network, example).items())
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
