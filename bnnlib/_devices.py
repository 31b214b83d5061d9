"""Devices: the random state that a device has of its own."""

from typing import Any

import torch


def default_generator(device: torch.device | str) -> torch.Generator:
    """PyTorch's own generator of a device; of "cuda" without a number that of the current one."""
    device = torch.device(device)
    if device.type == "cpu":
        return torch.default_generator
    backend: Any = getattr(torch, device.type, None)
    generators = getattr(backend, "default_generators", None)
    if generators is not None:
        backend.init()  # before it there are none
        return backend.default_generators[backend.current_device() if device.index is None else device.index]
    if device.type == "mps":
        return torch.mps._get_default_mps_generator()
    raise ValueError(
        f"PyTorch shows no random state for {str(device)!r}, so that a run could not resume there. Pass "
        f"generator=torch.Generator({device.type!r}), or use another device."
    )
