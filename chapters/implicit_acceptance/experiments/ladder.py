"""The bound (28) on random finite chains, at losses where it is below one, so that a run could break it.

In the trainings of this chapter the bound is far above one, and no distance is. Here a share of the proposals are draws
of the target itself: the best d is then near one everywhere, a large b admits nearly all of it, and the gap is small.
Written before it ran: the claim is of all chains, so one chain beyond its bound contradicts it.
"""

import torch

from book.lab.cells import Cell, CellResult, Experiment, rows_of
from chapters.implicit_acceptance.chains import ladder, random_chains

METHOD = "Random chains"
# setting: what `random_chains` is given
SETTINGS = {
    "b = 0.2": {"lower": 0.2, "minorization": 0.5, "error": 0.01, "near": 0.9},
    "b = 0.5": {"lower": 0.5, "minorization": 0.5, "error": 0.03, "near": 0.97},
    "b = 0.9": {"lower": 0.9, "minorization": 0.9, "error": 0.1, "near": 0.99},
}


def run_cell(cell: Cell, device: torch.device, checkpoint=None) -> CellResult:
    """One chain for each replicate: where it settles, and what the bound promises."""
    generator = torch.Generator().manual_seed(200_000)
    found = ladder(random_chains(len(cell.replicates), 6, generator, **cell.params))
    return CellResult(rows_of(cell, {"implied_tv": found["measured"], "bound_tv": found["(28)"]}))


def _cells(chains: int) -> list[Cell]:
    return [Cell(setting, METHOD, tuple(range(chains)), params) for setting, params in SETTINGS.items()]


EXPERIMENTS = [
    Experiment(
        name="imh-ladder",
        summary="Random chains on six states: the distance from the target, and the paper's bound of it",
        profiles={"smoke": lambda: _cells(5), "book": lambda: _cells(100)},
        run_cell=run_cell,
    )
]
