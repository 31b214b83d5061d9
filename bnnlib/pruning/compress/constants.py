"""Constant units through layers: what a layer takes into its bias, and what it makes of the rest."""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bnnlib.pruning.compress.layers import running_statistics


def only_zero(constant: Tensor) -> Tensor:
    """Constants, NaN where they are not 0."""
    return constant.masked_fill(constant != 0, torch.nan)


def lost(before: Tensor, after: Tensor) -> Tensor:
    """Where a constant was known and is not any more, bool."""
    return ~before.isnan() & after.isnan()


def _pads(layer: nn.Module) -> bool:
    """Whether a constant input is not constant to the layer, because zeros stand around it."""
    return (
        isinstance(layer, nn.Conv2d) and layer.padding_mode == "zeros" and any(layer._reversed_padding_repeated_twice)
    )


def _bias(layer: nn.Linear | nn.Conv2d) -> Tensor:
    return layer.weight.new_zeros(len(layer.weight)) if layer.bias is None else layer.bias


def absorb(layer: nn.Linear | nn.Conv2d, constant: Tensor) -> tuple[Tensor, Tensor]:
    """Take the constant inputs of a layer into its bias where that is exact.

    Returns:
        The constants among its outputs, NaN elsewhere, and which inputs were constant and could not be taken, bool.
    """
    weight = layer.weight
    known = only_zero(constant) if _pads(layer) else constant
    columns = (~known.isnan()).to(weight.device)
    if columns.any():
        sums = weight.double().flatten(2).sum(2) if weight.dim() > 2 else weight.double()
        shift = sums @ known.nan_to_num(0.0).to(sums)
        if shift.any():
            layer.bias = nn.Parameter((_bias(layer).double() + shift).to(weight.dtype))
        weight[:, columns] = 0.0
    outputs = _bias(layer).double().cpu().masked_fill((weight != 0).flatten(1).any(1).cpu(), torch.nan)
    return outputs, lost(constant, known)


def depthwise(layer: nn.Conv2d, constant: Tensor) -> tuple[Tensor, Tensor]:
    """The constants behind a depthwise convolution, and which were constant in front of it alone, bool."""
    weight = layer.weight
    known = only_zero(constant) if _pads(layer) else constant
    outputs = weight.double().flatten(1).sum(1).cpu() * known + _bias(layer).double().cpu()
    reads = (weight != 0).flatten(1).any(1).cpu()
    outputs = torch.where(reads, outputs, _bias(layer).double().cpu())
    return outputs, lost(constant, outputs)


def normalized(layer: _BatchNorm, constant: Tensor) -> Tensor:
    """The constants behind batch norm with running statistics."""
    mean, variance = (value.double().cpu() for value in running_statistics(layer))
    standard = (constant - mean) / (variance + layer.eps).sqrt()
    if not layer.affine:
        return standard
    weight, bias = layer.weight.double().cpu(), layer.bias.double().cpu()
    return torch.where(weight == 0, bias, standard * weight + bias)
