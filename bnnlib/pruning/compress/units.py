"""What a network does with each of its units: which are constant, which nobody reads, and what keeps the others.

Forward, a unit is known to be constant when all that feeds it is; a layer that reads it takes it into its bias.
Backward, a unit is read when a weight that is not 0 takes it to a unit that is read. Tensors that share their channels
(the terms of a sum, a gate and what it multiplies, the two sides of batch norm or pooling) share one answer.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bnnlib.pruning.compress.constants import absorb, depthwise, lost, normalized, only_zero
from bnnlib.pruning.compress.graph import (
    PRODUCT,
    changes_constants,
    described,
    evaluate,
    kind,
    module_of,
    shape,
    tensor_shape,
    trace,
)
from bnnlib.pruning.compress.layers import SelectedLinear, activated

_NO_RULE = "for which compress has no rule"


class Channels:
    """Units that live and die together in all tensors that carry them; `merge` makes two sets one.

    Attributes:
        read, off: (size,) bool, units that stay, and units that are constant somewhere.
        makers: names of what makes them.
        reasons: masks (size,) of units, and what keeps them.
    """

    def __init__(self, size: int, reason: str = "") -> None:
        self.read = torch.full((size,), bool(reason))
        self.off = torch.zeros(size, dtype=torch.bool)
        self.makers: list[str] = []
        self.reasons: list[tuple[Tensor, str]] = [(self.read.clone(), reason)] if reason else []
        self._parent: Channels | None = None

    def root(self) -> Channels:
        """The set that this one has become part of."""
        return self if self._parent is None else self._parent.root()

    def merge(self, other: Channels) -> None:
        """Let both be one set, read where either is."""
        mine, other = self.root(), other.root()
        if mine is not other:
            mine.read |= other.read
            mine.off |= other.off
            mine.makers += other.makers
            mine.reasons += other.reasons
            other._parent = mine

    def kept(self) -> Tensor:
        """Which units stay, bool: those that are read, and one where none is."""
        kept = self.root().read.clone()
        if not kept.any():
            kept[0] = True
        return kept


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor: its units along `axis`, each in `repeat` neighboring places there (after flatten), and what is known.

    constant: (units * repeat,) float64, the value that each place has for every input, NaN where that is unknown.
    """

    channels: Channels
    axis: int
    constant: Tensor
    repeat: int = 1

    def __post_init__(self) -> None:
        self.channels.root().off |= self.units(~self.constant.isnan(), every=True)

    def units(self, places: Tensor, every: bool = False) -> Tensor:
        """The units that have any of the places, or all of theirs."""
        grouped = places.view(-1, self.repeat)
        return grouped.all(1) if every else grouped.any(1)

    def fix(self, reason: str) -> None:
        """Keep all of its units."""
        root = self.channels.root()
        root.read.fill_(True)
        root.reasons.append((root.read.clone(), reason))

    def note(self, places: Tensor, reason: str) -> None:
        """Say what keeps the units of some places, if they stay."""
        self.channels.root().reasons.append((self.units(places), reason))

    def kept(self) -> Tensor:
        """Which places stay, bool."""
        return self.channels.kept().repeat_interleave(self.repeat)


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

    Attributes:
        readers: the linear and convolutional layers in the order of the forward pass.
        followers: batch norm and depthwise convolutions, with the value whose units they share.
    """

    @torch.no_grad()
    def __init__(self, model: nn.Module, example: Tensor) -> None:
        graph, self._modules = trace(model, example)
        self._values: dict[fx.Node, Value] = {}
        self.readers: list[Reader] = []
        self.followers: list[tuple[nn.Module, Value]] = []
        self._sets: list[Channels] = []
        for node in graph.nodes:
            if node.op == "output":
                self._fix(node, "they are outputs of the network")
            elif shape(node) is not None:
                self._values[node] = self._forward(node)
            elif kind(node, self._modules) == "other":
                self._fix(node, f"they go into {described(node, self._modules)}, {_NO_RULE}")
        self._backward()

    def blocked(self) -> Iterator[dict[str, Any]]:
        """What `blocked_units` says of each set with a maker and a unit that is off or unread."""
        for channels in (channels_ for channels_ in self._sets if channels_.root() is channels_ and channels_.makers):
            off = channels.off | ~channels.read
            stay = off & channels.kept()
            if not off.any():
                continue
            reasons: Counter[str] = Counter()
            counted = torch.zeros_like(stay)
            for mask, reason in channels.reasons:
                reasons[reason] += int((mask & stay).sum())
                counted |= mask
            for reader in self.readers:
                if reader.inputs.channels.root() is channels:
                    read = reader.inputs.units(reader.columns()) & stay & ~counted
                    reasons[f"{reader.name} reads them where they are not off"] += int(read.sum())
            if not channels.read.any():
                reasons["one unit is left for the shapes"] = 1
            counts = {"units": len(off), "off": int(off.sum()), "stay": int(stay.sum())}
            makers = list(dict.fromkeys(channels.makers))
            yield {"layers": makers, **counts, "reasons": {text: n for text, n in reasons.items() if n}}

    def _backward(self) -> None:
        changed = True
        while changed:
            changed = False
            for reader in reversed(self.readers):
                read = reader.inputs.channels.root().read
                new = reader.inputs.units(reader.columns()) & ~read
                read |= new
                changed |= bool(new.any())

    def _fix(self, node: fx.Node, reason: str) -> None:
        for source in node.all_input_nodes:
            if source in self._values:
                self._values[source].fix(reason)

    def _new(self, size: int, axis: int, constant: Tensor | None = None, reason: str = "") -> Value:
        channels = Channels(size, reason)
        self._sets.append(channels)
        unknown = torch.full((size,), torch.nan, dtype=torch.float64)
        return Value(channels, axis, unknown if constant is None else constant)

    def _along(self, source: fx.Node, axis: int, node: fx.Node) -> Value:
        """The value of a source with its units along an axis; where they lie along another one, all are kept."""
        value = self._values[source]
        if value.axis == axis:
            return value
        reason = f"{described(node, self._modules)} takes them along dimension {axis}, and they lie along {value.axis}"
        value.fix(reason)
        return self._new(tensor_shape(source)[axis], axis, reason=reason)

    def _forward(self, node: fx.Node) -> Value:
        what, sources = kind(node, self._modules), [n for n in node.all_input_nodes if n in self._values]
        size = tensor_shape(node)
        axis = min(1, len(size) - 1)
        name = described(node, self._modules)
        if what == "layer":
            return self._layer(node, sources[0])
        if what in ("same", "homogeneous", "elementwise", "binary", "gate"):
            given = [source for source in node.args if isinstance(source, fx.Node) and source in self._values]
            return self._entries(node, what, [self._values[source] for source in given])
        if what == "pool":
            value = self._along(sources[0], axis, node)
            known = value.constant
            exact = only_zero(known) if changes_constants(node, self._modules) else known
            reason = f"they are constant but not 0 in front of {name}, which pads zeros or has a divisor of its own"
            value.note(lost(known, exact), reason)
            return dataclasses.replace(value, constant=exact)
        if what in ("flatten", "reshape"):
            value = self._along(sources[0], axis, node)
            repeat = size[1] // len(value.constant)
            return dataclasses.replace(
                value, constant=value.constant.repeat_interleave(repeat), repeat=value.repeat * repeat
            )
        self._fix(node, f"they go into {name}, {_NO_RULE}")
        value = self._new(size[axis] if size else 1, axis, reason=f"{name} makes them, {_NO_RULE}")
        if node.op not in ("placeholder", "get_attr"):
            value.channels.makers.append(name)
        return value

    def _entries(self, node: fx.Node, what: str, values: list[Value]) -> Value:
        first, name = values[0], described(node, self._modules)
        if any((value.axis, value.repeat) != (first.axis, first.repeat) for value in values):
            for value in values:
                value.fix(f"{name} takes tensors in which they lie in another order")
            axis = min(1, len(tensor_shape(node)) - 1)
            return self._new(tensor_shape(node)[axis], axis, reason=f"{name} takes them in another order")
        for value in values[1:]:
            first.channels.merge(value.channels)
        if what == "same":
            return first
        stacked = torch.stack([value.constant for value in values])
        unknown = stacked.isnan().any(0)
        constant = evaluate(node, self._modules)(*(value.constant.clone() for value in values))
        if node.target in PRODUCT:  # no number brings back what is 0
            zero = (stacked == 0).any(0)
            unknown, constant = unknown & ~zero, constant.masked_fill(zero, 0.0)
        one_known = (~stacked.isnan()).any(0) & unknown
        first.note(one_known, f"{'the gate' if what == 'gate' else 'another term'} of {name} is not off")
        return dataclasses.replace(first, constant=constant.masked_fill(unknown, torch.nan))

    def _layer(self, node: fx.Node, source: fx.Node) -> Value:
        layer, rank, name = module_of(node, self._modules), len(tensor_shape(source)), str(node.target)
        value = self._along(source, rank - 1 if isinstance(layer, nn.Linear) else 1, node)
        if isinstance(layer, _BatchNorm):
            constant = normalized(layer, value.constant)
            if activated(layer):
                constant = layer.get_submodule("act")(constant)
            value = dataclasses.replace(value, constant=constant)
            self.followers.append((layer, value))
            return value
        if isinstance(layer, SelectedLinear):
            value.fix(f"{name} picks its inputs")
            index = layer.index.cpu()
            value = self._new(len(index), rank - 1, value.constant[index], f"{name} picks its inputs")
        padded = f"they are constant but not 0 in front of the zeros that {name} pads"
        if isinstance(layer, nn.Conv2d) and layer.groups > 1:
            if layer.groups == layer.in_channels == layer.out_channels and value.repeat == 1:
                constant, gone = depthwise(layer, value.constant)
                value.note(gone, padded)
                value = dataclasses.replace(value, constant=constant)
                self.followers.append((layer, value))
                return value
            reason = f"{name} is a convolution in {layer.groups} groups, which must stay of one size"
            value.fix(reason)
            value = self._new(layer.out_channels, 1, reason=reason)
            value.channels.makers.append(name)
            return value
        constant, gone = absorb(layer, value.constant)
        value.note(gone, padded)
        outputs = self._new(len(layer.weight), value.axis, constant)
        outputs.channels.makers.append(name)
        self.readers.append(Reader(name, layer, value, outputs.channels))
        return outputs
