"""What tests of both loops share: a small problem, and ways for a run to end."""

from __future__ import annotations

import os
import signal

import torch
from torch.optim import lr_scheduler

from bnnlib.train import Callback
from bnnlib.train.checkpoint import Checkpoint

ROWS = 50  # not a multiple of the batch, so that every epoch ends with a smaller one


def data(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(ROWS, 6, generator=generator)
    return x, (x[:, :3] @ torch.randn(3, 3, generator=generator)).argmax(dim=1)


class Stop(Exception):
    pass


class StopAt(Callback):
    """Stands for kill -9: leaves at a step without any chance to save."""

    def __init__(self, step: int | None) -> None:
        self.step = step

    def on_step(self, run) -> None:
        if run.step == self.step:
            raise Stop


class PressCtrlC(Callback):
    def on_step(self, run) -> None:
        if run.step == 6:
            os.kill(os.getpid(), signal.SIGINT)


class EveryStep(Checkpoint):
    """Due after every step, so that a run can be broken off anywhere."""

    def due(self, seconds: float = 0.0) -> bool:
        return True


SCHEDULERS = {
    "step": lambda o: lr_scheduler.StepLR(o, 2, gamma=0.5),
    "multistep": lambda o: lr_scheduler.MultiStepLR(o, [1, 3]),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 1.0 / (1 + epoch)),
    "warm-up": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, total_iters=2), lr_scheduler.CosineAnnealingLR(o, 3)], [2]
    ),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=20),
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=0),
}
