"""The data that both loops run on, and ways to break a run off."""

from __future__ import annotations

import os
import signal

import torch

from bnnlib.train import Callback, Checkpoint

ROWS = 50  # not a multiple of the batch, so that every epoch ends with a smaller one


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of three classes, which three of the six inputs decide."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, 6, generator=generator)
    return x, (x[:, :3] @ torch.randn(3, 3, generator=generator)).argmax(dim=1)


class Stop(Exception):
    """What stands for the end of the process."""


class StopAt(Callback):
    """Stands for kill -9: leaves at a step without any chance to save."""

    def __init__(self, step: int | None) -> None:
        self.step = step

    def on_step(self, run) -> None:
        if run.step == self.step:
            raise Stop


class PressCtrlC(Callback):
    """Sends an interrupt in the middle of the second epoch."""

    def on_step(self, run) -> None:
        if run.step == 6:
            os.kill(os.getpid(), signal.SIGINT)


class EveryStep(Checkpoint):
    """Due after every step, so that a run can be broken off anywhere."""

    def due(self, seconds: float = 0.0) -> bool:
        return True
