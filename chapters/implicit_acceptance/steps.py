"""Loops that count steps instead of epochs: several networks and optimizers, one state that resumes bit for bit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from bnnlib._callbacks import CheckpointLike
from bnnlib._checks import DivergedError, check_count
from bnnlib._devices import default_generator
from bnnlib._terminal import deferred_interrupt, progress_bar

_CHECK_EVERY = 50  # steps between looks at the losses on a GPU, where each look waits for the device


@dataclass
class Training:
    """Where a loop of steps stands.

    Args:
        steps: done so far.
        history: one row a step, shape (steps, losses), float32 on the CPU; its columns are named by `names`.
        names: of the losses.
        snapshots: step to the state of the network that was asked for at that step, tensors on the CPU.
    """

    steps: int = 0
    history: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    names: tuple[str, ...] = ()
    snapshots: dict[int, dict[str, Tensor]] = field(default_factory=dict)


class StepLoop:
    """Take steps until a number is reached; resume, Ctrl-C, checkpoints, snapshots, losses that must stay finite.

    Args:
        modules: by name, put into training mode while the loop runs; the first is the one of the snapshots.
        optimizers: by name.
        generator: whose state the checkpoint keeps; None means PyTorch's own of the modules' device.
        names: of the losses that a step gives.
        identity: numbers that a checkpoint must share with the run that goes on from it.
        checkpoint: see `bnnlib.train.fit`.
        snapshots: numbers of steps after which the state of the first module is kept; 0 is before the first.
    """

    def __init__(
        self,
        modules: Mapping[str, nn.Module],
        optimizers: Mapping[str, torch.optim.Optimizer],
        generator: torch.Generator | None,
        *,
        names: Sequence[str],
        identity: dict[str, Any],
        checkpoint: CheckpointLike | None = None,
        snapshots: Sequence[int] = (),
    ) -> None:
        self.modules, self.optimizers, self.names = modules, optimizers, tuple(names)
        self.device = next(next(iter(modules.values())).parameters()).device
        self.generator = default_generator(self.device) if generator is None else generator
        self.identity, self.checkpoint = identity, checkpoint
        self.snapshots = {check_count("snapshots", step, 0) for step in snapshots}
        self.training = Training(names=self.names)
        self._losses: list[Tensor] = []

    def descend(self, optimizer: str, loss: Tensor) -> Tensor:
        """One step of an optimizer down a loss, which comes back detached.

        Raises:
            DivergedError: the loss is NaN or infinite. On a CPU nothing has been moved by it.
        """
        if self.device.type == "cpu":
            self._check(loss.detach().reshape(1))
        self.optimizers[optimizer].zero_grad()
        loss.backward()
        self.optimizers[optimizer].step()
        return loss.detach()

    def go(self, step: Callable[[int], Sequence[Tensor]], steps: int, progress: bool) -> Training:
        """Resume, and call `step(number)`, which gives the losses, until `steps` steps are done."""
        check_count("steps", steps)
        self._resume()
        training, modes = self.training, {name: module.training for name, module in self.modules.items()}
        for module in self.modules.values():
            module.train()
        try:
            with deferred_interrupt() as interrupted, progress_bar(progress, steps) as bar:
                bar.update(training.steps)
                self._keep()
                while training.steps < steps:
                    self._losses.append(torch.stack([loss.detach() for loss in step(training.steps)]))
                    training.steps += 1
                    self._keep()
                    bar.update(1)
                    if training.steps % _CHECK_EVERY == 0:
                        self._check(torch.stack(self._losses[-_CHECK_EVERY:]))
                    stopped = interrupted.is_set() and training.steps < steps
                    if stopped or (self.checkpoint and self.checkpoint.due() and training.steps < steps):
                        self._save()
                    if stopped:
                        raise KeyboardInterrupt
                self._gather()
                self._check(training.history)
                self._save()
        finally:
            for name, module in self.modules.items():
                module.train(modes[name])
        return training

    def _keep(self) -> None:
        step = self.training.steps
        if step in self.snapshots and step not in self.training.snapshots:
            first = next(iter(self.modules.values()))
            self.training.snapshots[step] = {k: v.detach().cpu().clone() for k, v in first.state_dict().items()}

    def _check(self, losses: Tensor) -> None:
        if not torch.isfinite(losses).all():
            where, value = f"step {self.training.steps}", float(losses[~torch.isfinite(losses)][0])
            raise DivergedError(
                f"a loss is {value} in {where}. Lower the learning rate, or check the data for NaN. The last "
                "checkpoint, if there is one, is from before.",
                where,
                value,
            )

    def _gather(self) -> None:
        if self._losses:
            rows = torch.stack(self._losses).float().cpu()
            old = self.training.history
            self.training.history = torch.cat([old, rows]) if old.numel() else rows
            self._losses = []

    def _save(self) -> None:
        self._gather()
        if self.checkpoint is None:
            return
        self.checkpoint.save(
            {
                "identity": self.identity,
                "modules": {name: module.state_dict() for name, module in self.modules.items()},
                "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
                "generator": self.generator.get_state(),
                "steps": self.training.steps,
                "history": self.training.history,
                "snapshots": [{"step": step, "state": state} for step, state in self.training.snapshots.items()],
            }
        )

    def _resume(self) -> None:
        state = self.checkpoint.load() if self.checkpoint else None
        if state is None:
            return
        if state["identity"] != self.identity:
            raise ValueError(
                f"the checkpoint is of a run with {state['identity']}, but this one has {self.identity}: it cannot go "
                "on from there. Use the same data and settings, or another checkpoint file."
            )
        for name, module in self.modules.items():
            module.load_state_dict(state["modules"][name])
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        self.generator.set_state(state["generator"])
        snapshots = {one["step"]: one["state"] for one in state["snapshots"]}
        self.training = Training(state["steps"], state["history"], self.names, snapshots)


def check_average(factor: float) -> float:
    """Refuse a factor of `average_weights` outside of [0, 1)."""
    if not 0.0 <= factor < 1.0:
        raise ValueError(
            f"average is {factor}, but it must be in [0, 1): 0 for the last weights, or close to 1, such as 0.99, for "
            "the mean of about 1 / (1 - average) steps."
        )
    return factor


@torch.no_grad()
def average_weights(mean: nn.Module, module: nn.Module, factor: float, number: int) -> None:
    """Let `mean` be the average of the weights after steps 0 to `number`, each with `factor` times the next one's part.

    Args:
        mean: as this function left it after step `number` - 1; what it holds before step 0 does not matter.
        module: after step `number`. Its buffers are copied, not averaged.
        factor: in (0, 1).
        number: of the step, from 0.
    """
    share = (1.0 - factor) / (1.0 - factor ** (number + 1))  # of the last term in a geometric series
    torch._foreach_lerp_(list(mean.parameters()), list(module.parameters()), share)
    for old, new in zip(mean.buffers(), module.buffers(), strict=True):
        old.copy_(new)
