"""Kernels for noise by key: a C++ file that is compiled on first use, and the same numbers in plain PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from bnnlib._native import build, counter
from bnnlib._native.build import NativeWarning

__all__ = ["LARGEST", "NativeWarning", "available", "fill", "run"]

LARGEST = 2**31 - 2**16  # numbers of a key: a counter has 32 bits
_KERNELS = (
    *("normal", "uniform", "signs", "logistic", "gaussian", "gaussian_grad", "spike_slab", "spike_slab_grad"),
    *("profile_grad", "mixture_grad"),
)
_NUMBERS = {name: number for number, name in enumerate(_KERNELS)}
_PLAIN = ("uniform", "signs", "logistic")  # whose items are numbers and no pairs


def available() -> bool:
    """Whether the kernels are there; the first question may compile them."""
    return build.library() is not None


def run(
    kernel: str,
    keys: Sequence[int],
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    constants: Sequence[float] = (),
) -> None:
    """Run a kernel over float32 tensors of one size on a CPU, each dense and all in one order of memory.

    Args:
        keys: of 64 bits, one or two.
        inputs, outputs, constants: at most four, three and four.
    """
    number = outputs[0].numel()
    if not number:
        return
    items = number if kernel in _PLAIN else (number + 1) // 2
    pointers = [tensor.data_ptr() for tensor in inputs] + [None] * (4 - len(inputs))
    pointers += [tensor.data_ptr() for tensor in outputs] + [None] * (3 - len(outputs))
    loaded = build.library()
    assert loaded is not None
    how = _NUMBERS[kernel], number, items, build.threads(items)
    loaded.bnnlib_run(*how, keys[0], keys[-1], *pointers, *constants, *(0.0,) * (4 - len(constants)))


def fill(values: Tensor, kind: str, key: int) -> Tensor:
    """`counter.fill`, by the kernels where they are there."""
    if available():
        run(kind, (key,), (), (values,))
        return values
    return counter.fill(values, kind, key)
