"""All splits of one UCI set as a stack, in standardized units, and the scores in the data's own."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bnnlib import datasets, metrics
from bnnlib.replicates import GaussianLikelihood, StackedMLP, fit_stacked
from bnnlib.train.checkpoint import Checkpoint
from bnnlib.train.fit import cosine
from book.lab.cells import Cell
from chapters.shared.simulated import SIMULATED, simulated_split


@dataclass(frozen=True)
class Splits:
    """R splits of one set.

    Args:
        train_x, train_y: standardized training rows, shapes (n, R, p) and (n, R, 1), as `fit_stacked` takes them.
        test_x, test_y: standardized test (or held-out) rows, shapes (R, m, p) and (R, m, 1).
        y_scale: standard deviation of the training targets, shape (R, 1, 1), in the data's units.
    """

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    y_scale: Tensor

    def to(self, device: torch.device) -> Splits:
        """The same on a device."""
        return Splits(**{field.name: getattr(self, field.name).to(device) for field in fields(self)})

    def rmse(self, prediction: Tensor) -> Tensor:
        """Root mean squared error of predictions (R, m, 1) on the test rows, shape (R,), in the data's units."""
        return metrics.rmse(prediction * self.y_scale, self.test_y * self.y_scale, dim=(1, 2))

    def nll(self, log_density: Tensor) -> Tensor:
        """Mean negative log density of the test targets, in the data's units, from that in standardized ones (R, m)."""
        return -log_density.mean(dim=1) + self.y_scale[:, 0, 0].log()


def load_splits(name: str, splits: tuple[int, ...], held_out: float = 0.0) -> Splits:
    """The standard splits of a set; with `held_out`, that share of the training rows takes the place of the test rows.

    Which rows are held out depends on the split's number alone; the test rows are then not looked at, not even to
    standardize.
    """
    parts = []
    for split in splits:
        raw = simulated_split(split) if name == SIMULATED else datasets.load(name, split=split)
        if held_out:
            raw = raw.validation_split(held_out, generator=torch.Generator().manual_seed(split))[1]
        scaled = datasets.standardize(raw)
        columns = (scaled.train_y.reshape(-1, 1), scaled.test_y.reshape(-1, 1))
        parts.append((scaled.train_x, columns[0], scaled.test_x, columns[1], scaled.scaling.y_scale.reshape(1, 1)))
    train_x, train_y, test_x, test_y, y_scale = zip(*parts, strict=True)
    return Splits(
        torch.stack(train_x, dim=1),
        torch.stack(train_y, dim=1),
        torch.stack(test_x),
        torch.stack(test_y),
        torch.stack(y_scale),
    )


def reads(cell: Cell) -> list[partial]:
    """The calls of `load_splits` that a cell makes, for its probe: to choose on held-out rows, and on all rows."""
    shares = [cell.params["held_out"], 0.0] if "held_out" in cell.params else [0.0]
    return [partial(load_splits, cell.params["data"], cell.replicates, held_out=share) for share in shares]


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell, for its probe; Bayes by backpropagated moments has no learning rate."""
    epochs = cell.params["epochs"]
    return {} if cell.method == "PBP" else {"learning rate": (cosine(epochs), range(epochs))}


def fit_splits(
    model: StackedMLP,
    noise: GaussianLikelihood,
    data: Splits,
    copies: int,
    params: dict[str, Any],
    generator: torch.Generator,
    checkpoint: Checkpoint | None,
    kl_scale: float | Tensor,
) -> None:
    """Train a stack that holds `copies` networks for each split, the splits running first, with a cosine's rates."""
    fit_stacked(
        model,
        data.train_x.repeat(1, copies, 1),
        data.train_y.repeat(1, copies, 1),
        epochs=params["epochs"],
        batch_size=params["batch_size"],
        learning_rate=params["learning_rate"],
        generator=generator,
        checkpoint=checkpoint,
        loss=noise,
        kl_scale=kl_scale,
        schedule=cosine(params["epochs"]),
    )


def gaussian_scores(draws: Tensor, noise_scale: Tensor, data: Splits) -> dict[str, Tensor]:
    """RMSE and NLL on the test rows of the predictive mixture of N(draw, noise^2), each of shape (R,).

    Args:
        draws: outputs in standardized units, shape (draws, R, m, 1).
        noise_scale: standard deviations of the noise, shape (R,).
        data: holds the test rows.
    """
    scale = noise_scale.view(1, -1, 1)
    z = (data.test_y - draws).squeeze(-1) / scale
    log_density = -0.5 * z.square() - scale.log() - 0.5 * math.log(2.0 * math.pi)
    mixture = torch.logsumexp(log_density, dim=0) - math.log(len(draws))
    return {"rmse_test": data.rmse(draws.mean(0)), "nll_test": data.nll(mixture)}
