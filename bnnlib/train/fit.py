"""A training loop that resumes bit for bit, survives Ctrl-C and says what went wrong.

For networks of `bnnlib.nn` it minimizes the negative ELBO per observation, for deterministic ones the plain loss. The
data stay in memory as tensors: rows are gathered by index, without worker processes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib._callbacks import Callback, CheckpointLike, Run
from bnnlib._checks import check_count, check_non_negative
from bnnlib._terminal import deferred_interrupt, progress_bar
from bnnlib.nn.base import StochasticLayer
from bnnlib.nn.noise import use_generator
from bnnlib.nn.objective import elbo_loss, kl_divergence, minibatch_weights
from bnnlib.nn.structured_pruning import StructuredBayesianPruning, drawn_together

EpochFunction = Callable[[int], float]

_CHECK_EVERY = 50  # steps between looks at the losses on a GPU, where each look waits for the device


class TrainingError(ArithmeticError):
    """The loss stopped being finite."""


def cosine(epochs: int, floor: float = 0.0) -> EpochFunction:
    """Schedule that takes the learning rate from 1 to `floor` of its initial value along half a cosine, for `fit`.

    Raises:
        ValueError: epochs is below 1 or floor negative.
    """
    check_count("epochs", epochs)
    check_non_negative("floor", floor)
    return lambda epoch: floor + (1.0 - floor) * 0.5 * (1.0 + float(torch.cos(torch.tensor(torch.pi * epoch / epochs))))


def fit(
    model: nn.Module,
    data: tuple[Tensor, Tensor],
    *,
    epochs: int,
    batch_size: int,
    optimizer: torch.optim.Optimizer | None = None,
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    kl_scale: float | EpochFunction = 1.0,
    minibatch_scheme: str = "uniform",
    schedule: EpochFunction | None = None,
    augment: Callable[..., Tensor] | None = None,
    autocast: torch.dtype | None = None,
    channels_last: bool = False,
    generator: torch.Generator | None = None,
    checkpoint: CheckpointLike | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = False,
) -> Run:
    """Minimize mean loss + kl_scale * KL / n over mini-batches, equation (svbnn-elbo) when `loss` is a mean NLL.

    Args:
        model: with layers of `bnnlib.nn`, or a deterministic network, which has no KL term.
        data: (x, y), rows first; they are moved to the model's device once.
        epochs: to reach in total; a run that resumes at epoch 30 of 80 does 50 more.
        batch_size: rows in a step; the last batch of an epoch may be smaller.
        optimizer: over the model's parameters; by default Adam with learning rate 1e-3.
        loss: called as loss(model(x), y), returns the mean over the batch as a scalar.
        kl_scale: 1 for the exact objective, below 1 for a tempered one, or a function of the epoch (from 0) to warm up.
        minibatch_scheme: how an epoch's batches share the KL term, equation (sbnn-minibatch): "uniform" in
            proportion to their rows, or "halving", most of it on the first few.
        schedule: function of the epoch (from 0); every group's initial learning rate is multiplied by it.
        augment: called as augment(x, generator=...) on every batch of inputs; see `bnnlib.augmentation`.
        autocast: dtype of the forward pass, for example torch.bfloat16; parameters, loss and noise keep theirs.
        channels_last: memory format of images, the faster one for convolutions; the model is converted in place.
        generator: of the batches and of the layers' noise, on the model's device; by default PyTorch's own.
        checkpoint: is read before the first step, written when it is due, at the end and on Ctrl-C. It holds model,
            optimizer, random state, position within the epoch and callbacks: the resumed run is the uninterrupted one
            bit for bit.
        callbacks: see `Callback`.
        progress: a bar on stderr, where tqdm is installed.

    Returns:
        The `Run`, with the history of all epochs, those before a resume included.

    Raises:
        ValueError: a count, the data or the checkpoint do not fit.
        TrainingError: the loss is NaN or infinite. On a CPU the step that would have used it is not taken; the
            checkpoint is not written.
        KeyboardInterrupt: on Ctrl-C, once the step under way is complete and the checkpoint written. The model's
            parameters are its posterior means and scales throughout, never a draw.
    """
    check_count("epochs", epochs)
    check_count("batch_size", batch_size)
    device = next(model.parameters()).device
    x, y = _checked(data, device)
    if generator is None:
        generator = (
            torch.default_generator if device.type == "cpu" else torch.cuda.default_generators[device.index or 0]
        )
    optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=1e-3)
    loop = _Loop(Run(model, optimizer), x, y, batch_size, generator, checkpoint, callbacks)
    loop.share_kl(minibatch_scheme)
    loop.augment, loop.autocast, loop.channels_last = augment, autocast, channels_last and x.dim() == 4
    if loop.channels_last:
        model.to(memory_format=torch.channels_last)
    loop.resume()
    was_training = model.training
    model.train()
    try:
        with use_generator(generator), deferred_interrupt() as interrupted, progress_bar(progress, epochs) as bar:
            bar.update(loop.run.epoch)
            while loop.run.epoch < epochs:
                factor = kl_scale(loop.run.epoch) if callable(kl_scale) else kl_scale
                rate = loop.set_learning_rate(schedule)
                loop.epoch(loss, check_non_negative("kl_scale", factor), rate, interrupted)
                bar.update(1)
                bar.set_postfix(nll=f"{loop.run.history[-1]['nll']:.4f}", lr=f"{rate:.3g}", refresh=False)
            loop.save()
    finally:
        model.train(was_training)
    return loop.run


class _Loop:
    """The mutable middle of `fit`."""

    def __init__(self, run: Run, x, y, batch_size, generator, checkpoint, callbacks) -> None:
        self.run, self.x, self.y, self.batch_size = run, x, y, batch_size
        self.generator, self.checkpoint, self.callbacks = generator, checkpoint, tuple(callbacks)
        self.bayesian = any(isinstance(module, StochasticLayer) for module in run.model.modules())
        self.unit_noise = any(isinstance(module, StructuredBayesianPruning) for module in run.model.modules())
        self.initial_rates = [group["lr"] for group in run.optimizer.param_groups]
        self.order: Tensor | None = None  # of the epoch under way
        self.losses = torch.zeros(-(-len(x) // batch_size), device=x.device)
        self.done = 0  # steps of the epoch under way
        self.augment: Callable[..., Tensor] | None = None
        self.autocast: torch.dtype | None = None
        self.channels_last = False
        self.kl_factors: list[float] | None = None  # multiples of KL / n by batch; None is 1 for all
        # gathered into one buffer: a fresh allocation a step costs more in page faults than the copy itself
        self.buffers = [t.new_empty(min(batch_size, len(x)), *t.shape[1:]) for t in (x, y)]

    def share_kl(self, scheme: str) -> None:
        """Let the batches share the KL term in another way than by their rows."""
        weights = minibatch_weights(len(self.losses), scheme)
        if scheme != "uniform":
            sizes = [min(self.batch_size, len(self.x) - start) for start in range(0, len(self.x), self.batch_size)]
            # a batch's loss is a mean over its rows: times n / rows it is that of the whole data set
            self.kl_factors = [float(w) * len(self.x) / rows for w, rows in zip(weights, sizes, strict=True)]

    def set_learning_rate(self, schedule: EpochFunction | None) -> float:
        factor = 1.0 if schedule is None else check_non_negative("schedule(epoch)", schedule(self.run.epoch))
        for group, rate in zip(self.run.optimizer.param_groups, self.initial_rates, strict=True):
            group["lr"] = rate * factor
        return self.initial_rates[0] * factor

    def epoch(self, loss, kl_scale: float, rate: float, interrupted: threading.Event) -> None:
        run = self.run
        if self.order is None:
            self.order = torch.randperm(len(self.x), generator=self.generator, device=self.x.device)
        batches = self.order.split(self.batch_size)
        for rows in batches[self.done :]:
            self._step(rows, loss, kl_scale, rate)
            last = self.done == len(batches)
            if not last and (interrupted.is_set() or (self.checkpoint and self.checkpoint.due())):
                self.save()
                if interrupted.is_set():
                    raise KeyboardInterrupt
        self._check(0, rate)
        kl = float(kl_divergence(run.model).detach()) if self.bayesian else 0.0
        row = {"nll": float(self.losses.mean()), "kl": kl, "kl_scale": float(kl_scale), "learning_rate": rate}
        run.history.append({"epoch": run.epoch, **row})
        run.epoch += 1
        self.order, self.done = None, 0
        for callback in self.callbacks:
            callback.on_epoch(run)
        if interrupted.is_set() or (self.checkpoint and self.checkpoint.due()):
            self.save()
        if interrupted.is_set():
            raise KeyboardInterrupt

    def _batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        x, y = (
            torch.index_select(whole, 0, rows, out=buffer[: len(rows)])
            for whole, buffer in zip((self.x, self.y), self.buffers, strict=True)
        )
        if self.augment is not None:
            x = self.augment(x, generator=self.generator)
        return (x.contiguous(memory_format=torch.channels_last) if self.channels_last else x), y

    def _outputs(self, x: Tensor) -> Tensor:
        with drawn_together(self.run.model) if self.unit_noise else nullcontext():
            if self.autocast is None:
                return self.run.model(x)
            with torch.autocast(x.device.type, self.autocast):
                outputs = self.run.model(x)
        return outputs.float()

    def _step(self, rows: Tensor, loss, kl_scale: float, rate: float) -> None:
        run = self.run
        x, y = self._batch(rows)
        nll = loss(self._outputs(x), y)
        self.losses[self.done] = nll.detach()
        if self.x.device.type == "cpu":
            self._check(self.done, rate, self.done + 1)
        elif self.done % _CHECK_EVERY == _CHECK_EVERY - 1:
            self._check(self.done + 1 - _CHECK_EVERY, rate, self.done + 1)
        objective = nll
        if self.bayesian and kl_scale:
            factor = kl_scale if self.kl_factors is None else kl_scale * self.kl_factors[self.done]
            objective = elbo_loss(nll, run.model, len(self.x), factor, with_value=False)
        run.optimizer.zero_grad()
        objective.backward()
        run.optimizer.step()
        self.done += 1
        run.step += 1
        for callback in self.callbacks:
            callback.on_step(run)

    def _check(self, start: int, rate: float, stop: int | None = None) -> None:
        bad = (~torch.isfinite(self.losses[start:stop])).nonzero()
        if len(bad):
            where = start + int(bad[0])
            raise TrainingError(
                f"the loss is {self.losses[where].item()} in epoch {self.run.epoch}, step {where}, at learning rate "
                f"{rate:g}. Lower the learning rate, check the data and the targets for NaN, or start from smaller "
                "initial weights. The last checkpoint, if there is one, is from before."
            )

    def save(self) -> None:
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

    def resume(self) -> None:
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


def _checked(data: tuple[Tensor, Tensor], device: torch.device) -> tuple[Tensor, Tensor]:
    x, y = data
    if x.dim() == 0 or y.dim() == 0 or len(x) != len(y) or len(x) == 0:
        raise ValueError(
            f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}, but both need the same number of rows, at least one."
        )
    return x.to(device), y.to(device)
