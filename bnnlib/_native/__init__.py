"""Kernels for noise by key: C++ that is compiled on first use, Triton on GPUs, and the numbers in plain PyTorch."""

import struct
from collections.abc import Sequence

from torch import Tensor

from bnnlib._native import build, counter, gpu
from bnnlib._native.build import NativeWarning
from bnnlib._native.gpu import DeviceKey

__all__ = ["LARGEST", "DeviceKey", "NativeWarning", "available", "fill", "has_kernels", "run", "serves"]

LARGEST = 2**31 - 2**16  # numbers of a key: a counter has 32 bits
_KERNELS = (
    *("normal", "uniform", "signs", "logistic", "gaussian", "gaussian_grad", "spike_slab", "spike_slab_grad"),
    *("profile_grad", "mixture_grad", "hamiltonian", "langevin", "prior_grad", "prior_move", "variance"),
    *("variance_grad", "power_variance", "power_variance_grad", "local", "local_grad"),
)
_NUMBERS = {name: number for number, name in enumerate(_KERNELS)}
# whose items are numbers and no pairs
_PLAIN = {*gpu.PLAIN, "prior_grad", "prior_move", *(n for n in _KERNELS if "variance" in n)}
_CALL = struct.Struct("4i4I8P8f")  # of `kernels.cpp`; a call by so many arguments takes three times as long


def available() -> bool:
    """Whether the kernels for a CPU are there; the first question may compile them."""
    return build.library() is not None


def has_kernels(like: Tensor) -> bool:
    """Whether there are kernels where a tensor lies."""
    return available() if like.is_cpu else serves(like)


def serves(like: Tensor) -> bool:
    """Whether `fill` has numbers where a tensor lies: on a CPU always, on a GPU with Triton."""
    return like.is_cpu or (like.is_cuda and gpu.kernels() is not None)


def run(
    kernel: str,
    keys: Sequence[int | DeviceKey],
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    constants: Sequence[float] = (),
    share: Tensor | None = None,
) -> None:
    """Run a kernel over float32 tensors of one size and device, each dense and all in one order of memory.

    Args:
        keys: of 64 bits, one or two; on a GPU also those that lie there.
        inputs, outputs, constants: at most four, four and eight; Triton's kernels, which are those of noise, draws and
            gradients, take three outputs and four constants. What a kernel changes in place is an output.
        share: on a GPU, a number there that multiplies what the divergence counts by `constants`.
    """
    number = outputs[0].numel()
    if not number:
        return
    if outputs[0].is_cuda:
        kernels = gpu.kernels()
        assert kernels is not None
        gpu.launch(kernels, kernel, keys, inputs, outputs, constants, share)
        return
    items = number if kernel in _PLAIN else (number + 1) // 2
    loaded = build.library()
    assert loaded is not None
    first, second = keys[0], keys[-1]
    assert isinstance(first, int) and isinstance(second, int)
    halves = first & 0xFFFFFFFF, first >> 32, second & 0xFFFFFFFF, second >> 32
    pointers = [tensor.data_ptr() for tensor in inputs] + [0] * (4 - len(inputs))
    pointers += [tensor.data_ptr() for tensor in outputs] + [0] * (4 - len(outputs))
    how = _NUMBERS[kernel], number, items, build.threads(items)
    loaded.bnnlib_run(_CALL.pack(*how, *halves, *pointers, *constants, *(0.0,) * (8 - len(constants))))


def fill(values: Tensor, kind: str, key: int | DeviceKey) -> Tensor:
    """`counter.fill`, by the kernels where they are there."""
    if has_kernels(values):
        run(kind, (key,), (), (values,))
        return values
    assert isinstance(key, int)  # one that lies on a GPU is given to its kernels alone
    return counter.fill(values, kind, key)
