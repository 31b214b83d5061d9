"""Compressed networks on disk: their tensors and the plan of their layers, and nothing that is executed."""

import copy
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from bnnlib.nn.base import StochasticLayer
from bnnlib.nn.structured_pruning import StructuredBayesianPruning
from bnnlib.pruning.compress.layers import FULL_SIZES, SelectedLinear, activated, keep_units, replace_module, sizes_of
from bnnlib.pruning.compress.network import deterministic_layers
from bnnlib.pruning.stored import read_tensors, write_tensors

FORMAT = "bnnlib-compressed-2"
_NORMS = {"BatchNorm1d": nn.BatchNorm1d, "BatchNorm2d": nn.BatchNorm2d}
_GEOMETRY = ("kernel_size", "stride", "padding", "dilation", "padding_mode")


def save_compressed(model: nn.Module, path: str | os.PathLike) -> None:
    """Write a network from `compress` to a file that `torch.load(path, weights_only=True)` reads.

    The file holds the tensors, the sizes of every layer before and after, and a checksum, no code: `load_compressed`
    takes the rest of the architecture from the network of full size.

    Raises:
        TypeError: the model has a layer that draws at random, which `compress` does not leave.

    Example:
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_compressed(compress(torch.nn.Linear(3, 4), torch.randn(2, 3)), f"{folder}/network.pt")
        ...     print(os.listdir(folder))
        ['network.pt']
    """
    plan = []
    for name, module in model.named_modules():
        if (entry := _entry(module)) is not None:
            full = getattr(module, FULL_SIZES, sizes_of(module))  # only where they are others: a file is small
            plan.append({"name": name, **entry, **({} if full == sizes_of(module) else {"full": list(full)})})
        elif isinstance(module, StochasticLayer):
            raise TypeError(
                f"{name or 'the model'} is a {type(module).__name__}, which save_compressed does not know. Save the "
                "network that compress(model, example) returns, or this one's state_dict."
            )
    write_tensors(path, FORMAT, plan, model)


def _entry(module: nn.Module) -> dict[str, Any] | None:
    kind = type(module).__name__
    if type(module) is nn.Linear:
        sizes = [module.in_features, module.out_features]
    elif type(module) is SelectedLinear:
        sizes = [module.in_features, module.out_features, module.features]
    elif type(module) is nn.Conv2d:
        sizes = [module.in_channels, module.out_channels, module.groups]
    elif type(module) in _NORMS.values() or activated(module):
        return {"type": kind, "sizes": [module.num_features], "bias": module.affine, "eps": module.eps}
    else:
        return None
    return {"type": kind, "sizes": sizes, "bias": module.bias is not None}


