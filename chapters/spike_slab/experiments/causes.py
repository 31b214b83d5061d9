"""Why numbers of Tables 1 and 2 differ from the published ones: one suspicion changed at a time,
two for AGP with U(-1,1), its share and its epochs.

dense, AGP and LOT      the published shares of weights, 30 and 10 %, in place of those chosen on held-out rows
dense, SVBNN            no divergence in the first half of the training, so that a network is fitted before it is priced
dense and U(-1,1), VD   a divergence that rises over the whole training, not over a quarter of it
  "..., half"           over half of it
dense and U(-1,1), HS-BNN
                        a unit is off when the median of its scale is below 0.5, not 0.05; training and predictions
                        are the same. How the paper counted is in its supplement. In a trial of ten replicates 0.5 was
                        seen to give the published share of Table 1, and Table 2 has to bear it out
U(-1,1), AGP            the published share, 30 %, and a seventh of the epochs, as in the book profile of Simulation II
U(-1,1), VBNN           the start of the published code, which holds the spike and slab alone
U(-1,1), SVBNN          three starts for each data set, of which the one with the least negative ELBO stays

Everything else is as in the paper profiles of `simulations`.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import torch

from bnnlib.replicates import fit_stacked
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, epochs_of, profiles, rows_of
from chapters.spike_slab.experiments import simulations
from chapters.spike_slab.experiments.simulations import PROBLEMS, params_of

LATE, BEST = "SVBNN, fitted first", "SVBNN, best of starts"


def late(epoch: int, free: int) -> float:
    """Weight of the divergence: none for the first epochs."""
    return float(epoch >= free)


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell, for its probe."""
    free, epochs = cell.params.get("free_epochs", 0), cell.params["epochs"]
    return {"divergence": (partial(late, free=free), range(epochs))} if free else simulations.schedules(cell)


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Train a stack, priced late or from several starts, and measure it as `simulations.run_cell` does."""
    params, problem = cell.params, PROBLEMS[cell.params["problem"]]
    starts, free = params.get("starts", 1), params.get("free_epochs", 0)
    x, y = (t.to(device).repeat(1, starts, 1) for t in problem.data(cell.replicates))
    start, generator = simulations.generators(cell, device)
    model = simulations.network(problem, "SVBNN", params, x.shape[1], start).to(device)
    options = {key: params[key] for key in ("epochs", "batch_size", "learning_rate")}
    scale = partial(late, free=free) if free else 1.0
    fit_stacked(model, x, y, kl_scale=scale, generator=generator, checkpoint=checkpoint, **options)
    found = simulations.measured(model, replace(cell, method="SVBNN"), x, y, generator)
    # of the noise's standard deviation 1, and up to a constant
    found["objective"] = 0.5 * len(x) * found["rmse_train"] ** 2 + found["kl"]
    best = found["objective"].view(starts, -1).argmin(dim=0)
    every = torch.arange(len(cell.replicates), device=best.device)
    chosen = {name: values.view(starts, -1)[best, every] for name, values in found.items()}
    return CellResult(rows_of(cell, chosen))


def _cells(replicates: dict[str, int], scale: dict) -> list[Cell]:
    dense, uniform = (tuple(range(replicates[problem])) for problem in ("1a", "2-uniform"))

    def params(problem: str, method: str, **more) -> dict:
        return params_of(problem, method, scale[problem], **more)

    late, short = params("1a", "SVBNN"), scale["2-uniform"] | {"pruned_epochs": scale["short"]}
    uniform_epochs = scale["2-uniform"]["epochs"]
    return [
        Cell("dense", "AGP", dense, params("1a", "AGP", grid=[0.3])),
        Cell("dense", "LOT", dense, params("1a", "LOT", grid=[0.1])),
        Cell("dense", LATE, dense, late | {"free_epochs": late["epochs"] // 2}),
        Cell("dense", "VD", dense, params("1a", "VD", warm_up=late["epochs"])),
        Cell("U(-1,1)", "VD", uniform, params("2-uniform", "VD", warm_up=uniform_epochs, intervals=False)),
        Cell("dense, half", "VD", dense, params("1a", "VD", warm_up=late["epochs"] // 2)),
        Cell("U(-1,1), half", "VD", uniform, params("2-uniform", "VD", warm_up=uniform_epochs // 2, intervals=False)),
        Cell("dense", "HS-BNN", dense, params("1a", "HS-BNN", threshold=0.5)),
        Cell("U(-1,1)", "HS-BNN", uniform, params("2-uniform", "HS-BNN", threshold=0.5, intervals=False)),
        Cell("U(-1,1)", "VBNN", uniform, params("2-uniform", "VBNN", start="published", intervals=False)),
        Cell("U(-1,1)", "AGP", uniform, params_of("2-uniform", "AGP", short, grid=[0.3])),
        Cell("U(-1,1)", BEST, uniform, params("2-uniform", "SVBNN", starts=3, intervals=False)),
    ]


def _scale(epochs: tuple[int, int], pruned_epochs: int, short: int) -> dict:
    both = {"pruned_epochs": pruned_epochs, "kept": (0.3,)}
    return {"1a": both | {"epochs": epochs[0]}, "2-uniform": both | {"epochs": epochs[1]}, "short": short}


EXPERIMENTS = [
    Experiment(
        name="svbnn-causes",
        summary="Why numbers of Tables 1 and 2 differ from the published ones: one suspicion changed at a time",
        profiles=profiles(
            _cells,
            smoke=({"1a": 2, "2-uniform": 2}, _scale((4, 4), 2, 2)),
            book=({"1a": 60, "2-uniform": 30}, _scale((10_000, 7_000), 2_000, 300)),
        ),
        run_cell=simulations.run_cell,
        version=simulations.VERSION,
        methods=dict.fromkeys((LATE, BEST), run_cell),
        schedules=schedules,
        tiny={"replicates": 2, "epochs": 4, "free_epochs": 2},
        budget=epochs_of,
        value=4.0,
    )
]
