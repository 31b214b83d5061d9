"""Gradients of draws that the step of an optimizer makes: neither written nor read in between.

An optimizer that can do so has a `Slot` for each of its parameters. A draw by key then keeps what its backward pass
would compute again, and the backward pass leaves the gradient of the drawn values in the slots: the gradient of each
parameter is linear in it. In `.grad` of the parameter stands a `LaterGradient`, which computes the gradient for
whoever looks at it, be it to clip it or to print it.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only


class Part(NamedTuple):
    """A gradient: grad * slope + share * (pull + decay * values), with the parameter's values at the backward pass.

    `slope` and `pull` are rows of `beside` in the order of memory of the parameter; None is 1 for the slope and 0 for
    the pull. `values` share the parameter's memory and its count of changes, which stood at `version`: they outlive
    `parameter.data = other`, and a change in place is noticed.
    """

    grad: Tensor
    beside: Tensor
    slope: int | None
    pull: int | None
    decay: float
    share: float
    values: Tensor
    version: int

    def fits(self, parameter: Tensor) -> bool:
        """Whether the parameter may stand for `values`."""
        same = parameter._version == self.version and parameter.data_ptr() == self.values.data_ptr()
        return same or not self.decay

    @torch.no_grad()
    def gradient(self) -> Tensor:
        """The gradient as a tensor.

        Raises:
            RuntimeError: it needs values that have been changed in place.
        """
        values = self.values
        if self.decay and values._version != self.version:
            raise RuntimeError(
                f"a parameter of shape {tuple(values.shape)} was changed in place after loss.backward(), and its "
                "gradient, which bnnlib.optim.Adam computes when it is looked at or in the step, needs the values of "
                "before. Read `.grad` of every parameter before you change one ([p.grad.norm() for p in "
                "model.parameters()] will do), change them after optimizer.step(), or use torch.optim.Adam."
            )
        slope, pull = (
            None if row is None else self.beside[row].as_strided(values.shape, values.stride())
            for row in (self.slope, self.pull)
        )
        gradient = self.grad.clone() if slope is None else self.grad * slope
        if pull is not None:
            gradient.add_(pull, alpha=self.share)
        return gradient.add_(values, alpha=self.share * self.decay) if self.decay else gradient


class LaterGradient(Tensor):
    """The gradient of a parameter that the next step would compute; it is computed for whoever looks at it before."""

    slot: weakref.ref[Slot]  # which the optimizer holds: through `.grad` nothing of it keeps the parameter
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        zeros, lost = func in _GIVING_ZEROS, func in _ZEROING
        args, kwargs = tree_map_only(LaterGradient, lambda later: later.computed(zeros, lost), (args, kwargs or {}))
        return func(*args, **kwargs)

    def computed(self, zeros: bool = False, lost: bool = False) -> Tensor:
        """The gradient as a tensor; with `zeros`, zeros in place of one that is used up; with `lost`, of any other
        that has not been written."""
        slot = self.slot()
        if slot is None or not (zeros or slot.waiting):
            raise RuntimeError(
                "the gradient of this parameter is gone: the optimizer's step has used it without writing it down. "
                "Look at it, or clip it, between loss.backward() and optimizer.step(), and call "
                "optimizer.zero_grad() before the next backward pass."
            )
        if lost:
            slot.part = None
        if slot.part is not None or slot.real is None:
            own, part = slot.parameter, slot.part
            slot.real = torch.zeros_like(own, requires_grad=False) if part is None else part.gradient()
            slot.part = None
        return slot.real

    @property
    def data(self) -> Tensor:
        """Itself; what a model that moves puts in its place is the gradient."""
        return self

    @data.setter
    def data(self, value: Tensor) -> None:
        slot = self.slot()
        if slot is not None and slot.waiting:
            # itself, where the move was none for what it says of itself
            slot.real = (self.computed() if value is self else value).to(slot.parameter.detach())
            slot.part = None

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return repr(self.computed())

    __str__ = __repr__


_ZEROING = torch.ops.aten.zero_.default, torch.ops.aten._foreach_zero_.default
_GIVING_ZEROS = *_ZEROING, torch.ops.aten._to_copy.default  # the last of a model that moves after a step


class Order:
    """In which order an optimizer's layers have drawn since its last step, and before it."""

    def __init__(self) -> None:
        self.now: dict[weakref.ref[nn.Module], None] = {}
        self.before: list[weakref.ref[nn.Module]] = []

    def after(self, layer: weakref.ref[nn.Module]) -> list[weakref.ref[nn.Module]]:
        """The layers that drew after one."""
        return self.before[self.before.index(layer) + 1 :] if layer in self.before else []

    def step(self) -> None:
        """Begin again."""
        self.before, self.now = list(self.now), {}


class Slot:
    """Where the gradient of one parameter waits for the step of its optimizer."""

    def __init__(self, parameter: nn.Parameter, order: Order) -> None:
        self.parameter, self.order = parameter, order
        self.part: Part | None = None
        self.real: Tensor | None = None
        about: dict[str, Any] = {"strides": parameter.stride(), "dtype": parameter.dtype, "device": parameter.device}
        self.later = Tensor._make_wrapper_subclass(LaterGradient, parameter.shape, **about)
        self.later.slot = weakref.ref(self)
        _SLOTS[id(parameter)] = self

    @property
    def waiting(self) -> bool:
        """Whether there is a gradient."""
        return self.part is not None or self.real is not None

    def put(self, part: Part) -> None:
        """Take over a gradient, as `.grad` does in a backward pass."""
        grad = self.parameter.grad
        if grad is None:  # after zero_grad, of the optimizer or of the model
            self.part, self.real, self.parameter.grad = part, None, self.later
        else:
            with torch.no_grad():
                grad.add_(part.gradient())

    def take(self) -> None:
        """Forget the gradient, which is used."""
        self.part = self.real = None


# by the id of the parameter, which the slot holds: nothing of it is in copies, pickles and state_dicts
_SLOTS: weakref.WeakValueDictionary[int, Slot] = weakref.WeakValueDictionary()


def slots(parameters: Sequence[Tensor]) -> list[Slot] | None:
    """The slots of parameters, if each has one."""
    slots_ = [slot for p in parameters if (slot := _SLOTS.get(id(p))) is not None]
    return slots_ if len(slots_) == len(parameters) else None


def leave(ctx: Any, places: Sequence[Slot | None], parts: Sequence[Part | None], parameters: Sequence[Tensor]) -> list:
    """What a backward pass gives for the gradients of its last inputs, the parameters: None for what is in a slot."""
    if None in places or not _plain(ctx, parameters):
        return [None if part is None else part.gradient() for part in parts]
    for slot, part in zip(places, parts, strict=True):
        if part is not None:
            slot.put(part)  # type: ignore[union-attr]
    return [None] * len(parts)


def _plain(ctx: Any, parameters: Sequence[Tensor]) -> bool:
    """Whether the backward pass at work adds to `.grad` of all the parameters, and nobody waits for that."""
    for parameter in parameters:
        if not parameter.requires_grad or parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            return False
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return False  # ranks exchange what has been written
    try:
        nodes = ctx.next_functions[-len(parameters) :]
        return all(torch._C._will_engine_execute_node(node) for node, _ in nodes)
    except RuntimeError:  # torch.autograd.grad, which gives the gradients back
        return False
