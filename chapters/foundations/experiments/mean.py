"""The mean of n draws as an estimate: a first experiment, to be replaced by the chapter's own."""

from __future__ import annotations

import torch
from torch import Tensor

from book.lab.cells import Cell, CellResult, Experiment


def mean(draws: Tensor) -> Tensor:
    """The mean over the last axis, equation (fnd-mean)."""
    return draws.sum(-1) / draws.shape[-1]


def run_cell(cell: Cell, device: torch.device, checkpoint=None) -> CellResult:
    """Squared error of the mean of normal draws around zero, one row a replicate."""
    rows = []
    for replicate in cell.replicates:
        generator = torch.Generator().manual_seed(replicate)
        error = mean(torch.randn(cell.params["draws"], generator=generator)).square()
        where = {"setting": cell.setting, "method": cell.method, "replicate": replicate}
        rows.append({**where, "metric": "mse_test", "value": error.item()})
    return CellResult(rows)


def _smoke() -> list[Cell]:
    return [Cell(f"n={draws}", "mean", (0, 1, 2), {"draws": draws}) for draws in (10, 100)]


EXPERIMENTS = [
    Experiment(
        name="fnd-mean",
        paper="papers",
        summary="the mean of n draws, in place of the chapter's first experiment",
        profiles={"smoke": _smoke},
        run_cell=run_cell,
        version=1,
        unavailable=dict.fromkeys(("book", "paper"), "not run: not written yet"),
    )
]
