"""Kernels for noise by key: a C++ file that is compiled on first use, and the same numbers in plain PyTorch."""

from __future__ import annotations

import ctypes

from torch import Tensor

from bnnlib._native import build, counter
from bnnlib._native.build import NativeWarning

__all__ = ["LARGEST", "NativeWarning", "available", "fill", "run"]

LARGEST = 2**31 - 2**16  # numbers of a key: a counter has 32 bits
_KERNELS = ("normal", "uniform", "signs", "logistic", "gaussian", "gaussian_grad", "spike_slab", "spike_slab_grad")
_NUMBERS = {name: number for number, name in enumerate(_KERNELS)}
_PLAIN = ("uniform", "signs", "logistic")  # whose items are numbers and no pairs


class _Call(ctypes.Structure):
    _fields_ = (
        ("keys", ctypes.c_uint64 * 2),
        ("inputs", ctypes.c_void_p * 5),
        ("outputs", ctypes.c_void_p * 3),
        ("constants", ctypes.c_float * 4),
        ("number", ctypes.c_int),
    )


def available() -> bool:
    """Whether the kernels are there; the first question may compile them."""
    return build.library() is not None


def run(
    kernel: str, keys: tuple[int, ...], inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], constants=()
) -> None:
    """Run a kernel over float32 tensors of one size on a CPU, each dense and all in one order of memory.

    Args:
        keys: of 64 bits, at most two.
        constants: at most four.
    """
    number = outputs[0].numel()
    if not number:
        return
    call = _Call(number=number)
    call.keys[: len(keys)] = keys
    call.inputs[: len(inputs)] = [tensor.data_ptr() for tensor in inputs]
    call.outputs[: len(outputs)] = [tensor.data_ptr() for tensor in outputs]
    call.constants[: len(constants)] = constants
    items = number if kernel in _PLAIN else (number + 1) // 2
    loaded = build.library()
    assert loaded is not None
    loaded.bnnlib_run(_NUMBERS[kernel], ctypes.byref(call), items, build.threads(items))


def fill(values: Tensor, kind: str, key: int) -> Tensor:
    """`counter.fill`, by the kernels where they are there."""
    if available():
        run(kind, (key,), (), (values,))
        return values
    return counter.fill(values, kind, key)
