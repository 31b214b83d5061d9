"""Measures of the examples."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from book.lab.cells import Cell
from chapters.adaptive_optimizer.problems import Problem


def scores(problem: Problem, output: Tensor, data: dict[str, Tensor]) -> dict[str, Tensor]:
    """Test errors of outputs (R, m), one value a network."""
    y = data["test_y"]
    if problem.classify:
        right = 100.0 * ((output > 0) == (y > 0.5)).double().mean(dim=1)
        return {"accuracy": right, "nll": F.binary_cross_entropy_with_logits(output, y, reduction="none").mean(dim=1)}
    excess = (output - data["test_f"]).square().mean(dim=1)
    return {"mse_test": (output - y).square().mean(dim=1), "excess_mse": excess}


def selection(problem: Problem, selected: Tensor) -> dict[str, Tensor]:
    """How the selected inputs (R, p) agree with those that matter, one value a network."""
    wrong = selected[:, problem.relevant :].sum(dim=1)
    missed = (~selected[:, : problem.relevant]).sum(dim=1)
    return {
        "exact_selection": 100.0 * ((wrong == 0) & (missed == 0)).double(),
        "false_positives": wrong.double(),
        "false_negatives": missed.double(),
    }


def traces(cell: Cell, trace: list[Tensor]) -> dict[str, Any]:
    """Epochs (T,), test errors (T, R) and zeros in percent (T, R) of a training."""
    epochs, error, zeros = torch.stack(trace, dim=1)
    name = cell.method
    values = {"epochs": epochs[:, 0].int(), "error": error.half(), "zeros": zeros.half()}
    return {f"trace/{name}/{kind}": value.numpy() for kind, value in values.items()}


MARKS = (100, 150, 200, 500, 600, 800, 1000, 1500, 2000)  # epochs that the published notebooks are quoted at


def near_marks(arrays: Mapping[tuple[str, str, int, str], np.ndarray]) -> list[dict[str, Any]]:
    """Rows with test error and zeros of the published method at the stored epochs nearest to the published ones.

    Args:
        arrays: of `traces` among others, by (setting, method, replicate, name).
    """
    rows = []
    for (setting, method, first, name), epochs in arrays.items():
        if name == "trace/AVO/epochs":
            for kind in ("error", "zeros"):
                trace = arrays[setting, method, first, f"trace/AVO/{kind}"]
                for mark in MARKS:
                    values = trace[np.abs(epochs - mark).argmin()]
                    row = {"setting": setting, "method": method, "metric": f"{kind}_near_{mark}"}
                    rows += [row | {"replicate": first + k, "value": float(v)} for k, v in enumerate(values)]
    return rows
