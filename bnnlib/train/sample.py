"""Sampling from a network's posterior with mini-batches, in the order of Algorithm 1 of Deng et al. (2019)."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib._callbacks import Callback, CheckpointLike, Run
from bnnlib._checks import check_count
from bnnlib.sampling.adaptive_prior import SpikeSlabGaussianLaplacePrior
from bnnlib.sampling.base import Sampler
from bnnlib.sampling.samples import SampleStore
from bnnlib.train.batches import Data
from bnnlib.train.checks import check_callbacks, check_no_posterior, check_observations, check_owner
from bnnlib.train.loop import Loop

StepFunction = Callable[[int], float]


def sample(
    model: nn.Module,
    data: Data,
    *,
    sampler: Sampler,
    epochs: int | None = None,
    max_steps: int | None = None,
    batch_size: int | None = None,
    prior: SpikeSlabGaussianLaplacePrior | None = None,
    num_data: int | None = None,
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    store: SampleStore | None = None,
    burn_in: int = 0,
    thin: int = 1,
    augment: Callable[..., Tensor] | None = None,
    lr_schedule: StepFunction | None = None,
    temperature_schedule: StepFunction | None = None,
    callbacks: Sequence[Callback] = (),
    generator: torch.Generator | None = None,
    checkpoint: str | Path | CheckpointLike | None = None,
    progress: bool = False,
    autocast: torch.dtype | None = None,
    channels_last: bool = False,
) -> Run:
    """Run a chain whose energy is num_data * mean loss + the prior's, equation (aeb-posterior), on mini-batches.

    A step: energy and gradient on a batch, the prior's gradient, `sampler.step()`, `prior.update()`, the callbacks in
    their order (a pruner among them), and the draw that goes to the store: Algorithm 1 of Deng et al. (2019).

    Args:
        model: what is sampled, in `train()` mode; afterwards it holds the last state of the chain.
        data: tensors, a data set or a loader, as for `fit`.
        sampler: over the model's parameters, an `SGLD` or `SGHMC` of `bnnlib.sampling`. Its generator draws the
            noise.
        epochs, max_steps, batch_size: as for `fit`.
        prior: gets `add_gradient_()` and `update()` in each step; in regression with the batch's scaled residuals at
            the new weights, which cost a second forward pass, where it learns sigma.
        num_data: N of the energy, by default the rows of the data.
        loss: as for `fit`, so that N times it is the negative log-likelihood of the data.
        store: is offered every `thin`-th state after the first `burn_in` iterations.
        burn_in, thin: in iterations (steps, not epochs).
        lr_schedule, temperature_schedule: functions of the iteration k = 1, 2, ..., as in `bnnlib.sampling.schedules`;
            they return the step size and the temperature themselves, for all groups of the sampler.
        callbacks: see `bnnlib.train.Callback`; `run.optimizer` is the sampler.
        generator: of the batches and the augmentation, on the model's device; by default PyTorch's own, from which
            `nn.Dropout` draws in any case.
        checkpoint: as for `fit`; it holds the sampler, the prior and the store too, so that the resumed run is the
            uninterrupted one bit for bit.
        augment, progress, autocast, channels_last: as for `fit`.

    Returns:
        The `bnnlib.train.Run`, whose history has a row an epoch {"epoch", "nll", "learning_rate", "temperature"},
        the last two as of the epoch's end.

    Raises:
        TypeError: the sampler is none, such as an optimizer of PyTorch.
        ValueError: a count, the data, the loss, a callback, the prior, the store or the checkpoint do not fit, or the
            sampler moves the parameters of a Bayesian layer.
        DivergedError: the loss is NaN or infinite; it names the step size. On a CPU the step that would have used it
            is not taken; the checkpoint is not written.
        KeyboardInterrupt: on Ctrl-C, once the step under way is complete and the checkpoint written.

    Warns:
        UserWarning: as `fit` does, of a loss of one's own, of the prior's `num_data` and of the checkpoint's step size.

    Example:
        >>> from bnnlib.sampling import SGHMC, SampleStore
        >>> x, model, store = torch.randn(256, 5), torch.nn.Linear(5, 1), SampleStore(max_samples=50)
        >>> sampler = SGHMC(model.parameters(), lr=1e-4)
        >>> nll = lambda o, y: (o - y).square().sum(-1).mean() / (2 * 0.1**2)
        >>> run = sample(model, (x, x[:, :1]), sampler=sampler, epochs=5, batch_size=64, loss=nll, store=store)
        >>> run.step, len(store)
        (20, 20)
    """
    if not isinstance(sampler, Sampler) or not sampler.takes_energy:
        raise TypeError(
            f"sampler is of type {type(sampler).__name__}, but a chain needs a sampler of bnnlib.sampling, which adds "
            "noise: SGHMC(model.parameters(), lr=1e-4) or SGLD. An optimizer trains by bnnlib.train.fit."
        )
    check_no_posterior(model, sampler)
    callbacks = check_callbacks(model, callbacks)
    check_owner(model, prior)
    check_count("burn_in", burn_in, minimum=0)
    check_count("thin", thin)
    if store is not None and any(callback is store for callback in callbacks):
        raise ValueError("the store is among the callbacks too, and would be offered every state twice: give it once.")
    if store is not None and (store.burn_in, store.every) != (0, 1):
        raise ValueError(
            f"the store has burn_in={store.burn_in} and every={store.every}, which hold where it is a callback. Give "
            f"burn_in={store.burn_in} and thin={store.every} to sample, and the store none."
        )
    loop = _Chain(
        model,
        sampler,
        data,
        batch_size,
        loss=loss,
        augment=augment,
        autocast=autocast,
        channels_last=channels_last,
        generator=generator,
        checkpoint=checkpoint,
        callbacks=(_Rows(), *callbacks, _Kept(prior, store, burn_in, thin)),
        num_data=num_data,
    )
    loop.prior = prior
    check_observations(loop.num_data, prior)
    loop.schedules = {"lr": lr_schedule, "temperature": temperature_schedule}
    return loop.go(epochs, progress, max_steps)


class _Rows(Callback):
    """The first of the callbacks: what the history says of a sampler."""

    def on_epoch(self, run: Run) -> None:
        group = run.optimizer.param_groups[0]
        run.history[-1] |= {"learning_rate": float(group["lr"]), "temperature": float(group["temperature"])}


class _Kept(Callback):
    """The last of the callbacks: what is kept of the chain, and the memory of prior and store."""

    def __init__(self, prior, store, burn_in: int, thin: int) -> None:
        self.prior, self.store, self.burn_in, self.thin = prior, store, burn_in, thin

    def on_step(self, run: Run) -> None:
        since = run.step - self.burn_in
        if self.store is not None and since > 0 and since % self.thin == 0:
            self.store.offer(run.model)

    def _parts(self) -> dict[str, Any]:
        return {name: part for name in ("prior", "store") if (part := getattr(self, name)) is not None}

    def state_dict(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self._parts().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if set(state) != set(self._parts()):
            raise ValueError(
                f"the checkpoint is of a chain with {sorted(state) or 'neither prior nor store'}, but this one has "
                f"{sorted(self._parts())}: it cannot go on from there. Use the same, or another checkpoint file."
            )
        for name, part in self._parts().items():
            part.load_state_dict(state[name])


class _Chain(Loop):
    """The loop with a step of Algorithm 1."""

    prior: SpikeSlabGaussianLaplacePrior | None
    schedules: dict[str, StepFunction | None]

    def step(self, x: Tensor, y: Tensor) -> None:
        sampler = self.run.optimizer
        for key, schedule in self.schedules.items():
            if schedule is not None:
                value = float(schedule(self.run.step + 1))
                for group in sampler.param_groups:
                    group[key] = value
        nll = self.mean_loss(x, y)
        sampler.zero_grad()
        (self.num_data * nll).backward()
        if self.prior is not None:
            self.prior.add_gradient_()
        sampler.step()
        if self.prior is not None:
            residuals = self.prior.likelihood == "regression" and "sigma" in self.prior.learned
            self.prior.update(self._squared_error(x, y) if residuals else None)

    @torch.no_grad()
    def _squared_error(self, x: Tensor, y: Tensor) -> Tensor:
        """I of (aeb-scale) at the weights just sampled, estimated by the step's batch."""
        model = self.run.model
        buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
        own = [m for m in model.modules() if type(m).set_extra_state is not nn.Module.set_extra_state]
        extra = [(module, copy.deepcopy(module.get_extra_state())) for module in own]
        outputs = self.outputs(x)
        for buffer, before in buffers:  # batch-norm layers have counted this batch already
            buffer.copy_(before)
        for module, count in extra:
            module.set_extra_state(count)
        if not isinstance(outputs, Tensor) or outputs.numel() != y.numel():
            given = f"have shape {tuple(outputs.shape)}" if isinstance(outputs, Tensor) else f"are {type(outputs)}"
            raise ValueError(
                f"the prior learns sigma from residuals, but the outputs {given} and the targets have shape "
                f"{tuple(y.shape)}. Give one output for each target, or leave 'sigma' out of its `update`."
            )
        return (outputs - y.reshape(outputs.shape)).square().sum() * (self.num_data / len(y))

    def explain(self, where: str, value: float) -> str:
        group = self.run.optimizer.param_groups[0]
        return (
            f"the chain has diverged at step size lr = {group['lr']:g}, temperature {group['temperature']:g}: the loss "
            f"is {value} in {where}. Lower lr (lr * num_data = {group['lr'] * self.num_data:g} is the learning rate of "
            "the mean loss), start from a trained network, or check the data for NaN."
        )
