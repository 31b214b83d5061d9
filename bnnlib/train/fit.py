"""A training loop that resumes bit for bit, survives Ctrl-C and says what went wrong.

For networks of `bnnlib.nn` it minimizes the negative ELBO per observation, for deterministic ones the plain loss. The
data stay in memory as tensors: rows are gathered by index, without worker processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib._callbacks import Callback, CheckpointLike, Run
from bnnlib._checks import check_count, check_non_negative
from bnnlib.nn.base import StochasticLayer
from bnnlib.nn.objective import elbo_loss, kl_divergence, minibatch_weights
from bnnlib.train.loop import Loop

EpochFunction = Callable[[int], float]


def cosine(epochs: int, floor: float = 0.0) -> EpochFunction:
    """Schedule that takes the learning rate from 1 to `floor` of its initial value along half a cosine, for `fit`.

    Raises:
        ValueError: epochs is below 1 or floor negative.

    Example:
        >>> factor = cosine(10)
        >>> factor(0), round(factor(5), 6)
        (1.0, 0.5)
    """
    check_count("epochs", epochs)
    check_non_negative("floor", floor)

    def factor(epoch: int) -> float:
        angle = torch.tensor(torch.pi * epoch / epochs, device="cpu")
        return floor + (1.0 - floor) * 0.5 * (1.0 + float(torch.cos(angle)))

    return factor


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
    keyed: bool = False,
    checkpoint: str | Path | CheckpointLike | None = None,
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
        loss: called as loss(model(x), y), returns the mean over the batch as a scalar; by default cross-entropy, for
            class labels. Numbers need another, such as torch.nn.functional.mse_loss.
        kl_scale: 1 for the exact objective, below 1 for a tempered one, or a function of the epoch (from 0) to warm up.
        minibatch_scheme: how an epoch's batches share the KL term, equation (sbnn-minibatch): "uniform" in
            proportion to their rows, or "halving", most of it on the first few.
        schedule: function of the epoch (from 0); every group's initial learning rate is multiplied by it.
        augment: called as augment(x, generator=...) on every batch of inputs; see `bnnlib.augmentation`.
        autocast: dtype of the forward pass, for example torch.bfloat16; parameters, loss and noise keep theirs.
        channels_last: memory format of images, the faster one for convolutions; the model is converted in place.
        generator: of the batches and of the layers' noise, on the model's device; by default PyTorch's own.
        keyed: draw each step's noise by a key from the generator, as `bnnlib.nn.redraw` does: what gradient
            checkpointing and an activation memory budget need. A layer that runs twice in a step then has one draw.
        checkpoint: a file's path or a `Checkpoint`; read before the first step, written when it is due, at the end and
            on Ctrl-C. It holds model, optimizer, random state, position within the epoch and callbacks: the resumed
            run is the uninterrupted one bit for bit.
        callbacks: see `Callback`.
        progress: a bar on stderr, where tqdm is installed.

    Returns:
        The `Run`, with the history of all epochs, those before a resume included.

    Raises:
        ValueError: a count, the data, the optimizer, the loss or the checkpoint do not fit.
        DivergedError: the loss is NaN or infinite. On a CPU the step that would have used it is not taken; the
            checkpoint is not written.
        KeyboardInterrupt: on Ctrl-C, once the step under way is complete and the checkpoint written. The model's
            parameters are its posterior means and scales throughout, never a draw.

    Example:
        >>> from bnnlib.nn import SpikeSlabLinear
        >>> x, y = torch.randn(256, 5), torch.zeros(256, 1)
        >>> y = x[:, :1] + 0.1 * torch.randn(256, 1)
        >>> model = torch.nn.Sequential(SpikeSlabLinear(5, 1, prior_inclusion_probability=0.01))
        >>> adam = torch.optim.Adam(model.parameters(), lr=0.05)
        >>> run = fit(model, (x, y), epochs=20, batch_size=64, loss=torch.nn.functional.mse_loss, optimizer=adam)
        >>> run.epoch, run.history[-1]["nll"] < run.history[0]["nll"]
        (20, True)
    """
    loop = _Descent(
        model,
        optimizer or torch.optim.Adam(model.parameters(), lr=1e-3),
        data,
        batch_size,
        loss=loss,
        augment=augment,
        autocast=autocast,
        channels_last=channels_last,
        generator=generator,
        checkpoint=checkpoint,
        callbacks=callbacks,
    )
    loop.kl_scale, loop.schedule = kl_scale, schedule
    loop.share_kl(minibatch_scheme)
    loop.keyed = keyed
    return loop.go(epochs, progress)


class _Descent(Loop):
    """The loop with a step down the gradient of the negative ELBO."""

    kl_scale: float | EpochFunction
    schedule: EpochFunction | None

    def share_kl(self, scheme: str) -> None:
        """Let the batches share the KL term, by their rows or in another way."""
        weights = minibatch_weights(len(self.losses), scheme)
        self.bayesian = any(isinstance(module, StochasticLayer) for module in self.run.model.modules())
        self.kl_factors = [1.0] * len(weights)  # multiples of KL / n by batch
        if scheme != "uniform":
            sizes = [min(self.batch_size, len(self.x) - start) for start in range(0, len(self.x), self.batch_size)]
            # a batch's loss is a mean over its rows: times n / rows it is that of the whole data set
            self.kl_factors = [float(w) * len(self.x) / rows for w, rows in zip(weights, sizes, strict=True)]

    def start_epoch(self) -> None:
        scale = self.kl_scale(self.run.epoch) if callable(self.kl_scale) else self.kl_scale
        self.epoch_kl_scale = check_non_negative("kl_scale", scale)
        factor = 1.0 if self.schedule is None else check_non_negative("schedule(epoch)", self.schedule(self.run.epoch))
        for group, rate in zip(self.run.optimizer.param_groups, self.initial_rates, strict=True):
            group["lr"] = rate * factor
        self.rate = self.initial_rates[0] * factor

    def step(self, x: Tensor, y: Tensor) -> None:
        objective = self.loss(self.outputs(x), y)
        self.record(objective)
        if self.bayesian and self.epoch_kl_scale:
            factor = self.epoch_kl_scale * self.kl_factors[self.done]
            objective = elbo_loss(objective, self.run.model, len(self.x), factor, with_value=False)
        self.run.optimizer.zero_grad()
        objective.backward()
        self.run.optimizer.step()

    def row(self) -> dict[str, float]:
        kl = float(kl_divergence(self.run.model).detach()) if self.bayesian else 0.0
        return {"kl": kl, "kl_scale": float(self.epoch_kl_scale), "learning_rate": self.rate}

    def explain(self, where: str, value: float) -> str:
        return (
            f"the loss is {value} in {where}, at learning rate {self.rate:g}. Lower the learning rate, check the data "
            "and the targets for NaN, or start from smaller initial weights. The last checkpoint, if there is one, is "
            "from before."
        )