def load_compressed(path: str | os.PathLike, template: nn.Module) -> nn.Module:
    """Read a file of `save_compressed` into a smaller copy of the network of full size.

    Args:
        path: of the file; nothing in it is executed (weights_only=True), and its checksum and sizes are checked.
        template: the architecture before compression, deterministic or Bayesian; its weights do not matter and it is
            not changed. Noise on units may be missing, but where `compress` has put a batch norm in its place.

    Returns:
        The compressed network on the CPU in eval mode.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is of another format, damaged, or of another architecture.
        TypeError: the template has a layer that cannot be compressed.

    Example:
        >>> import tempfile
        >>> network, x = torch.nn.Linear(3, 4).eval(), torch.randn(2, 3)
        >>> small = compress(network, x)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_compressed(small, f"{folder}/network.pt")
        ...     torch.equal(load_compressed(f"{folder}/network.pt", network)(x), small(x))
        True
    """
    entries, state = read_tensors(path, FORMAT, "save_compressed")
    plan = {entry["name"]: entry for entry in entries}
    model = deterministic_layers(copy.deepcopy(template).cpu())
    noises = [(n, module) for n, module in model.named_modules() if isinstance(module, StructuredBayesianPruning)]
    for name, noise in noises:
        # where no neighbor could take up its factors, a batch norm has the noise's place
        model = replace_module(model, name, nn.BatchNorm1d(noise.num_units) if name in plan else None)
    layers = {name: module for name, module in model.named_modules() if _entry(module) is not None}
    if missing := [*(layers.keys() - plan.keys()), *(plan.keys() - layers.keys())]:
        raise ValueError(
            f"{path} is of another network than this {type(template).__name__}: {', '.join(sorted(missing))} "
            f"{'is' if len(missing) == 1 else 'are'} in one of them only. Give the architecture it was compressed "
            "from, with its noise on units where a batch norm has taken the place of noise."
        )
    for name, entry in plan.items():
        given, own = list(sizes_of(layers[name])), entry["sizes"]
        before = entry.get("full", [own[2], own[1]] if entry["type"] == SelectedLinear.__name__ else own)
        if before != given:
            raise ValueError(
                f"{path} is of another network than this {type(template).__name__}: before it was compressed, "
                f"{name or 'the model'} had {_sizes(before)}, and here {layers[name]} has {_sizes(given)}. Give the "
                "architecture it was compressed from."
            )
    try:
        for name, entry in plan.items():
            weight = state.get(f"{name}.weight" if name else "weight")
            new = _layer(entry, layers[name])
            model = replace_module(model, name, new if weight is None else new.to(weight.dtype))
        model.load_state_dict(state)
        if kinds := {values.dtype for values in state.values() if values.is_floating_point()}:
            model = model.to(kinds.pop()) if len(kinds) == 1 else model
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"{path} is of another network than this {type(template).__name__}: {error}") from error
    for name, module in model.named_modules():
        if isinstance(module, SelectedLinear) and ((module.index < 0) | (module.index >= module.features)).any():
            raise ValueError(f"{path} is damaged: {name} picks inputs outside its {module.features} features.")
    return model.eval()


def _sizes(sizes: Sequence[int]) -> str:
    if len(sizes) == 1:
        return f"{sizes[0]} features"
    inputs, units, *groups = sizes
    return f"{inputs} inputs and {units} units" + (f" in {groups[0]} groups" if groups and groups[0] > 1 else "")


def _layer(entry: Mapping[str, Any], full: nn.Module) -> nn.Module:
    """A layer of a plan, with the geometry of the one of full size."""
    kind, sizes, bias = entry["type"], entry["sizes"], entry["bias"]
    if kind == type(full).__name__ and activated(full):
        norm, (width,) = copy.deepcopy(full), sizes
        keep_units(norm, torch.arange(sizes_of(full)[0]) < width)
        return norm
    if kind in _NORMS and isinstance(full, _BatchNorm):
        (width,) = sizes
        return _NORMS[kind](width, entry["eps"], affine=bias)
    if kind == "Conv2d" and isinstance(full, nn.Conv2d):
        widths, inputs = (full.in_channels, full.out_channels, full.groups), sizes
        geometry = {name: getattr(full, name) for name in _GEOMETRY}
        new = nn.utils.skip_init(nn.Conv2d, *sizes[:2], groups=sizes[2], bias=bias, **geometry)
    elif kind in ("Linear", "SelectedLinear") and isinstance(full, nn.Linear):
        widths, inputs = (full.in_features, full.out_features, full.in_features), sizes
        new = nn.utils.skip_init(nn.Linear, *sizes[:2], bias=bias)
        if kind == "SelectedLinear":
            wide = nn.utils.skip_init(nn.Linear, sizes[2], sizes[1], bias=bias)
            new = SelectedLinear(wide, torch.arange(sizes[0]))
    else:
        raise ValueError(f"{entry['name']} is a {kind} in the file and a {type(full).__name__} in the architecture.")
    if any(size > width for size, width in zip(inputs, widths, strict=False)):
        raise ValueError(f"{entry['name']} has sizes {inputs} in the file, more than {full} has.")
    return new
