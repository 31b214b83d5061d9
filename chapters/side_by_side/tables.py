"""The tasks with known truth: simulated regressions on which small networks are trained."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bnnlib import metrics
from bnnlib.contest import Predictor, Problem, predictive_nll
from bnnlib.models import mlp
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult
from chapters.shared import simulated
from chapters.side_by_side.arena import Data, Task, first_weights, run

HELD_OUT = 0.2
NUM_RELEVANT = 5


def correlated_teacher(num_samples: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """The sparse teacher of chapter 03 on inputs that are correlated by .9 with their neighbors, every 20th relevant.

    Returns:
        x (num_samples, 100), of which inputs 0, 20, 40, 60, 80 matter and are the first five columns here; y = f +
        noise and f (num_samples, 1).
    """
    x, _ = simulated.correlated_regression(num_samples, torch.zeros(100), generator, correlation=0.9)
    relevant = torch.arange(0, 100, 20)
    rest = torch.tensor([j for j in range(100) if j % 20])
    f = simulated.sparse_teacher_function(x[:, relevant] / math.sqrt(3.0)).unsqueeze(-1)
    return x[:, torch.cat([relevant, rest])], f + torch.empty_like(f).normal_(generator=generator), f


def load_simulated(draw, num_samples: int, batch_size: int, replicate: int, device, params=None) -> Data:
    """Standardized training and validation rows; the test rows are other draws of the same law."""
    x, y, _ = draw(num_samples, torch.Generator().manual_seed(1_000 + replicate))
    kept = num_samples - round(HELD_OUT * num_samples)
    means, scales = (x[:kept].mean(0), y[:kept].mean(0)), (x[:kept].std(0), y[:kept].std(0))
    x, y = ((one - mean) / scale for one, mean, scale in zip((x, y), means, scales, strict=True))
    parts = (part.to(device) for part in (x[:kept], y[:kept], x[kept:], y[kept:]))

    def test() -> tuple[Tensor, Tensor, Tensor]:
        rows = draw((params or {}).get("test_rows", 10_000), torch.Generator().manual_seed(999))
        x, y, f = rows
        return tuple(one.to(device) for one in ((x - means[0]) / scales[0], (y - means[1]) / scales[1], f))

    scale, mean = float(scales[1]), float(means[1])
    return {"problem": Problem(*parts, batch_size=batch_size), "test": test, "scale": scale, "mean": mean}


def errors(predictor: Predictor, x: Tensor, y: Tensor, truth: Tensor, data: Data, params: dict) -> dict[str, float]:
    """Errors of the predictive and of what is shipped, in the units of the target.

    Args:
        x, y: test rows, the targets standardized.
        truth: what RMSE compares with, in the units of the target: the function, or the targets.
    """
    outputs, scale = predictor.predict(x, params["draws"]), data["scale"]
    fitted = predictor.fitted_variance(params["draws"])
    found = {
        name: float(metrics.rmse(one.mean(0) * scale + data["mean"], truth))
        for name, one in (("rmse", outputs), ("rmse_shipped", predictor.shipped(x)))
    }
    for name, variance in (("nll", fitted), ("nll_as_trained", predictor.variance)):
        if not math.isnan(variance):  # as of a method that trains none
            found[name] = float(predictive_nll(outputs, y, max(variance, 1e-6))) + math.log(scale)
    found["crps"] = scale * float(metrics.crps(outputs[:, :2000], y[:2000], math.sqrt(fitted)))
    noise = torch.Generator(x.device).manual_seed(7)
    many = outputs.repeat(-(-1000 // len(outputs)), 1, 1)[:, :2000]
    found["coverage"] = float(metrics.coverage(many, y[:2000], noise_scale=math.sqrt(fitted), generator=noise))
    return found


def selection(selected: Tensor) -> dict[str, float]:
    """Rates in percent of the inputs that are selected, of which the first `NUM_RELEVANT` are relevant."""
    relevant = torch.arange(len(selected), device=selected.device) < NUM_RELEVANT
    return {
        "fpr": float(metrics.false_positive_rate(selected, relevant)),
        "fnr": float(metrics.false_negative_rate(selected, relevant)),
        "fdr": float(metrics.false_discovery_rate(selected, relevant)),
    }


def score_simulated(predictor: Predictor, data: Data, params: dict[str, Any]) -> dict[str, float]:
    """Errors to the true function, and what is selected of which inputs."""
    x, y, f = data["test"]()
    inclusion = predictor.inclusion()
    relevant = torch.arange(x.shape[1], device=x.device) < NUM_RELEVANT
    brier = float((inclusion - relevant.float()).square().mean())
    return errors(predictor, x, y, f, data, params) | selection(predictor.selected) | {"inclusion_brier": brier}


def _mlp(sizes: tuple[int, ...], activation: str, replicate: int) -> nn.Module:
    return mlp(sizes, activation, generator=first_weights(replicate))


SUMMARIES = {
    "simulation-2": "the second simulation of Bai, Song and Cheng (2020)",
    "sparse-teacher": "a sparse network as truth",
    "correlated": "a sparse network as truth with correlated inputs",
}
TASKS = {
    "simulation-2": Task(
        partial(load_simulated, simulated.simulation_two, 3000, 512),
        partial(_mlp, (200, 7, 7, 7, 1), "relu"),
        500,
        score_simulated,
    ),
    "sparse-teacher": Task(
        partial(load_simulated, simulated.sparse_teacher, 500, 128),
        partial(_mlp, (100, 6, 6, 1), "tanh"),
        500,
        score_simulated,
    ),
    "correlated": Task(
        partial(load_simulated, correlated_teacher, 500, 128),
        partial(_mlp, (100, 6, 6, 1), "tanh"),
        500,
        score_simulated,
    ),
}


def run_cell(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None, products: Sequence[dict[str, Any]] = ()
) -> CellResult:
    """One method on one simulation at one budget."""
    return run(TASKS[cell.params["task"]], cell, device, products)
