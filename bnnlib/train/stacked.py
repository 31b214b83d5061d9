"""Training of a stack inside an experiment: resumable, with a learning rate that may fall."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bnnlib.replicates.fit import Loss, fit_stacked, gaussian_nll, trainable
from bnnlib.replicates.network import StackedMLP
from bnnlib.train.checkpoint import Checkpoint


def fit_resumable(
    model: StackedMLP,
    x: Tensor,
    y: Tensor,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    generator: torch.Generator,
    checkpoint: Checkpoint | None = None,
    loss: Loss = gaussian_nll,
    kl_scale: float | Tensor = 1.0,
    schedule: Callable[[int], float] | None = None,
) -> None:
    """`fit_stacked` that goes on, bit for bit, where a killed run left its checkpoint.

    Args:
        checkpoint: of the cell, or anything with its load, due and save; None to start from the beginning always.
        schedule: of the epoch from 0; the learning rate is multiplied by it.
        others: as for `fit_stacked`.
    """
    optimizer = torch.optim.Adam(trainable(model, loss), lr=learning_rate, fused=True)
    parts: dict[str, nn.Module | torch.optim.Optimizer] = {"model": model, "optimizer": optimizer}
    if isinstance(loss, nn.Module):
        parts["loss"] = loss
    first_epoch, state = 0, checkpoint.load() if checkpoint else None
    if state:
        for name, part in parts.items():
            part.load_state_dict(state[name])
        generator.set_state(state["generator"])
        first_epoch = state["epoch"] + 1

    def rate(epoch: int) -> None:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * (schedule(epoch) if schedule else 1.0)

    def after_epoch(model: StackedMLP, epoch: int, optimizer: torch.optim.Optimizer) -> None:
        rate(epoch + 1)
        if checkpoint and checkpoint.due():
            saved = {name: part.state_dict() for name, part in parts.items()}
            checkpoint.save(saved | {"generator": generator.get_state(), "epoch": epoch})

    rate(first_epoch)
    fit_stacked(
        model,
        x,
        y,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        generator=generator,
        kl_scale=kl_scale,
        loss=loss,
        after_epoch=after_epoch,
        optimizer=optimizer,
        first_epoch=first_epoch,
    )
