"""What is no neural network: the lasso, forests, boosting and knockoffs, on simulations and on UCI sets."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.covariance import LedoitWolf
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LassoCV

from bnnlib import metrics
from bnnlib.contest import Problem, predictive_nll
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, rows_of
from chapters.side_by_side.arena import Task
from chapters.side_by_side.tables import TASKS, selection

RATE = 0.2  # of false discoveries; five relevant inputs cannot be found at less, since 1 / 5 is added to the estimate
Fitted = tuple[Callable[[np.ndarray], np.ndarray] | None, np.ndarray | None]


def lasso(x: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    """The lasso, its penalty by five-fold cross-validation."""
    model = LassoCV(max_iter=10_000, random_state=seed).fit(x, y)
    return model.predict, model.coef_ != 0.0


def random_forest(x: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    """A random forest of 200 trees that try a third of the inputs at each split; it selects none."""
    forest = RandomForestRegressor(200, max_features=1 / 3, min_samples_leaf=5, random_state=seed, n_jobs=1)
    return forest.fit(x, y).predict, None


def gradient_boosting(x: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    """Boosted trees on histograms, stopped by a tenth of their training rows."""
    return HistGradientBoostingRegressor(early_stopping=True, random_state=seed).fit(x, y).predict, None


def knockoffs(x: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    """Model-X knockoffs of Candes et al. (2018) for normal inputs, with the lasso's coefficients as statistics."""
    doubled = np.hstack([x, knockoff_copies(x, np.random.default_rng(seed))])
    weights = np.abs(LassoCV(max_iter=10_000, random_state=seed).fit(doubled, y).coef_)
    return None, knockoff_filter(weights[: x.shape[1]] - weights[x.shape[1] :], RATE)


def knockoff_copies(x: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Copies (n, p) with the joint law of the inputs but for what they say of the target: equicorrelated knockoffs."""
    covariance = LedoitWolf().fit(x).covariance_
    scales = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(scales, scales)
    s = np.diag(min(1.0, 1.999 * np.linalg.eigvalsh(correlation)[0]) * scales**2)
    inverse = np.linalg.solve(covariance, s)
    centered = x - x.mean(axis=0)
    spread = np.linalg.cholesky(2.0 * s - s @ inverse + 1e-10 * np.eye(len(s)))
    return x.mean(axis=0) + centered - centered @ inverse + random.standard_normal(x.shape) @ spread.T


def knockoff_filter(statistics: np.ndarray, rate: float) -> np.ndarray:
    """Inputs whose statistic passes the lowest threshold at which the estimated rate of false discoveries is kept.

    Example:
        >>> int(knockoff_filter(np.array([5.0, 4.0, 3.0, 2.0, 1.0, -0.5, 0.2]), 0.2).sum())
        5
    """
    for threshold in np.sort(np.abs(statistics[statistics != 0.0])):
        passed = statistics >= threshold
        if (1 + (statistics <= -threshold).sum()) / max(1, passed.sum()) <= rate:
            return passed
    return np.zeros(len(statistics), dtype=bool)


RIVALS: dict[str, Callable[..., Fitted]] = {
    one.__name__: one for one in (lasso, random_forest, gradient_boosting, knockoffs)
}


def scored(
    rival: str, task: str, replicate: int, params: dict[str, Any], tasks: Mapping[str, Task] = TASKS
) -> dict[str, float]:
    """All metrics of one rival; the noise's variance is fitted on the validation rows, as for the networks."""
    data = tasks[task].load(replicate, "cpu", params)
    problem: Problem = data["problem"]
    began = time.process_time()
    predict, selected = RIVALS[rival](problem.x.numpy(), problem.y[:, 0].numpy(), replicate)
    found = {"seconds": time.process_time() - began}
    if predict is not None:
        x, y, *truth = data["test"]()
        f = truth[0] if truth else y * data["scale"] + data["mean"]
        held, outputs = (
            torch.from_numpy(predict(one.numpy())).float()[None, :, None] for one in (problem.x_validation, x)
        )
        variance = float((held[0] - problem.y_validation).square().mean())
        found["rmse"] = float(metrics.rmse(outputs[0] * data["scale"] + data["mean"], f))
        found["nll"] = float(predictive_nll(outputs, y, variance)) + math.log(data["scale"])
        found["crps"] = data["scale"] * float(metrics.crps(outputs[:, :2000], y[:2000], math.sqrt(variance)))
    known = selected is not None and task in TASKS  # which inputs matter
    return found | selection(torch.from_numpy(selected)) if known else found


def run_cell(
    cell: Cell,
    device: torch.device,
    checkpoint: Checkpoint | None = None,
    products: Sequence[dict[str, Any]] = (),
    tasks: Mapping[str, Task] = TASKS,
) -> CellResult:
    """One rival on one simulation or table, as scikit-learn sets it."""
    rows = []
    for replicate in cell.replicates:
        found = scored(cell.method, cell.params["task"], replicate, cell.params, tasks)
        rows += rows_of(cell, found, replicate=replicate)
    return CellResult(rows)
