"""Why units of the published MNIST table differ from ours: one suspicion changed at a time.

SBP         as long as the published code trains LeNet-5, 200 epochs, with the noise's learning rate of `mnist` or with
            the published one, 10 times that of the weights
SparseVD    the same 200 epochs

They start from the dense networks of `mnist`, and all else is as there. Nothing is timed.
"""

from __future__ import annotations

from typing import Any

from book.lab.cells import Cell, Experiment
from chapters.unit_noise.experiments import mnist
from chapters.unit_noise.experiments.images import MEASURED, TINY, budget, run_cell

_SLOW = "SBP, slow noise"


def _changed(profile: str, changes: dict[tuple[str, str, str], dict[str, Any]]) -> list[Cell]:
    """Cells of `mnist` under names and with parameters of their own: {(setting, its method, name): what is changed}."""
    cells = []
    for cell in mnist.EXPERIMENTS[0].profiles[profile]():
        for (setting, method, name), change in changes.items():
            if (cell.setting, cell.method) == (setting, method):
                params = cell.params | {"timed": False} | change
                cells.append(Cell(setting, name, cell.replicates, params, cell.needs))
    return cells


def _cells(profile: str, exact: str, epochs: int) -> list[Cell]:
    large, longer = "LeNet-500-300", {"epochs": epochs}
    return _changed(
        profile,
        {
            (large, exact, "SBP"): longer,
            (large, exact, _SLOW): longer | {"noise_factor": 10.0},
            (large, "SparseVD", "SparseVD"): longer | {"warm_up": epochs // 3},
        },
    )


EXPERIMENTS = [
    Experiment(
        name="sbp-causes",
        paper="004",
        summary="Why units of the published MNIST table differ from ours: one suspicion changed at a time",
        profiles={"smoke": lambda: _cells("smoke", "SBP", 3), "book": lambda: _cells("book", "SBP, weight 1", 200)},
        run_cell=run_cell,
        tiny=TINY,
        measured=MEASURED,
        data={"smoke": ("digits",), "book": ("mnist",)},
        unavailable={"paper": "not in the paper; the book profile is our own experiment"},
        budget=budget,
        value=3.0,
    )
]
