"""The loop under `fit` and `sample`: what both do around a step."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from bnnlib._callbacks import Callback, CheckpointLike, Run
from bnnlib._checks import DivergedError, check_count, check_generator, check_positive
from bnnlib._devices import default_generator
from bnnlib._noise import new_seed, use_generator
from bnnlib._overrides import stepping
from bnnlib._redraw import StepKeys, keeping_keys
from bnnlib._terminal import deferred_interrupt, progress_bar
from bnnlib.nn.base import StochasticLayer, sampling_layers
from bnnlib.nn.calls import noticing_uncalled
from bnnlib.train.batches import Data, batches_of
from bnnlib.train.checkpoint import Checkpoint
from bnnlib.train.checks import (
    check_callbacks,
    check_mean,
    check_optimizer,
    check_pairing,
    naming_dtypes,
    of_no_label,
    warn_of_sums,
)
from bnnlib.train.resume import resume, save, settings_of

_ROOM = 1024  # losses that fit at first where nobody knows the number of batches
_CHECK_EVERY = 50  # steps between looks at the losses on a GPU, where each look waits for the device


class Loop:
    """Batches in random order, losses that must stay finite, callbacks, checkpoint, resume and Ctrl-C; as for `fit`.

    A subclass writes `step` and `explain`, and may write `start_epoch`, `row`, `memory` and `recall`. `mean_loss` is
    recorded before anything is done with it, and `done` steps of the epoch are complete.
    """

    _first_step = -1  # of this run, whose layers are watched
    plain = True  # whether the model returned a tensor there
    keyed = False  # whether a step's noise comes by key

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        data: Data,
        batch_size: int | None,
        *,
        loss: Callable[[Tensor, Tensor], Tensor],
        augment: Callable[..., Tensor] | None,
        autocast: torch.dtype | None,
        channels_last: bool,
        generator: torch.Generator | None,
        checkpoint: str | Path | CheckpointLike | None,
        callbacks: Sequence[Callback],
        shuffle_generator: torch.Generator | None = None,
        num_data: int | None = None,
    ) -> None:
        check_optimizer(model, optimizer)
        check_mean(loss)
        check_generator("generator", generator)
        check_generator("shuffle_generator", shuffle_generator)
        self.device = next(model.parameters()).device
        self.generator = default_generator(self.device) if generator is None else generator
        # PyTorch's own, from which dropout and transforms draw whatever the run has; a device may show none
        self.global_generators = [torch.default_generator]
        if self.device.type != "cpu":
            with suppress(ValueError):
                self.global_generators.append(default_generator(self.device))
        self.batches = batches_of(data, batch_size, self.device, shuffle_generator, self.generator)
        self.num_data = self.batches.observations(num_data)
        self.run, self.loss, self.augment = Run(model, optimizer), loss, augment
        self.autocast, self.channels_last = autocast, channels_last
        self.checkpoint = Checkpoint(checkpoint) if isinstance(checkpoint, str | Path) else checkpoint
        self.callbacks = check_callbacks(model, callbacks)
        self.initial_rates = [group["lr"] for group in optimizer.param_groups]
        self.settings = settings_of(model)
        self.losses = torch.zeros(self.batches.number or _ROOM, device=self.device)
        self.done = 0  # steps of the epoch under way
        # The seed of the noise only looks at the number that comes next, which the order takes: so that is the one of a
        # network without noise. Where the order has another generator, the next run would have this noise again.
        before = self.generator.get_state()
        self.noise_seed = new_seed(self.generator)
        if not self.batches.own_order:
            self.generator.set_state(before)
        passes = (m.training_pass for m in model.modules() if isinstance(m, StochasticLayer))
        self._passes = [source for source in dict.fromkeys(passes) if source is not None]

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
        """The model's outputs for a batch of training."""
        model = self.run.model
        with ExitStack() as stack:
            for training_pass in self._passes:
                stack.enter_context(training_pass(model))
            if self.run.step == self._first_step:
                stack.enter_context(noticing_uncalled(model, sampling_layers(model)))
            return self.forward(x)

    def forward(self, x: Tensor) -> Tensor:
        """The model alone, under `autocast` where that is asked for; its outputs are in the loss's precision."""
        if self.autocast is None:
            return self.run.model(x)
        with torch.autocast(x.device.type, self.autocast):
            # indices and masks beside them stay what they are
            return tree_map_only(Tensor, lambda t: t.float() if t.is_floating_point() else t, self.run.model(x))

    def mean_loss(self, x: Tensor, y: Tensor) -> Tensor:
        """The loss of a batch, on record."""
        outputs = self.outputs(x)
        if self.run.step == self._first_step:
            self.plain = isinstance(outputs, Tensor)
            check_pairing(self.loss, outputs, y)
            warn_of_sums(self.loss, outputs, y, stacklevel=7)  # where fit or sample is called
        loss, self._targets = self.loss(outputs, y), y
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            given = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
            raise ValueError(
                f"the loss returned {given}, but it must be a scalar tensor, the mean over the batch: use "
                "reduction='mean', and no .item()."
            )
        if self.done == len(self.losses):
            self.losses = torch.cat([self.losses, torch.zeros_like(self.losses)])
        self.losses[self.done] = loss.detach()
        if self.device.type == "cpu":
            self._check(self.done)
        elif self.done % _CHECK_EVERY == _CHECK_EVERY - 1:
            self._check(self.done + 1 - _CHECK_EVERY)
        return loss

    def go(
        self, epochs: int | None, progress: bool, max_steps: int | None = None, max_seconds: float | None = None
    ) -> Run:
        """Resume, and run until `epochs` epochs are complete, a budget is spent or a callback stops the run."""
        if epochs is None and max_steps is None and max_seconds is None:
            raise ValueError("nothing says when the run ends: give epochs, max_steps or max_seconds.")
        epochs = None if epochs is None else check_count("epochs", epochs)
        self.max_steps = None if max_steps is None else check_count("max_steps", max_steps)
        self.max_seconds = None if max_seconds is None else check_positive("max_seconds", max_seconds)
        run = self.run
        if self.channels_last and self.batches.images:
            run.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # PyTorch's stub has it not
        resume(self)
        self._first_step = run.step
        self._begun = time.monotonic() - run.seconds
        self._modules = frozenset(run.model.modules())
        with stepping(self._modules):  # a block of another thread would put back the mode from before
            modes = {module: module.training for module in self._modules}
            run.model.train()
        try:
            with (
                keeping_keys(run.model),
                use_generator(self.generator),
                deferred_interrupt() as interrupted,
                progress_bar(progress, epochs) as bar,
            ):
                bar.update(run.epoch)
                while (epochs is None or run.epoch < epochs) and not self._over():
                    self.start_epoch()
                    if not self._epoch(interrupted):
                        break
                    last = run.history[-1]
                    bar.update(1)
                    bar.set_postfix(nll=f"{last['nll']:.4f}", lr=f"{last['learning_rate']:.3g}", refresh=False)
                save(self)
            run.stopped = run.stopped or self._spent()
            for callback in self.callbacks:
                if isinstance(callback, Callback):  # pruners and priors have only what they need of one
                    callback.on_end(run)
        finally:
            with stepping(self._modules):
                run.model.train(modes[run.model])
                for module, mode in modes.items():  # such as a frozen batch norm in eval()
                    module.training = mode
        return run

    def _epoch(self, interrupted: threading.Event) -> bool:
        """One epoch, or what is left of it; False if the run ends within."""
        run, number = self.run, self.batches.number
        keys = StepKeys(run.model) if self.keyed else None
        for x, y in self.batches.epoch(run.epoch, self.done):
            if keys:
                keys.give(self.noise_seed, run.step)
            with stepping(self._modules), naming_dtypes(x, y):
                self.step(*self._prepared(x, y))
            if keys:
                keys.take()
            self.done += 1
            run.step += 1
            run.seconds = time.monotonic() - self._begun
            for callback in self.callbacks:
                callback.on_step(run)
            if self.done != number:
                self._pause(interrupted)
                if self._over():
                    return False
        if not self.done:
            raise ValueError("the loader has given no batch: its data set is empty, or drop_last leaves none.")
        self._check(0)
        run.history.append({"epoch": run.epoch, "nll": float(self.losses[: self.done].mean()), **self.row()})
        run.epoch += 1
        self.done = 0
        self.batches.end_epoch()
        for callback in self.callbacks:
            callback.on_epoch(run)
        self._pause(interrupted)
        return True

    def _over(self) -> bool:
        self.run.seconds = time.monotonic() - self._begun
        return self.run.stopped is not None or self._spent() is not None

    def _spent(self) -> str | None:
        """Which budget has come to its end."""
        run = self.run
        if self.max_steps is not None and run.step >= self.max_steps:
            return f"max_steps={self.max_steps} are done"
        if self.max_seconds is not None and run.seconds >= self.max_seconds:
            return f"max_seconds={self.max_seconds:g} are over, after {run.step} steps"
        return None

    def _prepared(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        if self.augment is not None:
            x = self.augment(x, generator=self.generator)
        return self.in_format(x), y

    def in_format(self, x: Tensor) -> Tensor:
        """Images in the memory format of the run."""
        return x.contiguous(memory_format=torch.channels_last) if self.channels_last and x.dim() == 4 else x

    def _check(self, start: int) -> None:
        # after the step under way the losses are those of the last epoch
        bad = (~torch.isfinite(self.losses[start : self.done + 1])).nonzero()
        if len(bad):
            step = start + int(bad[0])
            where, value = f"epoch {self.run.epoch}, step {step}", self.losses[step].item()
            # on a GPU the batch is gone by now
            why = of_no_label(self.loss, self._targets) if self.device.type == "cpu" else ""
            raise DivergedError(self.explain(where, value) + why, where, value)

    def _pause(self, interrupted: threading.Event) -> None:
        # a stream is found again at the end of an epoch alone, and what Ctrl-C leaves is the last of these
        if interrupted.is_set() or (self.checkpoint and (self.checkpoint.due() or not self.batches.exact)):
            save(self)
        if interrupted.is_set():
            raise KeyboardInterrupt

    def memory(self) -> dict[str, Any]:
        """What a checkpoint keeps beside what all loops have."""
        return {}

    def recall(self, state: dict[str, Any]) -> None:
        """Take over what `memory` gave."""
