"""Draws by key that keep what their gradients are made of, for an optimizer that makes them in its step.

A layer's first such draw leaves a plan, by which the next ones do without another look at what has not changed: with a
few hundred weights a draw takes less time than finding out how to make it.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bnnlib import _native
from bnnlib._memory import keep_pages
from bnnlib._native.keys import fold, whole
from bnnlib._noise import Keys, Source
from bnnlib.functional._autograd import transformed
from bnnlib.posteriors.deferred import Part, Slot, leave, slots
from bnnlib.posteriors.kl_tokens import Spent, remember

# of each kernel that keeps something how many rows, and of each parameter of a group those of its slope and pull
_ROWS: dict[str, tuple[int, tuple[tuple[int | None, int | None], ...]]] = {
    "gaussian": (2, ((None, None), (0, 1))),
    "profile": (3, ((None, 2), (0, 1))),
    "mixture": (3, ((None, 2), (0, 1))),
    "spike_slab": (6, ((3, 2), (0, 1), (4, 5))),
}


class Plan:
    """How a layer draws from its own parameters, while they and its settings stay what they are.

    Args:
        layer: whose draws they are.
        groups: of parameters.
        name, constants: of the kernel.
        noises: draws of numbers that it makes for each group.
        formulas: gradients in another way, of (group, keys, gradient of the value, gradient of the token).
        places: the slots of all parameters.
    """

    def __init__(
        self,
        layer: Any,
        groups: Sequence[Sequence[Tensor]],
        name: str,
        constants: Sequence[float],
        noises: int,
        formulas: Callable[..., Sequence[Tensor | None]],
        places: Sequence[Slot],
    ) -> None:
        self.kernel, self.constants, self.noises, self.formulas = f"{name}_kept", constants, noises, formulas
        self.rows, self.layout = _ROWS[name]
        self.decay = constants[1] if name == "gaussian" else 0.0
        self.parameters = [parameter for group in groups for parameter in group]
        self.groups = [
            (group[0], group[0].numel(), [p.data_ptr() for p in group] + [0] * (4 - len(group))) for group in groups
        ]
        self.addresses = [(p, p.data_ptr()) for p in self.parameters]
        self.values = [p.detach() for p in self.parameters]  # as long as the addresses are those
        self.own = dict(layer._parameters)
        self.all = [p for p in self.own.values() if p is not None]
        self.settings = [(key, layer.__dict__[key]) for key in (f"_{name}" for name in layer._all_settings())]
        self.buffers, self.layer, self.slots = len(layer._buffers), weakref.ref(layer), [weakref.ref(s) for s in places]
        self.made: _Made | None = None

    def holds(self, layer: nn.Module) -> bool:
        """Whether all is what it was."""
        state = layer.__dict__
        return (
            self.slots[0]() is not None
            and all(state[key] is value for key, value in self.settings)
            and len(layer._parameters) == len(self.own)
            and all(map(operator.is_, layer._parameters.values(), self.own.values()))
            and len(layer._buffers) == self.buffers
            and all(p.data_ptr() == address for p, address in self.addresses)
        )

    def make(self, key: int, number: int) -> tuple[_Made, list[bytes]]:
        """What a draw with the numbers of a key from `number` on needs, and the calls that fill it."""
        keys, values, beside, calls = [], [], [], []
        for place, (like, size, addresses) in enumerate(self.groups):
            own = tuple([fold(key, number + place * self.noises + noise) for noise in range(self.noises)])
            value, rest = torch.empty_like(like, requires_grad=False), like.new_empty((self.rows, size))
            outputs = value.data_ptr(), rest.data_ptr(), 0, 0
            pointers = *addresses, *outputs
            calls.append(_native.packed(self.kernel, size, own[0], own[-1], *pointers, constants=self.constants))
            keys.append(own)
            values.append(value)
            beside.append(rest)
        return _Made(key, number, [p._version for p in self.parameters], keys, values, beside), calls

    def draw(self, layer: nn.Module, source: Keys) -> list[Tensor]:
        """Values of all groups, with the next noise; the layer keeps the token."""
        key, number = whole(source.key), source.drawn
        source.drawn += self.noises * len(self.groups)
        drawn, self.made = self.made, None
        slot = self.slots[0]()
        assert slot is not None
        if drawn is None or drawn[:3] != (key, number, [p._version for p in self.parameters]):
            drawn, calls = self.make(key, number)
            # Python takes ten times as long between two kernels that fill the caches as it does before both
            follow = source.key is layer._noise_key and torch._C._current_graph_task_id() == -1
            for later in slot.order.after(self.layer) if follow else ():
                calls += _ahead(later())
            _native.launch(calls)
        slot.order.now[self.layer] = None
        spent = Spent()
        *values, token = _apply(self, drawn, spent, *self.parameters)
        remember(layer, [token], self.all, spent)
        return values


def _ahead(layer: Any) -> list[bytes]:
    """Calls for the draw that a layer is about to make, if nothing comes between."""
    plan = None if layer is None else _PLANS.get(layer)
    if plan is None or layer._noise_key is None or not plan.holds(layer):
        return []
    plan.made, calls = plan.make(whole(layer._noise_key), 0)
    return calls


class _Made(NamedTuple):
    """A draw: its key and first number, the versions of the parameters, keys of groups, values, and what is kept."""

    key: int
    number: int
    versions: list[int]
    keys: list[tuple[int, ...]]
    values: list[Tensor]
    beside: list[Tensor]


class _Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, plan, drawn, spent, *parameters):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*parameters, *drawn.beside)
        ctx.about = plan, drawn.keys, spent
        return *drawn.values, parameters[0].new_zeros(())

    @staticmethod
    def backward(ctx, *grads):
        (plan, keys, spent), saved, token = ctx.about, ctx.saved_tensors, grads[-1]
        spent.append(True)
        size, share = len(plan.layout), 0.0 if token is None else token.item()
        parameters, beside = saved[: len(plan.parameters)], saved[len(plan.parameters) :]
        parts: list[Part | None] = []
        for place, (grad, rest) in enumerate(zip(grads, beside, strict=False)):
            group = parameters[place * size : (place + 1) * size]
            given = group[0].new_zeros(()).expand_as(group[0]) if grad is None else grad
            own = None if torch.is_grad_enabled() else in_order_of(group[0], given)
            if own is None:  # create_graph=True, or a gradient that no kernel reads
                groups = [parameters[start : start + size] for start in range(0, len(parameters), size)]
                gradients = [plan.formulas(*given, token) for given in zip(groups, keys, grads, strict=False)]
                return None, None, None, *chain.from_iterable(gradients)
            absent = grad is None and token is None
            for (slope, pull), values in zip(plan.layout, plan.values[place * size :], strict=False):
                decay = plan.decay if slope is pull is None else 0.0
                part = None if absent else Part(own, rest, slope, pull, decay, share, values, values._version)
                parts.append(part)
        return None, None, None, *leave(ctx, [slot() for slot in plan.slots], parts, parameters)


# without what it does for transformations, which `again` and `first` leave to others
_apply = super(torch.autograd.Function, _Kept).apply


def in_order_of(like: Tensor, grad: Tensor) -> Tensor | None:
    """A gradient in the order of memory of `like`; None for one that the kernels cannot read."""
    if grad.layout is not torch.strided or grad.dtype is not torch.float32 or type(grad) is not Tensor:
        return None
    return grad.contiguous(memory_format=torch.contiguous_format if like.is_contiguous() else torch.channels_last)


# of the layers that have one
_PLANS: weakref.WeakKeyDictionary[nn.Module, Plan] = weakref.WeakKeyDictionary()


def again(layer: nn.Module, source: Source) -> list[Tensor] | None:
    """The next draw by the layer's plan; None where there is none, or none that holds."""
    plan = _PLANS.get(layer)
    if plan is None or not isinstance(source, Keys) or not torch.is_grad_enabled() or transformed():
        return None
    if plan.holds(layer):
        return plan.draw(layer, source)
    del _PLANS[layer]
    return None


def first(
    layer: nn.Module,
    groups: Sequence[Sequence[Tensor]],
    kernel: tuple[str, Sequence[float]] | None,
    noises: int,
    formulas: Callable[..., Sequence[Tensor | None]],
) -> Plan | None:
    """A plan for a layer on a CPU whose parameters an optimizer steps by what is kept; `kernel` is of the gradients."""
    flat = [parameter for group in groups for parameter in group]
    own = {id(p) for p in layer._parameters.values()}
    if kernel is None or not flat[0].is_cpu or not own.issuperset(map(id, flat)) or not (gathered := slots(flat)):
        return None
    keep_pages()
    plan = _PLANS[layer] = Plan(layer, groups, kernel[0].removesuffix("_grad"), kernel[1], noises, formulas, gathered)
    return plan
