"""Noise on units at test time is a factor for each of them, and moves into the weights of a neighboring layer."""

import math
from typing import cast

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bnnlib.nn.structured_pruning import StructuredBayesianPruning
from bnnlib.pruning.compress.graph import Layer, Modules, kind, module_of, tensor_shape, trace
from bnnlib.pruning.compress.layers import SelectedLinear, activated, replace_module, running_statistics


@torch.no_grad()
def fold_noise(model: nn.Module, example: Tensor) -> nn.Module:
    """Take every noise layer out of a model in eval(), in place, with its factors E theta * mask in a neighbor.

    The factors go into the columns of the layers that read the units, if only linear and convolutional layers and batch
    norm do, else into the rows of the layer that makes them. Where neither is possible, as on the sum of a residual
    network that the next sum reads too, a batch norm that only multiplies takes the place of the noise.
    """
    noises = [name for name, module in model.named_modules() if isinstance(module, StructuredBayesianPruning)]
    if not noises:
        return model
    graph, modules = trace(model, example)
    nodes = {node.target: node for node in graph.nodes if node.op == "call_module"}
    # all of them in one graph: what has its factors elsewhere, or is a batch norm that only multiplies, lets others by
    places = {name: _fold(nodes[name], modules) if name in nodes else None for name in noises}
    for name, place in places.items():
        model = replace_module(model, name, place)
    return model


def _fold(node: fx.Node, modules: Modules) -> nn.Module | None:
    """Move the factors of a noise layer; what has to stand in its place, if anything."""
    noise, size = module_of(node, modules), tensor_shape(node)
    factor, axis = noise.selected().detach(), noise.dim % len(size)
    if axis not in (1, len(size) - 1):
        raise ValueError(
            f"{node.target} has noise along dimension {noise.dim} of a tensor of shape {size}, but units can be "
            "removed along the channels (dimension 1) and, behind a linear layer, along the last dimension only."
        )
    if readers := _readers(node, axis, modules):
        for layer, repeat in readers:
            _scale_columns(layer, factor.repeat_interleave(repeat))
    elif (maker := _maker(node, axis, modules)) is not None:
        for values in (maker.weight, maker.bias):
            if values is not None:
                values.mul_(factor.view(-1, *[1] * (values.dim() - 1)))
    elif axis == 1:
        return _scaling(factor, len(size))
    else:
        raise ValueError(
            f"{node.target} has noise on features of a tensor of shape {size}, and neither the layer before nor all "
            "that read it can take it up. Put it right after or right before a linear layer."
        )
    return None


def _users(node: fx.Node, modules: Modules) -> list[tuple[fx.Node, str]]:
    kinds = [(user, "output" if user.op == "output" else kind(user, modules)) for user in node.users]
    return [(user, what) for user, what in kinds if what != "plain"]


def _passes(what: str, axis: int) -> bool:
    """Whether a step f has f(s x) = s f(x) for factors s >= 0 along the axis."""
    return what in ("same", "homogeneous", "noise") or (axis == 1 and what in ("pool", "flatten"))


def _fits(layer: nn.Module, axis: int, rank: int) -> bool:
    return axis == (rank - 1 if isinstance(layer, nn.Linear) else 1)


def _readers(node: fx.Node, axis: int, modules: Modules) -> list[tuple[Layer, int]] | None:
    """The layers that read the units, each with the places that a unit takes there; None if anything else does."""
    readers: list[tuple[Layer, int]] = []
    for user, what in _users(node, modules):
        if what == "layer" and _fits(module_of(user, modules), axis, len(tensor_shape(node))):
            readers.append((module_of(user, modules), 1))
        elif _passes(what, axis) and (further := _readers(user, axis, modules)) is not None:
            places = math.prod(tensor_shape(node)[2:]) if what == "flatten" else 1
            readers += [(layer, places * repeat) for layer, repeat in further]
        else:
            return None
    return readers or None


def _maker(node: fx.Node, axis: int, modules: Modules) -> Layer | None:
    """The layer whose outputs the units are; None if something else makes them, or reads them too."""
    source = cast(fx.Node, node.args[0])
    if len(_users(source, modules)) != 1 or source.op == "placeholder":
        return None
    what = kind(source, modules)
    if what == "layer":
        layer = module_of(source, modules)
        takes = layer.weight is not None and not activated(layer)  # an activation stands behind the weight
        return layer if takes and _fits(layer, axis, len(tensor_shape(source))) else None
    if not _passes(what, axis) or (what == "flatten" and tensor_shape(source)[1] != tensor_shape(source.args[0])[1]):
        return None
    return _maker(source, axis, modules)


def _scale_columns(layer: Layer, factor: Tensor) -> None:
    if isinstance(layer, _BatchNorm):
        # weight (s x - mean) / root + bias = (s weight) x / root + (bias - weight mean / root)
        mean, variance = running_statistics(layer)
        weight = torch.ones_like(mean) if layer.weight is None else layer.weight
        bias = torch.zeros_like(mean) if layer.bias is None else layer.bias
        shift = weight * mean * (variance + layer.eps).rsqrt()
        layer.weight, layer.bias = nn.Parameter(weight * factor), nn.Parameter(bias - shift)
        mean.zero_()
        layer.affine = True
    elif isinstance(layer, nn.Conv2d):
        groups = factor.view(layer.groups, 1, -1, 1, 1)
        layer.weight.copy_((layer.weight.unflatten(0, (layer.groups, -1)) * groups).flatten(0, 1))
    else:
        layer.weight.mul_(factor[layer.index] if isinstance(layer, SelectedLinear) else factor)


def _scaling(factor: Tensor, rank: int) -> nn.Module:
    # eps must be positive since PyTorch 2.11; a power of 2 and what is missing to 1 add up to 1 without rounding
    eps = 2.0**-7
    norm = (nn.BatchNorm2d if rank == 4 else nn.BatchNorm1d)(len(factor), eps=eps).to(factor)
    running_statistics(norm)[1].fill_(1.0 - eps)
    norm.weight.copy_(factor)
    return norm.eval()
