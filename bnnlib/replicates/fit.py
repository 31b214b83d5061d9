"""Training of a stack: one optimizer, one permutation of the rows an epoch, every replicate on its own data."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from bnnlib._checks import check_count, check_positive
from bnnlib.replicates.network import StackedMLP

StepHook = Callable[[StackedMLP, int], None]
EpochHook = Callable[[StackedMLP, int, torch.optim.Optimizer], None]


def gaussian_nll(output: Tensor, target: Tensor) -> Tensor:
    """-log N(target; output, 1) averaged over the batch and summed over replicates, without its constant."""
    return 0.5 * (output - target).square().sum() / target.shape[1]


class Divergence(FloatingPointError):
    """Some replicates' weights stopped being finite."""


def check_finite(model: StackedMLP, epoch: int, learning_rate: float) -> None:
    """Raise when a replicate has diverged.

    Raises:
        Divergence: names the replicates, the epoch and the learning rate.
    """
    state = torch.cat([parameter.detach() for parameter in model.posterior.parameters()], dim=1)
    bad = (~state.isfinite().all(dim=1)).nonzero().flatten().tolist()
    if bad:
        raise Divergence(
            f"After epoch {epoch} the parameters of replicates {bad} are NaN or infinite. Lower the learning rate (now "
            f"{learning_rate:g}) or check their data for NaN; the other replicates are not affected."
        )


def fit_stacked(
    model: StackedMLP,
    x: Tensor,
    y: Tensor,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    generator: torch.Generator | None = None,
    kl_scale: float = 1.0,
    after_step: StepHook | None = None,
    after_epoch: EpochHook | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    first_epoch: int = 0,
) -> torch.optim.Optimizer:
    """Minimize mean NLL + kl_scale * KL / n for all replicates at once, by Adam.

    The gradient of a replicate depends on its own data and weights only, so the stack trains as the networks would
    alone. Rows are visited in one random order an epoch, shared by the replicates, whose data are independent anyway.

    Args:
        model: the stack.
        x: inputs, shape (n, R, inputs): rows first, so that a batch is gathered as contiguous memory.
        y: targets, shape (n, R, outputs).
        epochs, batch_size, learning_rate: of the training; the last batch of an epoch may be smaller.
        generator: of permutations and noise, on the model's device.
        kl_scale: 1 for the exact negative ELBO (svb-elbo); below 1 the posterior is tempered.
        after_step: called as after_step(model, step); pruning schedules hang here.
        after_epoch: called as after_epoch(model, epoch, optimizer) once an epoch; checkpoints and curves hang here.
        optimizer, first_epoch: to go on from a checkpoint.

    Returns:
        The optimizer, whose state a checkpoint needs.

    Raises:
        ValueError: shapes do not fit, or a count or rate is not positive.
        Divergence: a replicate's parameters stopped being finite.
    """
    check_count("epochs", epochs)
    check_count("batch_size", batch_size)
    check_positive("learning_rate", learning_rate)
    if x.dim() != 3 or y.dim() != 3 or x.shape[:2] != y.shape[:2] or x.shape[1] != model.replicates:
        raise ValueError(
            f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}, but they must be "
            f"(n, {model.replicates}, inputs) and (n, {model.replicates}, outputs): "
            "stack your data sets along the second dimension."
        )
    n, fuses = len(x), model.posterior.fuses_kl
    optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
    batch_x, batch_y = (t.new_empty(min(batch_size, n), *t.shape[1:]) for t in (x, y))
    steps_per_epoch = -(-n // batch_size)
    model.train()
    for epoch in range(first_epoch, epochs):
        order = torch.randperm(n, generator=generator, device=x.device)
        for k, rows in enumerate(order.split(batch_size)):
            # into a buffer: a fresh allocation of this size costs more in page faults than the copy itself
            bx = torch.index_select(x, 0, rows, out=batch_x[: len(rows)]).transpose(0, 1)
            by = torch.index_select(y, 0, rows, out=batch_y[: len(rows)]).transpose(0, 1)
            loss = gaussian_nll(model(bx, generator, kl_scale / n if fuses else 0.0), by)
            if not fuses and kl_scale:
                loss = loss + kl_scale / n * model.posterior.kl_divergence().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if after_step:
                after_step(model, epoch * steps_per_epoch + k)
        if epoch % 10 == 9 or epoch == epochs - 1:
            check_finite(model, epoch, learning_rate)
        if after_epoch:
            after_epoch(model, epoch, optimizer)
    model.eval()
    return optimizer
