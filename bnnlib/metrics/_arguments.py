"""Checks of what a metric is given; their messages say what was given, what is allowed and what to do."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

Dims = int | tuple[int, ...] | None
Metric = TypeVar("Metric", bound=Callable[..., Any])


def of_arrays(metric: Metric) -> Metric:
    """The metric, of NumPy's arrays and of lists too."""
    parameters = inspect.signature(metric).parameters
    arrays = {name for name, one in parameters.items() if "Tensor" in str(one.annotation)}

    def tensor(name: str, value: Any) -> Any:
        given = isinstance(value, list | tuple) or hasattr(value, "__array__")
        if name not in arrays or isinstance(value, Tensor) or not given:
            return value
        # a copy, in double precision where Python's numbers are, whatever the strides and the order of bytes
        array = np.array(value, order="C")
        if array.dtype.kind not in "biufc":
            raise TypeError(
                f"{name} holds {array.dtype.name}, but a metric is of numbers. Labels are those of their classes: "
                "numpy.unique(labels, return_inverse=True)[1]."
            )
        native = np.int64 if array.dtype.kind == "u" else array.dtype.newbyteorder("=")
        return torch.from_numpy(array.astype(native, copy=False))

    @functools.wraps(metric)
    def of(*args: Any, **named: Any) -> Any:
        known = [tensor(*pair) for pair in zip(parameters, args, strict=False)]
        return metric(*known, *args[len(known) :], **{name: tensor(name, value) for name, value in named.items()})

    return of  # type: ignore[return-value]


def check_same_shape(name: str, value: Tensor, other_name: str, other: Tensor) -> None:
    """Refuse two tensors whose shapes differ, or which are empty."""
    if value.shape != other.shape:
        raise ValueError(
            f"{name} has shape {tuple(value.shape)} and {other_name} {tuple(other.shape)}, but they must be equal: a "
            "pair such as (n,) and (n, 1) would be broadcast to (n, n) without a word. Reshape one of them."
        )
    if value.numel() == 0:
        raise ValueError(f"{name} is empty, and the mean over nothing is not a number. Pass at least one value.")


def check_finite(name: str, value: Tensor) -> None:
    """Refuse a tensor with NaN or infinite entries."""
    if not torch.isfinite(value).all():
        bad = int((~torch.isfinite(value)).sum())
        raise ValueError(
            f"{name} has {bad} NaN or infinite entries of {value.numel()}, so no metric of it means anything. "
            "Look for a diverged training run (lower the learning rate) or for missing values in the data."
        )


def check_labels(labels: Tensor, scores: Tensor, name: str) -> None:
    """Refuse scores that are not finite (n, classes), and labels that are not (n,) class numbers."""
    if scores.dim() != 2 or labels.shape != scores.shape[:1] or labels.numel() == 0:
        raise ValueError(
            f"{name} has shape {tuple(scores.shape)} and labels {tuple(labels.shape)}, but they must be (n, classes) "
            "and (n,) with n > 0. Average draws over their dimension first."
        )
    if labels.is_floating_point() or labels.dtype == torch.bool:
        raise ValueError(f"labels have type {labels.dtype}, but they must be integer class numbers. Use labels.long().")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= scores.shape[1]:
        raise ValueError(f"labels run from {low} to {high}, but {name} has classes 0 to {scores.shape[1] - 1} only.")
    check_finite(name, scores)


def check_distributions(probabilities: Tensor, labels: Tensor | None = None) -> None:
    """Refuse what is not (n, classes) rows of probabilities, and labels, where given, that do not fit them."""
    if labels is not None:
        check_labels(labels, probabilities, "probabilities")
    elif probabilities.dim() != 2 or probabilities.numel() == 0:
        raise ValueError(
            f"probabilities have shape {tuple(probabilities.shape)}, but it must be (n, classes) with n > 0. Average "
            "draws over their dimension first."
        )
    check_finite("probabilities", probabilities)
    totals = probabilities.sum(dim=1, dtype=max(probabilities.dtype, torch.float32, key=lambda kind: kind.itemsize))
    rounding = 4e-3 if probabilities.dtype is torch.bfloat16 else 1e-3
    if (probabilities < 0).any() or not torch.allclose(totals, torch.ones_like(totals), atol=rounding):
        raise ValueError(
            f"probabilities have entries from {probabilities.min().item():g} and rows that sum to values from "
            f"{totals.min().item():g} to {totals.max().item():g}, but rows must be non-negative and sum to 1. "
            "Pass logits.softmax(dim=1)."
        )


def floating(values: Tensor) -> Tensor:
    """Whole numbers as float64, all else as it is."""
    return values if values.is_floating_point() else values.double()
