"""The UCI regressions: nine sets with their standard splits."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from bnnlib import datasets
from bnnlib.contest import Predictor, Problem
from bnnlib.models import mlp
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult
from chapters.shared.simulated import SIMULATED, simulated_split
from chapters.side_by_side import rivals
from chapters.side_by_side.arena import TUNED_ON, Data, Task, first_weights, run
from chapters.side_by_side.tables import HELD_OUT, errors

# number of inputs; the sets of more than 2,000 rows have larger batches and more steps
SMALL = {"boston": 13, "concrete": 8, "energy": 8, "wine": 11, "yacht": 6}
LARGE = {"kin8nm": 8, "naval": 16, "power": 4, "protein": 9}
SPLITS = {"protein": 5}  # the others have 20


def rows(name: str, replicate: int) -> tuple[datasets.Dataset, datasets.Dataset]:
    """(train, validation) of a standard split, standardized by the kept rows; settings are tried on the last split."""
    split = SPLITS.get(name, 20) - 1 if replicate == TUNED_ON else replicate
    raw = simulated_split(split) if name == SIMULATED else datasets.load(name, split=split)
    parts = raw.validation_split(HELD_OUT, generator=torch.Generator().manual_seed(1_000 + split))
    return datasets.standardize(parts[0]), datasets.standardize(parts[1])


def load(task: str, batch_size: int, replicate: int, device, params: dict[str, Any] | None = None) -> Data:
    """A problem, and behind "test" the test rows."""
    train, held = rows((params or {}).get("data", task), replicate)
    x, held_x, test_x = (fitting(task, one).to(device) for one in (train.train_x, held.test_x, train.test_x))
    y, held_y, test_y = (one.reshape(-1, 1).to(device) for one in (train.train_y, held.test_y, train.test_y))
    problem = Problem(x, y, held_x, held_y, batch_size=batch_size)
    mean, scale = (float(one) for one in (train.scaling.y_mean, train.scaling.y_scale))
    return {"problem": problem, "test": lambda: (test_x, test_y), "mean": mean, "scale": scale}


def fitting(task: str, x: torch.Tensor) -> torch.Tensor:
    """Inputs of the simulated set, of which there are four, with as many zeros as the network of the task wants."""
    return nn.functional.pad(x, (0, (SMALL | LARGE)[task] - x.shape[1]))


def score(predictor: Predictor, data: Data, params: dict[str, Any]) -> dict[str, float]:
    """Errors in the units of the target."""
    x, y = data["test"]()
    return errors(predictor, x, y, y * data["scale"] + data["mean"], data, params)


def _network(inputs: int, replicate: int) -> nn.Module:
    return mlp((inputs, 50, 1), "relu", generator=first_weights(replicate))


TASKS = {
    name: Task(partial(load, name, batch_size), partial(_network, inputs), one, score, SPLITS.get(name, 11) - 1)
    for sets, batch_size, one in ((SMALL, 32, 600), (LARGE, 128, 2000))
    for name, inputs in sets.items()
}


def reads(cell: Cell) -> list[partial]:
    """The calls by which a cell loads its rows."""
    name = cell.params["data"]
    return [partial(rows, name, replicate) for replicate in (TUNED_ON, *cell.replicates)]


def run_cell(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None, products: Sequence[dict[str, Any]] = ()
) -> CellResult:
    """One method on one set at one budget."""
    return run(TASKS[cell.params["task"]], cell, device, products)


def run_rival(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None, products: Sequence[dict[str, Any]] = ()
) -> CellResult:
    """One rival on one set."""
    return rivals.run_cell(cell, device, checkpoint, products, TASKS)
