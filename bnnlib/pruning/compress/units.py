"""What a network does with each of its units: which are constant, and which nobody reads.

Forward, a unit is known to be constant when all that feeds it is; a layer that reads it takes it into its bias.
Backward, a unit is read when a weight that is not 0 takes it to a unit that is read. Tensors that share their channels
(the terms of a sum, the two sides of batch norm or pooling) share one answer.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bnnlib.pruning.compress.graph import evaluate, kind, layer_of, pads_with_zeros, shape, tensor_shape, trace
from bnnlib.pruning.compress.layers import SelectedLinear, running_statistics


class Channels:
    """Units that live and die together in all tensors that carry them; `merge` makes two sets one."""

    def __init__(self, size: int, fixed: bool = False) -> None:
        self.read = torch.full((size,), fixed)
        self.producers: list[nn.Linear | nn.Conv2d] = []
        self._parent: Channels | None = None

    def root(self) -> Channels:
        """The set that this one has become part of."""
        return self if self._parent is None else self._parent.root()

    def merge(self, other: Channels) -> None:
        """Let both be one set, read where either is."""
        mine, other = self.root(), other.root()
        if mine is not other:
            mine.read |= other.read
            mine.producers += other.producers
            other._parent = mine


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor: its units along `axis`, each in `repeat` neighboring places there (after flatten), and what is known.

    constant: (units * repeat,) float64, the value that each place has for every input, NaN where that is unknown.
    """

    channels: Channels
    axis: int
    constant: Tensor
    repeat: int = 1

    def fix(self) -> None:
        """Keep all of its units."""
        self.channels.root().read.fill_(True)


@dataclasses.dataclass(frozen=True)
class Reader:
    """A linear or convolutional layer: its units are `outputs`, its columns are the places of `inputs`."""

    name: str
    layer: nn.Linear | nn.Conv2d
    inputs: Value
    outputs: Channels

    def columns(self) -> Tensor:
        """Which places of the input it reads for the sake of a unit that is read itself, bool."""
        weight = self.layer.weight[self.outputs.root().read.to(self.layer.weight.device)]
        return (weight != 0).transpose(0, 1).flatten(1).any(1).cpu()


class Units:
    """The units of a network in eval(); making it moves constant units into the biases of what reads them, in place.

    Args:
        model: in eval(), of the supported layers alone, without noise.
        example: inputs (n, ...).

    Attributes:
        readers: the linear and convolutional layers in the order of the forward pass.
    """

    @torch.no_grad()
    def __init__(self, model: nn.Module, example: Tensor) -> None:
        graph, self._modules = trace(model, example)
        self._values: dict[fx.Node, Value] = {}
        self.readers: list[Reader] = []
        self._sets: list[Channels] = []
        for node in graph.nodes:
            if node.op == "output":
                for value in map(self._values.get, node.all_input_nodes):
                    if value is not None:
                        value.fix()
            elif shape(node) is not None:
                self._values[node] = self._forward(node)
        self._backward()

    def channel_sets(self) -> list[Channels]:
        """The sets of units that live and die together, each once."""
        return [channels for channels in self._sets if channels.root() is channels]

    def _backward(self) -> None:
        changed = True
        while changed:
            changed = False
            for reader in reversed(self.readers):
                read = reader.inputs.channels.root().read
                new = reader.columns().view(len(read), -1).any(1) & ~read
                read |= new
                changed |= bool(new.any())

    def _new(self, size: int, axis: int, constant: Tensor | None = None, fixed: bool = False) -> Value:
        channels = Channels(size, fixed)
        self._sets.append(channels)
        unknown = torch.full((size,), torch.nan, dtype=torch.float64)
        return Value(channels, axis, unknown if constant is None else constant)

    def _along(self, node: fx.Node, axis: int) -> Value:
        """The value of a node with its units along an axis; where they lie along another one, all are kept."""
        value = self._values[node]
        if value.axis == axis:
            return value
        value.fix()
        return self._new(tensor_shape(node)[axis], axis, fixed=True)

    def _forward(self, node: fx.Node) -> Value:
        what, sources = kind(node, self._modules), [n for n in node.all_input_nodes if n in self._values]
        size = tensor_shape(node)
        axis = min(1, len(size) - 1)
        if what == "layer":
            return self._layer(node, sources[0])
        if what in ("same", "homogeneous", "elementwise", "binary"):
            given = [source for source in node.args if isinstance(source, fx.Node)]
            return self._entries(node, what, [self._values[source] for source in given])
        if what == "pool":
            value = self._along(sources[0], axis)
            exact = value.constant if not pads_with_zeros(node, self._modules) else _only_zero(value.constant)
            return dataclasses.replace(value, constant=exact)
        if what == "flatten":
            value = self._along(sources[0], axis)
            repeat = size[1] // len(value.constant)
            return dataclasses.replace(
                value, constant=value.constant.repeat_interleave(repeat), repeat=value.repeat * repeat
            )
        for source in sources:
            self._values[source].fix()
        return self._new(size[axis] if size else 1, axis, fixed=True)

    def _entries(self, node: fx.Node, what: str, values: list[Value]) -> Value:
        first = values[0]
        if what == "same":
            return first
        if any((value.axis, value.repeat) != (first.axis, first.repeat) for value in values):
            for value in values:
                value.fix()
            return self._new(tensor_shape(node)[1], 1, fixed=True)
        for value in values[1:]:
            first.channels.merge(value.channels)
        unknown = torch.stack([value.constant for value in values]).isnan().any(0)
        constant = evaluate(node, self._modules)(*(value.constant.clone() for value in values))
        return dataclasses.replace(first, constant=constant.masked_fill(unknown, torch.nan))

    def _layer(self, node: fx.Node, source: fx.Node) -> Value:
        layer, rank = layer_of(node, self._modules), len(tensor_shape(source))
        value = self._along(source, rank - 1 if isinstance(layer, nn.Linear) else 1)
        if isinstance(layer, _BatchNorm):
            return dataclasses.replace(value, constant=_normalized(layer, value.constant))
        if isinstance(layer, SelectedLinear):
            value.fix()
            index = layer.index.cpu()
            value = self._new(len(index), rank - 1, value.constant[index], fixed=True)
        if isinstance(layer, nn.Conv2d) and layer.groups > 1:
            if layer.groups == layer.in_channels == layer.out_channels and value.repeat == 1:
                return dataclasses.replace(value, constant=_depthwise(layer, value.constant))
            value.fix()  # its groups must stay of one size: nothing before or after it is removed
            return self._new(layer.out_channels, 1, fixed=True)
        outputs = self._new(len(layer.weight), value.axis, _absorb(layer, value.constant))
        outputs.channels.producers.append(layer)
        self.readers.append(Reader(str(node.target), layer, value, outputs.channels))
        return outputs


