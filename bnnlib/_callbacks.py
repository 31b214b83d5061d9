"""What hangs on a run of training or sampling, and what it is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import nn


class CheckpointLike(Protocol):
    """What `fit` needs of a checkpoint; `bnnlib.train.Checkpoint(path)` is one."""

    def load(self) -> dict[str, Any] | None: ...

    def save(self, state: dict[str, Any]) -> None: ...

    def due(self) -> bool: ...


class Callback:
    """Base of what hangs on a training run; override what you need.

    A callback with memory returns it from `state_dict` (tensors, numbers, strings, lists and dicts), so that a resumed
    run goes on as if it had never stopped.

    Example:
        >>> class Count(Callback):
        ...     epochs = 0
        ...     def on_epoch(self, run):
        ...         self.epochs += 1
        >>> count, data = Count(), (torch.randn(8, 3), torch.randint(2, (8,)))
        >>> run = fit(torch.nn.Linear(3, 2), data, epochs=4, batch_size=4, callbacks=[count])
        >>> count.epochs
        4
    """

    def on_step(self, run: Run) -> None:
        """After each optimizer step; `run.step` steps have been done."""

    def on_epoch(self, run: Run) -> None:
        """After each epoch; `run.epoch` epochs have been done."""

    def on_end(self, run: Run) -> None:
        """After the last step and the last save: what it does to the model is in no checkpoint."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must keep."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""


@dataclass
class Run:
    """Where a training run stands.

    Args:
        model, optimizer: what is trained, and by what.
        epoch, step: epochs and steps completed so far.
        history: one row an epoch {"epoch", "nll", "kl", "kl_scale", "learning_rate"}: the mean loss over the epoch's
            batches, and the divergence in nats after it (0 for deterministic networks); with validation data
            "validation_nll" too.
        seconds: that the run has taken so far, by the clock, those before a resume included.
        stopped: why the run ended before its epochs were complete; None if they are.
        restored: the epochs after which the model's weights were what they are, where a callback has put back earlier
            ones.

    Example:
        >>> run = fit(torch.nn.Linear(3, 2), (torch.randn(8, 3), torch.randint(2, (8,))), epochs=2, batch_size=4)
        >>> run.epoch, run.step, len(run.history)
        (2, 4, 2)
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    epoch: int = 0
    step: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0
    stopped: str | None = None
    restored: int | None = None

    def stop(self, reason: str) -> None:
        """Let the run end after the step under way, as if its epochs were complete; for callbacks.

        A checkpoint keeps the reason: the run that resumes from it ends at once.
        """
        self.stopped = reason
