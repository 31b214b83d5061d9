"""What holds for a model's layers within a block: for one thread or asyncio task alone, or counted over all.

What a layer draws is its own affair, so that each thread and each task may steer it in its own way. A thread that is
started inside a block does not inherit it; `contextvars.copy_context().run` takes it along. `training` is an attribute
that PyTorch's own modules read, the same for all threads: it is set while the first block lasts that asks for it, and
is back when the last one ends. A training step on another thread and such a block wait for each other.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

Changes = Mapping[nn.Module, Mapping[str, Any]]

_CHANGES: ContextVar[Changes] = ContextVar("bnnlib_changes", default={})  # noqa: B039 (never changed in place)
_LOCK = threading.Condition(threading.Lock())
# plain numbers that a compiled graph can watch: while no block is open anywhere, nobody needs to look further
_OPEN = 0
_ANY_OPEN = False
# of each module with open requests: its own mode, and the modes asked for with their threads, the newest last
_REQUESTS: WeakKeyDictionary[nn.Module, tuple[bool, dict[tuple[object, int], bool]]] = WeakKeyDictionary()
_STEPS: dict[object, tuple[int, frozenset[nn.Module]]] = {}  # under way, or next: thread and modules


@contextmanager
def overriding(changes: Changes) -> Iterator[None]:
    """Context in which `overrides(layer)` has the given entries, on top of those of the blocks around it."""
    global _OPEN, _ANY_OPEN
    before = _CHANGES.get()
    token = _CHANGES.set({**before, **{layer: {**before.get(layer, {}), **own} for layer, own in changes.items()}})
    with _LOCK:
        _OPEN += 1
        _ANY_OPEN = True
    try:
        yield
    finally:
        with _LOCK:
            _OPEN -= 1
            _ANY_OPEN = _OPEN > 0
        _CHANGES.reset(token)


def overrides(layer: nn.Module) -> Mapping[str, Any]:
    """What the blocks around this point of this thread or task say of a layer; empty without any."""
    return _look(layer) if _ANY_OPEN else {}


# The compiler knows no context variables and leaves its graph here. (`torch.compiler.disable` would say so, but costs
# everybody the import of the compiler, which takes as long as that of PyTorch.)
def _look(layer: nn.Module) -> Mapping[str, Any]:
    return _CHANGES.get().get(layer, {})


@contextmanager
def in_modes(modes: Mapping[nn.Module, bool]) -> Iterator[None]:
    """Context in which modules are in `train()` (True) or `eval()` (False).

    Where blocks of several threads overlap, the newest one's mode holds; a module has its own again after the last.
    """
    own_thread = threading.get_ident()
    request = object(), own_thread

    def trained() -> bool:
        return any(thread != own_thread and not modules.isdisjoint(modes) for thread, modules in _STEPS.values())

    def nested() -> bool:  # a step may wait for the block around this one
        return any(thread == own_thread for module in modes for _, thread in _REQUESTS.get(module, (True, {}))[1])

    with _LOCK:
        _LOCK.wait_for(lambda: not trained() or nested())
        for module, mode in modes.items():
            _, requests = _REQUESTS.setdefault(module, (module.training, {}))
            requests[request] = module.training = mode
    try:
        yield
    finally:
        with _LOCK:
            for module in modes:
                own, requests = _REQUESTS[module]
                del requests[request]
                module.training = next(reversed(requests.values()), own)
                if not requests:
                    del _REQUESTS[module]
            _LOCK.notify_all()


@contextmanager
def stepping(modules: frozenset[nn.Module]) -> Iterator[None]:
    """Context of a training step: no block of another thread changes the mode of these modules meanwhile."""
    step, own_thread = object(), threading.get_ident()

    def alone() -> bool:
        waiting = [requests for module, (_, requests) in _REQUESTS.items() if module in modules]
        return all(thread == own_thread for requests in waiting for _, thread in requests)

    try:
        with _LOCK:
            _STEPS[step] = own_thread, modules  # so that a thread that predicts without end lets the step in
            _LOCK.wait_for(alone)
        yield
    finally:
        with _LOCK:
            _STEPS.pop(step, None)
            _LOCK.notify_all()


def evaluating(model: nn.Module, *, training=()):
    """Context in which a model is in `eval()` but for the modules `training`, as `in_modes`."""
    return in_modes({**dict.fromkeys(model.modules(), False), **dict.fromkeys(training, True)})
