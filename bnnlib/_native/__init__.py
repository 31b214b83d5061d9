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
    *("gaussian_kept", "profile_kept", "mixture_kept", "spike_slab_kept", "adam", "adam_pulled", "adam_scaled"),
)
_NUMBERS = {name: number for number, name in enumerate(_KERNELS)}
# whose items are numbers and no pairs
_PLAIN = {"uniform", "signs", "logistic", "prior_grad", "prior_move"}
_PLAIN |= {name for name in _KERNELS if "variance" in name or name.startswith("adam")}
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
        gpu.run(kernel, keys, inputs, outputs, constants, share)
        return
    first, second = keys[0], keys[-1]
    assert isinstance(first, int) and isinstance(second, int)
    given = [tensor.data_ptr() for tensor in inputs] + [0] * (4 - len(inputs))
    given += [tensor.data_ptr() for tensor in outputs] + [0] * (4 - len(outputs))
    launch([packed(kernel, number, first, second, *given, constants=constants)])


def packed(kernel: str, number: int, first: int, second: int, *pointers: int, constants: Sequence[float] = ()) -> bytes:
    """A call for `launch`, by the addresses of four inputs and four outputs, 0 where there is none."""
    items = number if kernel in _PLAIN else (number + 1) // 2
    halves = first & 0xFFFFFFFF, first >> 32, second & 0xFFFFFFFF, second >> 32
    how = _NUMBERS[kernel], number, items, build.threads(items)
    return _CALL.pack(*how, *halves, *pointers, *constants, *(0.0,) * (8 - len(constants)))


def launch(calls: Sequence[bytes]) -> None:
    """Run kernels one after the other: what Python does between two that fill the caches takes ten times as long."""
    loaded = build.library()
    assert loaded is not None
    loaded.bnnlib_run(b"".join(calls), len(calls))


def fill(values: Tensor, kind: str, key: int | DeviceKey) -> Tensor:
    """`counter.fill`, by the kernels where they are there."""
    if has_kernels(values):
        run(kind, (key,), (), (values,))
        return values
    assert isinstance(key, int)  # one that lies on a GPU is given to its kernels alone
    return counter.fill(values, kind, key)
