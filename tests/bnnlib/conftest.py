"""A watch over operations: whether the host waits for the device, or an operation mixes devices."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_READS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
_INDEXING = {torch.ops.aten.index, torch.ops.aten.index_put, torch.ops.aten.index_put_}
_COPIES = {torch.ops.aten._to_copy, torch.ops.aten.copy_}
_FROM_NUMBERS = (torch.tensor, torch.as_tensor, torch.asarray, torch.Tensor.new_tensor)


class _Operations(TorchDispatchMode):
    def __init__(self, note: Callable[[str], None], device: str) -> None:
        super().__init__()
        self.note, self.device = note, device

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, packet = kwargs or {}, func.overloadpacket
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if any(tensor.device.type == self.device for tensor in tensors):
            reads = bool(_READS & set(func.tags))
            if packet in _INDEXING:
                chosen = [one for one in tree_leaves(args[1]) if isinstance(one, torch.Tensor)]
                reads = any(one.dtype in (torch.bool, torch.uint8) for one in chosen)
            if reads:
                self.note(f"{func} reads a value on the device")
            # a number of the host may take part in an operation of the device; copying it there is what waits
            places = {tensor.device.type for tensor in tensors if tensor.dim() or packet in _COPIES}
            if len(places) > 1:
                self.note(f"{func} takes tensors on {sorted(places)}")
        result = func(*args, **kwargs)
        if packet in _COPIES and {result.device.type, tensors[0].device.type} == {self.device, "cpu"} != {"cpu"}:
            self.note(f"{func} copies between {tensors[0].device} and {result.device}")
        return result


class _Numbers(TorchFunctionMode):
    """`torch.tensor(1.0, device="cuda")` copies from the host, out of sight of a dispatch mode."""

    def __init__(self, note: Callable[[str], None], device: str) -> None:
        super().__init__()
        self.note, self.device = note, device

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func in _FROM_NUMBERS and result.device.type == self.device != "cpu":
            if func is torch.Tensor.new_tensor or not isinstance(args[0], torch.Tensor):
                self.note(f"{func.__name__} copies a number to the device")
        return result


class Watch(ExitStack):
    """Context that raises at the first operation that waits for the device or whose tensors are on two devices.

    On the meta device nothing can be read, so that all that would read a value is seen. What happens among tensors of
    the host is no wait.

    Args:
        device: type of the device; with "cpu" all reads count.
        allowed: reads that may happen before it raises, counted in `found`.
    """

    def __init__(self, device: str = "meta", allowed: int = 0) -> None:
        super().__init__()
        self.device, self.allowed, self.found = device, allowed, []

    def __enter__(self) -> Watch:
        super().__enter__()
        self.enter_context(_Operations(self._note, self.device))
        self.enter_context(_Numbers(self._note, self.device))
        return self

    def _note(self, words: str) -> None:
        self.found.append(words)
        if len(self.found) > self.allowed:
            raise AssertionError(words)


@pytest.fixture
def watch() -> type[Watch]:
    """The context's class, since test files import from no other."""
    return Watch


@pytest.fixture
def threads():
    """`threads(number)` sets how many PyTorch has, until the test ends."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def x() -> torch.Tensor:
    """Seven inputs of five features."""
    return torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
