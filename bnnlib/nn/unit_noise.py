"""Putting noise on the units of a network that exists, and counting what it leaves."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from bnnlib._copies import copied
from bnnlib.nn.structured_pruning import StructuredBayesianPruning

_NORMS: dict[type[nn.Module], str] = dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d), "num_features")
_OUTPUTS = {nn.Linear: "out_features", nn.Conv2d: "out_channels", **_NORMS}
_INPUTS = {nn.Linear: "in_features", nn.Conv2d: "in_channels", **_NORMS}


class _Wrapped(nn.Sequential):
    """A layer and its noise in the layer's place; it says what is wrong where a pass reads the layer's weights."""

    def _get_name(self) -> str:
        return "Sequential"

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            layer = self._modules.get("layer")
            if layer is None or name.startswith("_") or not hasattr(layer, name):
                raise
            if isinstance(value := getattr(layer, name), (bool, int, str, tuple)):
                return value  # its geometry
            raise AttributeError(
                f"the forward pass reads .{name} of a {type(layer).__name__} with noise beside it instead of calling "
                "it, so that the noise would be skipped. Leave this layer out of insert_unit_noise, or put "
                "StructuredBayesianPruning around the module that reads it."
            ) from error


def insert_unit_noise(model: nn.Module, after: Iterable[str] = (), before: Iterable[str] = (), **settings) -> nn.Module:
    """A copy of `model` with `StructuredBayesianPruning` behind or in front of the named layers, equation (sbp-noise).

    Inside an `nn.Sequential` the noise of layer NAME becomes its neighbor NAME_noise (behind) or NAME_input_noise (in
    front), so that the state_dict of `model` still loads with strict=False; elsewhere the layer is wrapped as
    nn.Sequential(input_noise=..., layer=..., noise=...). Convolutions get noise on channels, linear layers on features.
    Put it behind bias and batch norm: then a pruned unit is exactly 0 for the next layer. (The published code puts it
    in front of both.)

    Args:
        model: any module; it is not changed, its weights are copied.
        after, before: names as in `model.named_modules()` of linear layers, 2-d convolutions, and batch norm behind
            either.
        settings: keyword arguments of `StructuredBayesianPruning`, the same for all; change single layers afterwards,
            for example their `kl_weight`.

    Raises:
        ValueError: no name is given, a name is unknown or named twice, its layer has no width to read, is used at
            several places, is read by a fused kernel, or has noise on that side already.

    Example:
        >>> network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
        >>> unit_counts(insert_unit_noise(network, after=["0"]))
        {'0_noise': (4, 4)}
    """
    model = copied(model)
    after, before = list(after), list(before)
    if not after + before:
        raise ValueError("no layer is named, so there is nothing to insert. Give after=[...] or before=[...].")
    modules = dict(model.named_modules())
    if len(set(after)) != len(after) or len(set(before)) != len(before):
        raise ValueError(f"after={after} or before={before} names a layer twice; each side of it takes one noise.")
    places = [(name, True, _OUTPUTS) for name in after] + [(name, False, _INPUTS) for name in before]
    for name, behind, widths in places:
        _insert(model, modules, name, behind, widths, settings)
    return model


def _insert(model, modules, name: str, behind: bool, widths: dict, settings: dict) -> None:
    if name not in modules or name == "":
        raise ValueError(f"there is no layer {name!r}. The model has {', '.join(filter(None, modules))}.")
    layer = modules[name]
    width = next((getattr(layer, field) for kind, field in widths.items() if isinstance(layer, kind)), None)
    if width is None:
        raise ValueError(
            f"{name!r} is a {type(layer).__name__}, whose number of units is not known. Name a linear layer, a 2-d "
            "convolution or batch norm, or build the network with StructuredBayesianPruning(num_units) where you want "
            "it."
        )
    places = sum(child is layer for parent in model.modules() for child in parent._modules.values())
    if places > 1:
        raise ValueError(
            f"{name!r} stands at {places} places of the model, and noise would be inserted at one of them only. Build "
            "the network with StructuredBayesianPruning where you want it."
        )
    like = next(layer.parameters(), None)
    place = {} if like is None else {"device": like.device, "dtype": like.dtype}
    dim = -1 if isinstance(layer, nn.Linear) else 1
    noise = StructuredBayesianPruning(width, dim, **place, **settings).train(layer.training)
    path, _, own = name.rpartition(".")
    parent, side = modules[path], "noise" if behind else "input_noise"
    if isinstance(parent, nn.Sequential):
        _place_beside(parent, own, f"{own}_{side}", noise, behind)
    elif isinstance(parent, nn.TransformerEncoderLayer | nn.MultiheadAttention):
        raise ValueError(
            f"{name!r} belongs to a {type(parent).__name__}, which reads the weights of its layers without calling "
            "them, so that noise beside one would be skipped. Put StructuredBayesianPruning around the whole module."
        )
    else:
        wrapper = parent._modules[own]
        if wrapper is layer:
            wrapper = _Wrapped(OrderedDict(layer=layer)).train(layer.training)
            parent._modules[own] = wrapper
        _place_beside(wrapper, "layer", side, noise, behind)


def _place_beside(parent: nn.Sequential, own: str, key: str, noise: nn.Module, behind: bool) -> None:
    if key in parent._modules:
        raise ValueError(
            f"there is a {key!r} beside {own!r} already, and a second noise would take its place. Change the settings "
            "of the one that is there, or insert into the network without noise."
        )
    children = list(parent._modules.items())
    parent._modules.clear()
    for name, child in children:
        both = [(name, child), (key, noise)] if name == own else [(name, child)]
        parent._modules.update(both if behind else both[::-1])


def _noises(model: nn.Module) -> dict[str, StructuredBayesianPruning]:
    layers = {name: m for name, m in model.named_modules() if isinstance(m, StructuredBayesianPruning)}
    if not layers:
        raise ValueError(
            f"{type(model).__name__} has no StructuredBayesianPruning layer. Put some in with "
            "bnnlib.nn.insert_unit_noise(model, after=[...])."
        )
    return layers


@torch.no_grad()
def unit_counts(model: nn.Module) -> dict[str, tuple[int, int]]:
    """Units kept and units in all of every `StructuredBayesianPruning` layer, by name.

    Raises:
        ValueError: the model has none.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), StructuredBayesianPruning(4))
        >>> unit_counts(model)
        {'1': (4, 4)}
    """
    return {name: (layer.num_active(), layer.num_units) for name, layer in _noises(model).items()}


def percent_active_units(model: nn.Module) -> float:
    """Share of units that are kept over all `StructuredBayesianPruning` layers, in percent.

    Raises:
        ValueError: the model has none.

    Example:
        >>> percent_active_units(torch.nn.Sequential(torch.nn.Linear(3, 4), StructuredBayesianPruning(4)))
        100.0
    """
    counts = unit_counts(model).values()
    return 100.0 * sum(kept for kept, _ in counts) / sum(total for _, total in counts)
