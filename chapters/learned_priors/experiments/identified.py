"""Does SGLD-EM find the right variables (Figure 1 (f))? The method alone, on the ten data sets of `aeb-regression`.

Written down before the run. Data, prior, sampler and starts are those of `regression`; there all coefficients are kept
of the first data set alone. Its noise is another one, and a chain has a fifth of the 500,000 iterations: the step sizes
of those sum up to about a hundred relaxation times of a coefficient that the data tell (100 rows, noise of variance 3).

"identified" is 100 for a data set whose three largest coefficients, by the size of their posterior mean, are the three
that are not zero, and 0 for any other. "included" counts the inclusion probabilities above a half at the end, and
"mse_test" tells whether a shorter chain predicts as the stored one does; no claim reads either of them.

What an outcome means, in the setting of the figure, v0=0.1 and sigma=1:

1. 100 in every data set: the method identifies them.
2. Not in every one, but in more than half of them, decided by t: it does so in most data sets, which the figure's words
   do not promise of each: partly.
3. Neither: it does not.
"""

import torch
from torch import Tensor

from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.learned_priors.experiments import regression

METHOD = "SGLD-EM"


def identified(score: Tensor, truth: Tensor) -> Tensor:
    """100.0 where the largest scores (chains, p) are those of the coefficients that are not zero (p,), else 0.0."""
    wanted = truth != 0
    chosen = score.topk(int(wanted.sum()), dim=1).indices
    return 100.0 * wanted[chosen].all(dim=1).float()


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """The chains of all four settings on one data set."""
    (replicate,), params = cell.replicates, cell.params
    chains = regression._Chains(params, replicate, device)
    for k in range(1, params["iterations"] + 1):
        chains.step(k)
    mean = chains.total / len(chains.kept)
    found = {
        "identified": identified(mean.abs(), chains.coefficients),
        "included": (chains.prior.rho["weight"] > 0.5).sum(dim=1),
        "mse_test": (mean @ chains.test_x.t() - chains.test_y).square().mean(dim=1),
    }
    rows = []
    for index, (_, setting) in enumerate(chains.chains):
        values = {name: float(column[index]) for name, column in found.items()}
        rows += rows_of(cell, values, regression.setting_name(*setting))
    return CellResult(rows)


def _cells(replicates: int, iterations: int, num_inputs: int) -> list[Cell]:
    params = {"iterations": iterations, "burn_in": iterations // 5, "thin": max(1, iterations // 5000)}
    named = params | {"num_inputs": num_inputs, "methods": [METHOD]}
    return [Cell("all settings", METHOD, (replicate,), named) for replicate in range(replicates)]


EXPERIMENTS = [
    Experiment(
        name="aeb-identified",
        summary="Regression with 100 rows and 1000 inputs: whether SGLD-EM finds the right variables in every data set",
        profiles=profiles(_cells, smoke=(2, 400, 50), book=(10, 100_000, 1000)),
        run_cell=run_cell,
        schedules=regression.schedules,
        tiny={"iterations": 400, "burn_in": 80, "thin": 1, "num_inputs": 50},
        budget=lambda cell: (cell.params["iterations"], "iterations"),
    )
]
