"""The loop under `fit` and `sample`: what both do around a step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib._callbacks import Callback, CheckpointLike, Run
from bnnlib._checks import DivergedError, check_count
from bnnlib._devices import default_generator
from bnnlib._noise import keeping_keys, new_seed, redraw, use_generator
from bnnlib._terminal import deferred_interrupt, progress_bar
from bnnlib.nn.base import StochasticLayer, sampling_layers
from bnnlib.nn.calls import noticing_uncalled
from bnnlib.train.checkpoint import Checkpoint

_CHECK_EVERY = 50  # steps between looks at the losses on a GPU, where each look waits for the device


class Loop:
    """Batches in random order, losses that must stay finite, callbacks, checkpoint, resume and Ctrl-C.

    A subclass writes `step` and `explain`, and may write `start_epoch` and `row`. In a step `outputs` is the forward
    pass, `record` takes the loss before anything is done with it, and `done` steps of the epoch are complete.

    Args:
        model, optimizer: what is moved, and by what.
        data: (x, y), rows first; they are moved to the model's device once.
        batch_size, loss, augment, autocast, channels_last, generator, checkpoint, callbacks: as for `fit`.

    Raises:
        ValueError: batch_size is no count, the data are no two tensors of equally many rows, or the optimizer holds
            no parameter of the model.
    """

    _first_step = -1  # of this run, whose layers are watched
    keyed = False  # whether a step's noise comes by key

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        data: tuple[Tensor, Tensor],
        batch_size: int,
        *,
        loss: Callable[[Tensor, Tensor], Tensor],
        augment: Callable[..., Tensor] | None,
        autocast: torch.dtype | None,
        channels_last: bool,
        generator: torch.Generator | None,
        checkpoint: str | Path | CheckpointLike | None,
        callbacks: Sequence[Callback],
    ) -> None:
        self.batch_size = check_count("batch_size", batch_size)
        _check_optimizer(model, optimizer)
        device = next(model.parameters()).device
        self.x, self.y = (part.to(device) for part in _checked(data))
        self.run, self.loss, self.augment, self.autocast = Run(model, optimizer), loss, augment, autocast
        self.channels_last = channels_last and self.x.dim() == 4
        self.generator = default_generator(device) if generator is None else generator
        self.checkpoint = Checkpoint(checkpoint) if isinstance(checkpoint, str | Path) else checkpoint
        self.callbacks = tuple(callbacks)
        self.initial_rates = [group["lr"] for group in optimizer.param_groups]
        self.order: Tensor | None = None  # of the epoch under way
        self.losses = torch.zeros(-(-len(self.x) // self.batch_size), device=device)
        self.done = 0  # steps of the epoch under way
        # gathered into one buffer: a fresh allocation a step costs more in page faults than the copy itself
        self._buffers = [t.new_empty(min(self.batch_size, len(t)), *t.shape[1:]) for t in (self.x, self.y)]
        passes = (m.training_pass for m in model.modules() if isinstance(m, StochasticLayer))
        self._passes = [one for one in dict.fromkeys(passes) if one is not None]

    def start_epoch(self) -> None:
        """Set what holds for the epoch `run.epoch`; called again where a run resumes in its middle."""

    def step(self, x: Tensor, y: Tensor) -> None:
        """Move the model by one batch."""
        raise NotImplementedError

    def row(self) -> dict[str, float]:
        """What the history says of the epoch just done, beside its number and mean loss."""
        return {}

    def explain(self, where: str, value: float) -> str:
        """Words for a loss that is not finite, which say what to do about it."""
        raise NotImplementedError

    def outputs(self, x: Tensor) -> Tensor:
        """The model's outputs for a batch, in the loss's precision."""
        model = self.run.model
        with ExitStack() as stack:
            for training_pass in self._passes:
                stack.enter_context(training_pass(model))
            if self.run.step == self._first_step:
                stack.enter_context(noticing_uncalled(model, sampling_layers(model)))
            if self.autocast is None:
                outputs = model(x)
            else:
                with torch.autocast(x.device.type, self.autocast):
                    outputs = model(x).float()
        if self.loss is F.cross_entropy and outputs.shape[1:2] == (1,):
            raise ValueError(
                "the model has one output, and the cross-entropy over a single class is 0 whatever it says. Give "
                "loss=torch.nn.functional.mse_loss or another loss for numbers, or a model with one output a class."
            )
        return outputs

    def record(self, loss: Tensor) -> None:
        """Take the batch's loss.

        Raises:
            DivergedError: it is NaN or infinite; on a GPU it may be found some steps later.
        """
        self.losses[self.done] = loss.detach()
        if self.x.device.type == "cpu":
            self._check(self.done)
        elif self.done % _CHECK_EVERY == _CHECK_EVERY - 1:
            self._check(self.done + 1 - _CHECK_EVERY)

    def go(self, epochs: int, progress: bool) -> Run:
        """Resume, and run until `epochs` epochs are complete."""
        epochs = check_count("epochs", epochs)
        run = self.run
        if self.channels_last:
            run.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # PyTorch's stub has it not
        self._resume()
        self._first_step = run.step
        was_training = run.model.training
        run.model.train()
        try:
            with (
                keeping_keys(run.model),
                use_generator(self.generator),
                deferred_interrupt() as interrupted,
                progress_bar(progress, epochs) as bar,
            ):
                bar.update(run.epoch)
                while run.epoch < epochs:
                    self.start_epoch()
                    self._epoch(interrupted)
                    last = run.history[-1]
                    bar.update(1)
                    bar.set_postfix(nll=f"{last['nll']:.4f}", lr=f"{last['learning_rate']:.3g}", refresh=False)
                self._save()
        finally:
            run.model.train(was_training)
        return run

    def _epoch(self, interrupted: threading.Event) -> None:
        run = self.run
        if self.order is None:
            self.order = torch.randperm(len(self.x), generator=self.generator, device=self.x.device)
        batches = self.order.split(self.batch_size)
        for rows in batches[self.done :]:
            if self.keyed:
                redraw(run.model, new_seed(self.generator))
            self.step(*self._batch(rows))
            self.done += 1
            run.step += 1
            for callback in self.callbacks:
                callback.on_step(run)
            if self.done < len(batches):
                self._pause(interrupted)
        self._check(0)
        run.history.append({"epoch": run.epoch, "nll": float(self.losses.mean()), **self.row()})
        run.epoch += 1
        self.order, self.done = None, 0
        for callback in self.callbacks:
            callback.on_epoch(run)
        self._pause(interrupted)

    def _batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        x, y = (
            torch.index_select(whole, 0, rows, out=buffer[: len(rows)])
            for whole, buffer in zip((self.x, self.y), self._buffers, strict=True)
        )
        if self.augment is not None:
            x = self.augment(x, generator=self.generator)
        return (x.contiguous(memory_format=torch.channels_last) if self.channels_last else x), y

    def _check(self, start: int) -> None:
        # after the step under way the losses are those of the last epoch
        bad = (~torch.isfinite(self.losses[start : self.done + 1])).nonzero()
        if len(bad):
            step = start + int(bad[0])
            where, value = f"epoch {self.run.epoch}, step {step}", self.losses[step].item()
            raise DivergedError(self.explain(where, value), where, value)

    def _pause(self, interrupted: threading.Event) -> None:
        if interrupted.is_set() or (self.checkpoint and self.checkpoint.due()):
            self._save()
        if interrupted.is_set():
            raise KeyboardInterrupt

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        run = self.run
        state = {
            "rows": len(self.x),
            "batch_size": self.batch_size,
            "model": run.model.state_dict(),
            "optimizer": run.optimizer.state_dict(),
            "initial_rates": self.initial_rates,
            "generator": self.generator.get_state(),
            "epoch": run.epoch,
            "step": run.step,
            "history": run.history,
            "order": self.order,
            "done": self.done,
            "losses": self.losses,
            "callbacks": [callback.state_dict() for callback in self.callbacks],
        }
        self.checkpoint.save(state)

    def _resume(self) -> None:
        state = self.checkpoint.load() if self.checkpoint else None
        if state is None:
            return
        given = {"rows": len(self.x), "batch_size": self.batch_size, "callbacks": len(self.callbacks)}
        kept = {"rows": state["rows"], "batch_size": state["batch_size"], "callbacks": len(state["callbacks"])}
        if given != kept:
            raise ValueError(
                f"the checkpoint is of a run with {kept}, but this one has {given}: it cannot go on from there. "
                "Use the same data, batch size and callbacks, or another checkpoint file."
            )
        run = self.run
        run.model.load_state_dict(state["model"])
        run.optimizer.load_state_dict(state["optimizer"])
        self.initial_rates = list(state["initial_rates"])
        self.generator.set_state(state["generator"])
        run.epoch, run.step, run.history = state["epoch"], state["step"], list(state["history"])
        self.order = None if state["order"] is None else state["order"].to(self.x.device)
        self.done, self.losses = state["done"], state["losses"].to(self.x.device)
        for callback, memory in zip(self.callbacks, state["callbacks"], strict=True):
            callback.load_state_dict(memory)


def _check_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if not any(id(parameter) in held for parameter in model.parameters()):
        raise ValueError(
            "the optimizer holds no parameter of the model, so that nothing would be trained. to_bayesian and "
            "insert_unit_noise return copies: make the optimizer from the parameters of the model that is trained."
        )


def _checked(data: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    kinds = [type(part).__name__ for part in data] if isinstance(data, tuple | list) else [type(data).__name__]
    if len(kinds) != 2 or not all(isinstance(part, Tensor) for part in data):
        given = ", ".join(kinds[:3]) + (f" and {len(kinds) - 3} more" if len(kinds) > 3 else "")
        raise ValueError(
            f"data is {given}, but it must be (x, y), two tensors, which stay in memory. Give "
            "(torch.as_tensor(x), torch.as_tensor(y)); of a DataLoader, the tensors of its data set."
        )
    x, y = data
    if x.dim() == 0 or y.dim() == 0 or len(x) != len(y) or len(x) == 0:
        raise ValueError(
            f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}, but both need the same number of rows, at least one."
        )
    return x, y
