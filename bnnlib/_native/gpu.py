"""Launching of the Triton kernels, where there is Triton: PyTorch brings it along on Linux with CUDA."""

import importlib
import os
import warnings
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

from bnnlib._native.build import SWITCH, NativeWarning
from bnnlib._native.counter import signed

PLAIN = ("uniform", "signs", "logistic", "words")  # whose items are numbers and no pairs


class DeviceKey(NamedTuple):
    """Draw `number` of a key that lies on the device: a recorded step may change it, and nobody waits for it."""

    key: Tensor
    number: int


@cache
def kernels() -> ModuleType | None:
    """The compiled functions, or None where there are none; where Triton fails, a warning tells of it once."""
    if os.environ.get(SWITCH, "1") == "0":
        return None
    try:
        module = importlib.import_module("bnnlib._native.triton_kernels")
    except ImportError:
        return None
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        raise RuntimeError("the first draw on this GPU is being recorded as a CUDA graph. Run the step once before.")
    try:  # Triton itself needs a C compiler, and not every device will do
        launch(module, "normal", (0,), (), (torch.empty(2, device="cuda"),))
    except Exception as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        warnings.warn(
            f"bnnlib's kernels for noise by key are not there on this GPU: {why}. PyTorch's generator draws in their "
            f"place, slower and other numbers. Triton needs a C compiler such as gcc; or set {SWITCH}=0, which leaves "
            "the kernels out.",
            NativeWarning,
            stacklevel=2,
        )
        return None
    return module


def _halves(key: int) -> tuple[int, int]:
    """A key of 64 bits as two numbers of 32 with a sign, low one first: Triton compiles for a type of its own else."""
    return signed(key & 0xFFFFFFFF), signed(key >> 32)


def launch(
    module: ModuleType,
    kernel: str,
    keys: Sequence[int | DeviceKey],
    inputs: Sequence[Tensor | None],
    outputs: Sequence[Tensor | None],
    constants: Sequence[float] = (),
    share: Tensor | None = None,
) -> None:
    """`bnnlib._native.run` by the functions of `module`."""
    out = outputs[0]
    assert out is not None
    number = out.numel()
    at, halves = _where(keys)
    if at is None and out.is_cuda and torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "a CUDA graph is being recorded, but the key of this draw is a number of Python: every replay would repeat "
            "the noise. Call bnnlib.nn.redraw(model, seed, step) with step as a tensor on the device, and count it up "
            "within the recorded step."
        )
    if out.is_cuda and out.device.index != torch.cuda.current_device():
        with torch.cuda.device(out.device):
            return launch(module, kernel, keys, inputs, outputs, constants, share)
    block = module.BLOCK
    how = {"KIND": kernel, "BLOCK": block, "enable_fp_fusion": False}
    if kernel in PLAIN:
        module.plain[(-(-number // block),)](out, at, number, *halves[:2], **how)
        return
    tensors = [*inputs, *(None,) * (4 - len(inputs)), *outputs, *(None,) * (3 - len(outputs)), share, at]
    numbers = [float(constant) for constant in constants] + [0.0] * (4 - len(constants))
    module.pairs[(-(-(number - number // 2) // block),)](*tensors, number, *halves, *numbers, **how)


def _where(keys: Sequence[int | DeviceKey]) -> tuple[Tensor | None, list[int]]:
    """Where the key lies on the device, if it does, and two numbers for each of two keys."""
    at, halves = None, []
    for key in (keys[0], keys[-1]):
        if isinstance(key, DeviceKey):
            at = key.key
            halves += [key.number, 0]
        else:
            halves += _halves(key)
    return at, halves


def layer_keys(module: ModuleType, seed_key: int, step: Tensor, rank: int, number: int) -> Tensor:
    """The keys of so many layers at a step that lies on the device."""
    keys = torch.empty(number, dtype=torch.int64, device=step.device)
    if number:
        block = 1 << max(4, (number - 1).bit_length())
        module.layer_keys[(1,)](keys, step, number, *_halves(seed_key), rank, BLOCK=block)
    return keys
