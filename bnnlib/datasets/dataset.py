"""The container that every loader returns, its validation split and its standardization."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Scaling:
    """What `standardize` subtracted and divided by, so that errors can be reported in the units of the data.

    Shapes: `x_mean` and `x_scale` are one row of x; `y_mean` and `y_scale` one row of y, or None for class labels.

    Example:
        >>> scaling = standardize(load("diabetes")).scaling
        >>> scaling.x_mean.shape, scaling.unscale_y(torch.zeros(1, 1)).shape
        (torch.Size([10]), torch.Size([1, 1]))
    """

    x_mean: Tensor
    x_scale: Tensor
    y_mean: Tensor | None = None
    y_scale: Tensor | None = None

    def unscale_y(self, y: Tensor) -> Tensor:
        """Targets or predictions of shape (..., 1) back in the units of the data."""
        if self.y_mean is None or self.y_scale is None:
            raise ValueError("The targets are class labels and were not scaled: use them as they are.")
        return y * self.y_scale.to(y) + self.y_mean.to(y)


@dataclass(frozen=True, repr=False)
class Dataset:
    """Training and test rows of one data set, with where they come from.

    Args:
        name: title to print beside a result; a copy that is not the published set says so here.
        train_x, test_x: float32; images are (N, C, H, W) in [0, 1], tables (N, features) in the data's own units.
        train_y, test_y: class labels int64 (N,), or regression targets float32 (N, 1) in the data's own units.
        task: "classification" or "regression".
        info: JSON-able facts: registry name, license, citation, note, fingerprint, split.
        scaling: set by `standardize`.

    Raises:
        ValueError: inputs and targets differ in their number of rows, or the task is neither of the two.

    Example:
        >>> data = load("diabetes")
        >>> data.train_x.shape, data.train_y.shape, data.task
        (torch.Size([354, 10]), torch.Size([354, 1]), 'regression')
    """

    name: str
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    task: str
    info: dict[str, Any] = field(default_factory=dict)
    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        if self.task not in ("classification", "regression"):
            raise ValueError(f"task is {self.task!r}, but it must be 'classification' or 'regression'.")
        for part, x, y in (("train", self.train_x, self.train_y), ("test", self.test_x, self.test_y)):
            if len(x) != len(y):
                raise ValueError(f"{part}_x has {len(x)} rows and {part}_y has {len(y)}; they must be the same rows.")

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.train_x.shape[1:]))
        rows = f"{len(self.train_x)} train + {len(self.test_x)} test rows of {shape}"
        return f"Dataset({self.name!r}, {self.task}, {rows})"

    def validation_split(self, size: float | int, *, generator: torch.Generator) -> tuple[Dataset, Dataset]:
        """Hold some training rows out, for choosing settings without looking at the test rows.

        Both results train on the same kept rows. `train` keeps the test rows, for the one final measurement;
        `validation` has the held-out rows in their place, for code that trains on `train_x` and scores on `test_x`.

        Args:
            size: rows to hold out, as a count (int) or as a fraction of the training rows (float).
            generator: source of the random choice.

        Returns:
            (train, validation).

        Raises:
            ValueError: nothing or everything would be held out, or the data are already standardized.
        """
        rows = len(self.train_x)
        fraction = isinstance(size, float) and 0 < size < 1
        count = round(size * rows) if fraction else size
        if not isinstance(count, Integral) or isinstance(size, bool) or not 0 < count < rows:
            raise ValueError(
                f"size is {size!r}, which is not a part of {rows} training rows. "
                f"Pass a fraction strictly between 0 and 1, or a count from 1 to {rows - 1}."
            )
        if self.scaling is not None:
            raise ValueError(
                "The data are standardized with statistics that include the rows to hold out. "
                "Split first, then call standardize on each of the two results."
            )
        order = torch.randperm(rows, generator=generator, device=generator.device).to(self.train_x.device)
        held, kept = order[:count], order[count:]

        def info(role: str) -> dict[str, Any]:
            return {**self.info, "validation_split": {"held_out": count, "kept": rows - count, "role": role}}

        train = replace(self, train_x=self.train_x[kept], train_y=self.train_y[kept], info=info("train"))
        held_out = {"test_x": self.train_x[held], "test_y": self.train_y[held]}
        return train, replace(train, **held_out, info=info("validation"))


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    wide = x.double()
    mean, scale = wide.mean(0), wide.std(0, correction=0)
    # Constant columns are found by comparison: rounding in their mean would leave a tiny scale that blows noise up.
    scale = torch.where(x.amax(0) == x.amin(0), torch.ones_like(scale), scale)
    return mean.to(x.dtype), scale.to(x.dtype)


def standardize(dataset: Dataset) -> Dataset:
    """Center and scale with the mean and standard deviation (divisor N) of the training rows alone.

    Inputs are scaled column by column; a column that is constant over the training rows is only centered.
    Regression targets are scaled too; class labels are left alone. `result.scaling.unscale_y` takes predictions
    back to the data's units.

    Raises:
        ValueError: the data are standardized already, or have no training rows.

    Example:
        >>> data = standardize(load("diabetes"))
        >>> bool(data.train_x.mean(dim=0).abs().max() < 1e-5)
        True
    """
    if dataset.scaling is not None:
        raise ValueError(f"{dataset.name} is standardized already; use it as it is.")
    if len(dataset.train_x) == 0:
        raise ValueError(f"{dataset.name} has no training rows to take the mean and the standard deviation from.")
    x_mean, x_scale = _moments(dataset.train_x)
    scaled = {part: (getattr(dataset, part) - x_mean) / x_scale for part in ("train_x", "test_x")}
    y_mean = y_scale = None
    if dataset.task == "regression":
        y_mean, y_scale = _moments(dataset.train_y)
        scaled |= {part: (getattr(dataset, part) - y_mean) / y_scale for part in ("train_y", "test_y")}
    return replace(dataset, **scaled, scaling=Scaling(x_mean, x_scale, y_mean, y_scale))
