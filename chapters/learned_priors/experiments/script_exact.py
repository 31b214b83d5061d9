"""Which errors can the published script print for SGLD at sigma = 2? Its exact law, without a chain.

Written down before the run and before a cell of `aeb-script` was finished; a trial on two data sets had a mean MSE of
1,950. As R reads it, the script's SGLD is a linear recursion with normal noise: along each singular vector of the
inputs the coefficient is contracted by 1 - eta_k lambda and pushed by noise, and the mean of the stored draws is normal
with a mean and variance that one pass back over the 500,000 steps gives. So are the 50 test errors of a data set, whose
MAE and MSE are then drawn 10,000 times. Data sets and settings are those of `script`.

"mae_test" and "mse_test" are the means over these draws, "..._low" and "..._high" what one draw in 200 lies below and
above: what a run can print without a chance of less than a hundredth.

What an outcome means, at sigma = 2 with 15.85 and 416.39 printed:

1. Both printed numbers lie between low and high on at least one data set of five: the script can have printed them.
2. One lies outside on all: the script, run as it is published, did not print them.
"""

import torch
from torch import Tensor

from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.learned_priors.experiments import regression
from chapters.learned_priors.experiments.script import GRADIENT_NOISE, SIGMAS, Script

TAIL, DRAWS = 0.005, 10_000


def moments(params: dict, curvature: Tensor) -> tuple[Tensor, Tensor]:
    """Of the mean of the stored draws along directions with a curvature: the share of the start, and the variance.

    The share is what is left of the distance between start and target; the variance is without that of the start.
    """
    stored = [k for k in range(1, params["iterations"] + 1) if k % params["thin"] == 0 and k >= params["burn_in"]]
    times, last = set(stored), stored[-1]
    weight, variance = torch.zeros_like(curvature), torch.zeros_like(curvature)
    for k in range(last, 0, -1):
        size = regression.step_size(k)
        if k in times:
            weight += 1.0 / len(stored)
        variance.addcmul_(weight, weight, value=2.0 * size + (GRADIENT_NOISE * size) ** 2)
        weight.addcmul_(weight, curvature, value=-size)
    return weight, variance


def errors(script: Script, sigma: float) -> tuple[Tensor, Tensor]:
    """Mean (data sets, rows) and covariance (data sets, rows, rows) of the test errors of the script without L1."""
    left, singular, right = torch.linalg.svd(script.x, full_matrices=False)
    curvature = torch.nn.functional.pad(singular**2, (0, 1)) + 1.0  # the last is of all directions without data
    share, variance = moments(script.params, curvature / sigma**2)
    variance = variance + 0.01 * share**2  # of the start, N(0, 0.1^2)
    target = singular * (script.y @ left).squeeze(1) / curvature[:, :-1]  # along the right singular vectors
    along = script.test_x @ right.mT
    rest = script.test_x - along @ right
    mean = (along @ (target * (1.0 - share[:, :-1])).unsqueeze(-1)).squeeze(-1) - script.test_y[:, 0]
    spread = (along * variance[:, None, :-1]) @ along.mT + variance[:, -1, None, None] * rest @ rest.mT
    return mean, spread


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """The law of MAE and MSE on each data set, for both readings of sigma."""
    script, rows = Script(cell.params, cell.replicates), []
    generator = torch.Generator().manual_seed(79_000)
    for setting, sigma in SIGMAS.items():
        mean, spread = errors(script, sigma)
        normal = torch.randn(DRAWS, *mean.shape, 1, generator=generator, dtype=torch.float64)
        drawn = mean + (torch.linalg.cholesky(spread) @ normal).squeeze(-1)
        values, tails = {}, torch.tensor([TAIL, 1.0 - TAIL], dtype=torch.float64)
        for name, one in (("mae_test", drawn.abs().mean(dim=2)), ("mse_test", drawn.square().mean(dim=2))):
            low, high = one.quantile(tails, dim=0)
            values |= {name: one.mean(dim=0), f"{name}_low": low, f"{name}_high": high}
        rows += rows_of(cell, values, setting)
    return CellResult(rows)


def _cells(replicates: int, iterations: int, num_inputs: int) -> list[Cell]:
    params = {"iterations": iterations, "burn_in": iterations // 5, "thin": max(1, iterations // 5000)}
    return [Cell("both readings", "script", tuple(range(replicates)), params | {"num_inputs": num_inputs})]


EXPERIMENTS = [
    Experiment(
        name="aeb-script-exact",
        summary="The published script's SGLD of Table 1 without a chain: the exact law of its errors on five data sets",
        profiles=profiles(_cells, smoke=(2, 400, 150), book=(5, 500_000, 1000)),
        run_cell=run_cell,
        schedules=regression.schedules,
        precision="float64",
        tiny={"iterations": 400, "burn_in": 80, "thin": 1, "num_inputs": 150, "replicates": 1},
        budget=lambda cell: (cell.params["iterations"], "iterations"),
    )
]
