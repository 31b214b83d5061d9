"""What every timed step shares."""

from __future__ import annotations

import time

import torch
from torch import Tensor


def synchronize(device: torch.device) -> None:
    """Wait for the device's queue."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Timed:
    """A training step that can be timed; `step` does one."""

    def step(self, x: Tensor, y: Tensor) -> None:
        raise NotImplementedError

    def seconds(self, x: Tensor, y: Tensor, steps: int) -> float:
        """Mean time of a step over `steps` steps in a row."""
        synchronize(x.device)
        start = time.perf_counter()
        for _ in range(steps):
            self.step(x, y)
        synchronize(x.device)
        return (time.perf_counter() - start) / steps
