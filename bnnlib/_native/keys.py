"""Keys of draws: numbers of 64 bits, in Python or on a GPU, where a recorded step may change them."""

import torch
from torch import Tensor

from bnnlib._native import gpu
from bnnlib._native.gpu import DeviceKey

_MASK = (1 << 64) - 1


def fold(key: int, number: int) -> int:
    """The key of 64 bits that splitmix64 makes of a key and a number: those of neighbors have nothing in common."""
    z = (key + 0x9E3779B97F4A7C15 * (number + 1)) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def whole(key: Tensor) -> int:
    """The key that a tensor holds; one on a GPU is waited for."""
    return int(key) & _MASK


def of_draw(key: Tensor, number: int, device: torch.device) -> int | DeviceKey:
    """The key of a draw on a device; where it lies, if that is the same GPU."""
    return DeviceKey(key, number) if key.is_cuda and key.device == device else fold(whole(key), number)


def of_layers(key: int, step: Tensor, rank: int, layers: int) -> Tensor | None:
    """The keys of all layers where the step lies, or None where no kernel makes or reads them."""
    if step.dtype is not torch.int64 or step.numel() != 1:
        raise ValueError(
            f"step is a tensor of {step.numel()} numbers in {step.dtype}. Give an int, or one number in torch.int64."
        )
    kernels = gpu.kernels() if step.is_cuda else None
    return None if kernels is None else gpu.layer_keys(kernels, key, step, rank, layers)
