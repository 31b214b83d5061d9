"""A training loop that resumes bit for bit, survives Ctrl-C and says what went wrong."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import CyclicLR, LRScheduler, OneCycleLR, ReduceLROnPlateau

from bnnlib._callbacks import Callback, CheckpointLike, Run
from bnnlib._checks import DivergedError, check_count, check_non_negative
from bnnlib._noise import fold
from bnnlib.nn.base import StochasticLayer
from bnnlib.nn.objective import elbo_loss, kl_divergence, minibatch_weights
from bnnlib.sampling.base import Sampler
from bnnlib.sampling.samples import at_a_draw
from bnnlib.train.batches import Data
from bnnlib.train.checks import check_no_posterior, check_observations
from bnnlib.train.loop import Loop
from bnnlib.train.resume import warn_of_change
from bnnlib.train.validation import Validation

EpochFunction = Callable[[int], float]
_VALIDATION = 2**62  # a number that no step has
_BY_STEP = (OneCycleLR, CyclicLR)  # they count steps, as their documentation has it


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
    data: Data,
    *,
    epochs: int | None = None,
    batch_size: int | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    kl_scale: float | EpochFunction = 1.0,
    minibatch_scheme: str = "uniform",
    schedule: EpochFunction | LRScheduler | None = None,
    validation: Data | None = None,
    validation_draws: int = 8,
    max_steps: int | None = None,
    max_seconds: float | None = None,
    num_data: int | None = None,
    augment: Callable[..., Tensor] | None = None,
    autocast: torch.dtype | None = None,
    channels_last: bool = False,
    generator: torch.Generator | None = None,
    shuffle_generator: torch.Generator | None = None,
    keyed: bool = True,
    checkpoint: str | Path | CheckpointLike | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = False,
) -> Run:
    """Minimize mean loss + kl_scale * KL / n over mini-batches, equation (svbnn-elbo) when `loss` is a mean NLL.

    Args:
        model: with layers of `bnnlib.nn`, or a deterministic network, which has no KL term; in `train()` meanwhile, and
            each module in its own mode again afterwards.
        data: (x, y), two tensors, rows first, which are moved to the model's device once; or a `Dataset` of such pairs
            or a `DataLoader` of such batches, from `torch.utils.data`, whose batches are moved one by one.
        epochs: to reach in total; a run that resumes at epoch 30 of 80 does 50 more. None leaves it to the budgets.
        batch_size: rows in a step; the last batch of an epoch may be smaller. A loader has its own.
        optimizer: over the model's parameters; by default Adam with learning rate 1e-3, fused unless keyed=False.
            `bnnlib.optim.AdaptiveVariational(form="natural")` gets its gradients at a draw; a `SampleStore` among the
            callbacks keeps draws.
        loss: called as loss(model(x), y), whatever the model returns; gives the negative log-likelihood of a row, in
            nats, summed over its outputs and averaged over the batch, as a scalar; by default cross-entropy. Numbers
            need another: torch.nn.functional.mse_loss is that of one output whose noise has variance 1/2, and
            lambda o, y: (o - y).square().sum(-1).mean() / (2 * variance) that of any variance and number of outputs.
        kl_scale: 1 for the exact objective, below 1 for a tempered one, or a function of the epoch (from 0) to warm up.
        minibatch_scheme: how an epoch's batches share the KL term, equation (sbnn-minibatch): "uniform" in
            proportion to their rows, or "halving", most of it on the first few.
        schedule: function of the epoch (from 0), by which every group's initial learning rate is multiplied; or a
            scheduler of `torch.optim.lr_scheduler`, stepped after every epoch (OneCycleLR and CyclicLR after every
            step, ReduceLROnPlateau with the validation loss). After a function's run the groups have their initial
            rates again; None leaves them to others.
        validation, validation_draws: rows that are held out, as `data`; after each epoch the history has their mean
            loss, "validation_nll", by the labels that count and their weights where the loss is PyTorch's for classes.
            Of a network with draws it is that of the predictive averaged over so many: of the mean probability where
            the loss is PyTorch's cross-entropy, NLL or binary cross-entropy of logits, else of the mean output. The
            draws are the same after every epoch, and the training that of a run without validation.
        max_steps, max_seconds: further bounds of the run in total, in steps and by the clock; the step under way is
            completed. A run that resumes with a larger one goes on.
        num_data: n, by default the rows of the data set, or those that a loader's SubsetRandomSampler or list of
            indices chooses; with a sampler of another kind, which may choose fewer, the data set's with a warning. A
            stream without a length needs it, and so does a loader with batch_size=None. Where the loss ignores labels,
            give the number of the others: beside their mean the KL term would weigh too little.
        augment: called as augment(x, generator=...) on every batch of inputs.
        autocast: dtype of the forward pass, for example torch.bfloat16; parameters, loss and noise keep theirs. A
            processor without AVX-512 convolves in bfloat16 several times slower.
        channels_last: memory format of images, the faster one for convolutions; the model is converted in place.
        generator: of the batches and of the layers' noise, on the model's device; by default PyTorch's own.
        shuffle_generator: of the order of rows alone, on the model's device, so that two models see the same batches
            whatever noise they draw; None takes it from `generator`. A loader draws its own order.
        keyed: draw each step's noise by a key of the run and the step, as `bnnlib.nn.redraw` does, so that gradient
            checkpointing, an activation memory budget and second derivatives see one draw, and a layer that runs twice
            in a step too; the order of rows is that of a deterministic network. With False each pass draws from the
            generator anew, as older versions do.
        checkpoint: a file's path or a `Checkpoint`; read before the first step, written when it is due, at the end and
            on Ctrl-C. It holds model, optimizer, scheduler, random state, position within the epoch and callbacks: the
            resumed run is the uninterrupted one bit for bit, where all randomness is PyTorch's. A loader with its
            samplers, or one that has a `generator`, is started again and passes over the batches that are done; what
            workers draw that stay (persistent_workers=True) is lost. A stream, or another sampler, goes on from the end
            of an epoch. A run with other settings of layers, such as the prior's, or another kind of optimizer is
            refused; another learning rate or constant kl_scale is told. The loss, the values of the data and functions
            are not compared: another run needs another file.
        callbacks: see `Callback`; `EarlyStopping` is one.
        progress: a bar on stderr, where tqdm is installed.

    Returns:
        The `Run`, with the history of all epochs, those before a resume included.

    Raises:
        ValueError: an argument does not fit, an optimizer that draws has the parameters of a Bayesian layer, or nothing
            bounds the run.
        TypeError: the model of a validation with draws returns no tensor.
        DivergedError: the loss, or that of the validation, is NaN or infinite. On a CPU the step that would have used
            it is not taken; the checkpoint is not written.
        KeyboardInterrupt: on Ctrl-C, once the step under way is complete and the checkpoint written. The parameters are
            posterior means and scales throughout, never a draw.

    Warns:
        UserWarning: a loss of one's own seems to be a sum over the rows; the optimizer or its prior has another
            `num_data`; the checkpoint has another learning rate or kl_scale; the number of rows is in doubt.

    Example:
        >>> from bnnlib.nn import SpikeSlabLinear
        >>> x, model = torch.randn(256, 5), SpikeSlabLinear(5, 1, prior_inclusion_probability=0.01)
        >>> data, adam = (x, x[:, :1]), torch.optim.Adam(model.parameters(), lr=0.05)
        >>> run = fit(model, data, epochs=20, batch_size=64, loss=torch.nn.functional.mse_loss, optimizer=adam)
        >>> run.epoch, run.history[-1]["nll"] < run.history[0]["nll"]
        (20, True)
    """
    scheduler, factors = (schedule, None) if isinstance(schedule, LRScheduler) else (None, schedule)
    if optimizer is None:
        optimizer = scheduler.optimizer if scheduler else _adam(model, keyed)
    if getattr(optimizer, "takes_energy", False) and any(group["temperature"] for group in optimizer.param_groups):
        raise ValueError(
            f"{type(optimizer).__name__} takes the gradient of the energy, n times that of fit's mean loss: "
            "at temperature 1 its draws would be sqrt(n) times too far apart. Use bnnlib.train.sample(...)."
        )
    if isinstance(optimizer, Sampler) and any(group["temperature"] for group in optimizer.param_groups):
        check_no_posterior(model, optimizer)
    loop = _Descent(
        model,
        optimizer,
        data,
        batch_size,
        loss=loss,
        augment=augment,
        autocast=autocast,
        channels_last=channels_last,
        generator=generator,
        shuffle_generator=shuffle_generator,
        num_data=num_data,
        checkpoint=checkpoint,
        callbacks=callbacks,
    )
    check_observations(loop.num_data, optimizer, getattr(optimizer, "prior", None))
    loop.kl_scale, loop.schedule, loop.scheduler = kl_scale, factors, scheduler
    loop.share_kl(minibatch_scheme)
    loop.keyed = keyed
    if validation is not None:
        loop.validation = Validation(validation, validation_draws, loop.batches.size or 1024, loss)
    if scheduler and scheduler.optimizer is not optimizer:
        raise ValueError(
            "the scheduler is of another optimizer, and would change nothing here. Make it from the one that fit gets."
        )
    if isinstance(scheduler, ReduceLROnPlateau) and validation is None:
        raise ValueError("ReduceLROnPlateau goes by the validation loss, but there is none. Give validation=(x, y).")
    try:
        return loop.go(epochs, progress, max_steps, max_seconds)
    finally:
        if factors is not None:
            loop.put_back_rates()


def _adam(model: nn.Module, fused: bool) -> torch.optim.Adam:
    # on a CPU its fused sweep over the weights takes less than half the time
    fused = fused and all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in model.parameters())
    return torch.optim.Adam(model.parameters(), lr=1e-3, fused=fused or None)


class _Descent(Loop):
    """The loop with a step down the gradient of the negative ELBO."""

    kl_scale: float | EpochFunction
    schedule: EpochFunction | None
    scheduler: LRScheduler | None = None
    validation: Validation | None = None
    rate = 0.0  # of the first group, at the start of the epoch

    def share_kl(self, scheme: str) -> None:
        """Let the batches share the KL term, by their rows or in another way."""
        self.bayesian = any(isinstance(module, StochasticLayer) for module in self.run.model.modules())
        number = self.batches.number
        if number is None and scheme != "uniform":
            raise ValueError(
                f"minibatch_scheme={scheme!r} needs the number of batches in an epoch, which a stream does not know: "
                "use 'uniform', or give the data set a length."
            )
        weights = minibatch_weights(number or 1, scheme)
        self.kl_weights = None if scheme == "uniform" else weights.tolist()

    def start_epoch(self) -> None:
        scale = self.kl_scale(self.run.epoch) if callable(self.kl_scale) else self.kl_scale
        self.epoch_kl_scale = check_non_negative("kl_scale", scale)
        groups = self.run.optimizer.param_groups
        if self.schedule is None:
            self.rate = float(groups[0]["lr"]) if self.done == 0 else self.rate
            return
        factor = float(check_non_negative("schedule(epoch)", self.schedule(self.run.epoch)))
        for group, rate in zip(groups, self.initial_rates, strict=True):
            group["lr"] = rate * factor
        self.rate = self.initial_rates[0] * factor

    def put_back_rates(self) -> None:
        """The rates before the schedule, from which the optimizer's next run starts."""
        for group, rate in zip(self.run.optimizer.param_groups, self.initial_rates, strict=True):
            group["lr"] = rate

    def step(self, x: Tensor, y: Tensor) -> None:
        optimizer = self.run.optimizer
        with at_a_draw(optimizer):
            objective = self.mean_loss(x, y)
            if self.bayesian and self.epoch_kl_scale:
                factor = self.epoch_kl_scale
                if self.kl_weights is not None:
                    # a batch's loss is a mean over its rows: times n / rows it is that of the whole data set
                    factor *= self.kl_weights[self.done] * self.num_data / len(x)
                objective = elbo_loss(objective, self.run.model, self.num_data, factor, with_value=False)
            optimizer.zero_grad()
            objective.backward()
        if self.run.step == self._first_step and self.validation is not None and not self.plain:
            self.validation.check(self.run.model, self.forward, x)  # the passes of the objective are over
        optimizer.step()
        if isinstance(self.scheduler, _BY_STEP):
            self.scheduler.step()

    def row(self) -> dict[str, float]:
        kl = float(kl_divergence(self.run.model).detach()) if self.bayesian else 0.0
        row = {"kl": kl, "kl_scale": float(self.epoch_kl_scale), "learning_rate": self.rate}
        if self.validation is not None:
            seed = fold(self.noise_seed, _VALIDATION)
            value = self.validation(self.run.model, lambda x: self.forward(self.in_format(x)), self.device, seed)
            if not math.isfinite(value):
                where = f"the validation after epoch {self.run.epoch}"
                raise DivergedError(self.explain(where, value), where, value)
            row["validation_nll"] = value
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(row["validation_nll"])
        elif self.scheduler is not None and not isinstance(self.scheduler, _BY_STEP):
            self.scheduler.step()
        return row

    def memory(self) -> dict[str, Any]:
        own: dict[str, Any] = {"rate": self.rate, "scheduled": self.schedule is not None}
        if not callable(self.kl_scale):
            own["kl_scale"] = float(self.kl_scale)
        return own if self.scheduler is None else own | {"scheduler": self.scheduler.state_dict()}

    def recall(self, state: dict[str, Any]) -> None:
        if ("scheduler" in state) != (self.scheduler is not None):
            one, other = ("a", "none") if "scheduler" in state else ("no", "one")
            raise ValueError(
                f"the checkpoint is of a run with {one} scheduler, but this one has {other}: it cannot go on from "
                "there. Use the same, or another checkpoint file."
            )
        before = state.get("kl_scale", self.kl_scale)
        if not callable(before) and not callable(self.kl_scale) and before != float(self.kl_scale):
            warn_of_change("kl_scale", before, self.kl_scale, "the epochs to come have the second.")
        self.rate = state.get("rate", self.initial_rates[0])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        elif state.get("scheduled", True):  # older ones wrote the initial rates back at every epoch
            self.put_back_rates()

    def explain(self, where: str, value: float) -> str:
        return (
            f"the loss is {value} in {where}, at learning rate {self.rate:g}. Lower the learning rate, check the data "
            "and the targets for NaN, or start from smaller weights. A checkpoint, if there is one, is from before."
        )