def _only_zero(constant: Tensor) -> Tensor:
    return constant.masked_fill(constant != 0, torch.nan)


def _pads(layer: nn.Module) -> bool:
    """Whether a constant input is not constant to the layer, because zeros stand around it."""
    return (
        isinstance(layer, nn.Conv2d) and layer.padding_mode == "zeros" and any(layer._reversed_padding_repeated_twice)
    )


def _bias(layer: nn.Linear | nn.Conv2d) -> Tensor:
    return layer.weight.new_zeros(len(layer.weight)) if layer.bias is None else layer.bias


def _absorb(layer: nn.Linear | nn.Conv2d, constant: Tensor) -> Tensor:
    """Take the constant inputs of a layer into its bias where that is exact; the constants among its outputs."""
    weight = layer.weight
    known = _only_zero(constant) if _pads(layer) else constant
    columns = (~known.isnan()).to(weight.device)
    if columns.any():
        sums = weight.double().flatten(2).sum(2) if weight.dim() > 2 else weight.double()
        shift = sums @ known.nan_to_num(0.0).to(sums)
        if shift.any():
            layer.bias = nn.Parameter((_bias(layer).double() + shift).to(weight.dtype))
        weight[:, columns] = 0.0
    return _bias(layer).double().cpu().masked_fill((weight != 0).flatten(1).any(1).cpu(), torch.nan)


def _depthwise(layer: nn.Conv2d, constant: Tensor) -> Tensor:
    weight = layer.weight
    known = _only_zero(constant) if _pads(layer) else constant
    outputs = weight.double().flatten(1).sum(1).cpu() * known + _bias(layer).double().cpu()
    reads = (weight != 0).flatten(1).any(1).cpu()
    return torch.where(reads, outputs, _bias(layer).double().cpu())


def _normalized(layer: _BatchNorm, constant: Tensor) -> Tensor:
    mean, variance = (value.double().cpu() for value in running_statistics(layer))
    standard = (constant - mean) / (variance + layer.eps).sqrt()
    if not layer.affine:
        return standard
    weight, bias = layer.weight.double().cpu(), layer.bias.double().cpu()
    return torch.where(weight == 0, bias, standard * weight + bias)
