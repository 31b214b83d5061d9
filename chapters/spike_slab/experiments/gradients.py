"""Whether the Gumbel-softmax gate and the inverse distribution function end alike in a simple model.

The paper says that they differ little; its simple model is in the supplement, not at hand. Ours is the regression of
the lesson on twenty data sets of its own: ten coefficients of which four are not 0, whose objective and posterior are
known in closed form. The three gradients start at equal means: from the narrow slabs and open gates of the published
code with one draw a step, and from wide slabs and half open gates with ten, which gives the inverse its chance. What is
judged is the average over the last hundred steps: the divergence from the exact posterior, and the inclusion
probabilities.

Written down before the runs: that two gradients differ little means that the interval of their difference over the data
sets lies within 1 nat, and within 0.05 of an inclusion probability. Where that holds in the wide start alone, the claim
holds for one start and not for the other, and a simple model says nothing without its start.
"""

import torch

from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.spike_slab.linear import linear_model

METHODS = {"exact gradient": "exact", "Gumbel-softmax": "straight-through", "inverse CDF": "inverse CDF"}
STARTS = {
    "published start": {"scale": 0.0025, "inclusion": 0.99, "draws": 1},
    "wide start": {"scale": 1.0, "inclusion": 0.5, "draws": 10},
}
TRUTH, NUM_DATA, NUM_INPUTS, LAST = (1.0, -0.6, 0.35, 0.2), 100, 10, 100


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """One gradient from one start, data set by data set."""
    divergences, errors = [], []
    for replicate in cell.replicates:
        generator = torch.Generator().manual_seed(35_000 + replicate)
        x = torch.randn(NUM_DATA, NUM_INPUTS, generator=generator)
        y = x[:, : len(TRUTH)] @ torch.tensor(TRUTH) + torch.randn(NUM_DATA, generator=generator)
        model = linear_model(x.double(), y.double())
        exact, log_evidence = model.posterior()
        steps, start = cell.params["steps"], STARTS[cell.setting]
        objective, phi = model.fit(METHODS[cell.method], seed=36_000 + replicate, steps=steps, **start)
        divergences.append(objective[-LAST:].mean() + log_evidence)
        errors.append((phi[-LAST:, 0].mean(0) - exact).abs().mean())
    return CellResult(rows_of(cell, {"kl_exact": torch.stack(divergences), "inclusion_error": torch.stack(errors)}))


def _cells(replicates: int, steps: int) -> list[Cell]:
    return [
        Cell(setting, method, tuple(range(replicates)), {"steps": steps}) for setting in STARTS for method in METHODS
    ]


EXPERIMENTS = [
    Experiment(
        name="svbnn-gradients",
        summary="A regression by the Gumbel-softmax gate, the inverse distribution function and the exact gradient",
        profiles=profiles(_cells, smoke=(2, 20), book=(20, 3_000)),
        run_cell=run_cell,
        tiny={"replicates": 2, "steps": 20},
        budget=lambda cell: (cell.params["steps"], "iterations"),
        value=4.0,
    )
]
