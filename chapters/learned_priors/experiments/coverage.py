"""Why the credible intervals of the regression hold too few coefficients: runs that remove each suspected cause.

Data sets and prior are those of `aeb-regression` at v0 = 0.1, sigma = 1. The learned sigma is a quarter of the true
one, and a coefficient that the spike holds is pulled to zero: one run holds sigma at the truth, one holds the three
coefficients that matter in the slab, one does both. Sigma is also the unit of the prior, so that holding it widens the
spike and the slab as well: one run holds sigma at the truth with both as wide as the learned chain has them at that
step. The inputs are correlated, so that a neighbor may take over the effect of the smallest coefficient while the spike
holds it: one run holds this one alone in the slab. SGHMC at momentum 0.9 moves ten times as far in a step as SGLD with
its learning rate, so that 8,000 steps go nearly as far as the 500,000 of `aeb-regression`, whose step falls.

What an outcome means, written before the last two ran, for the coverage less that of the learned chain, in pairs:

1. sigma at the truth with the prior as wide as learned is decided to cover more: the small sigma is a cause. Neither:
   of sigma nothing is decided, and its interval says how much it could be; that most weights stay in the slab then
   shows that what took them out was the width of the spike.
2. beta_3 alone in the slab is decided to cover more: the spike on this weight is a cause, and whether beta_2 is covered
   more often says if its neighbor had taken the effect over. Decided to be less than with all three: not the only one.
"""

import math
from typing import Any

import torch

from bnnlib import metrics
from bnnlib.sampling import SGHMC, SpikeSlabGaussianLaplacePrior, split_r_hat
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.learned_priors.experiments.regression import PUBLISHED, WEIGHTS, problem, steps_of

SETTING = "v0=0.1, sigma=1"
METHODS = ("SGHMC-SA", "sigma^2=3", "three in the slab", "both", "sigma^2=3, widths as learned", "beta_3 in the slab")
NOISE = math.sqrt(3.0)
SPIKE_SCALE, SLAB_VARIANCE = 0.1, 10.0
THIN = 5


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell, for its probe."""
    return {"weight": (WEIGHTS, range(1, cell.params["steps"] + 1))}


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """A chain for each method on one data set."""
    (replicate,), steps, num_inputs = cell.replicates, cell.params["steps"], cell.params["num_inputs"]
    x, y, _, _, coefficients = (part.to(device) for part in problem(replicate, num_inputs))
    start = torch.Generator().manual_seed(73_000 + replicate)
    beta = torch.nn.Parameter((0.1 * torch.randn(len(METHODS), num_inputs, generator=start)).to(device))
    prior = SpikeSlabGaussianLaplacePrior(
        {"beta": beta},
        spike_scale=SPIKE_SCALE,
        slab_variance=SLAB_VARIANCE,
        **PUBLISHED,
        likelihood="regression",
        num_data=len(y),
        step_size=WEIGHTS,
        batch_dims=1,
    )
    lr, generator = cell.params["learning_rate"], torch.Generator(device).manual_seed(74_000 + replicate)
    sampler, draws = SGHMC([beta], lr=lr, momentum=0.9, generator=generator), []
    truth = coefficients[:3]
    for k, squares in steps_of(beta, (x, y), prior, sampler, steps, rate=None):
        prior.update(squares)
        prior.sigma[[1, 3, 4]] = NOISE
        unit = prior.sigma[0] / NOISE
        prior.spike_scale[4], prior.slab_variance[4] = SPIKE_SCALE * unit, SLAB_VARIANCE * unit**2
        for place, owned in ((2, slice(3)), (3, slice(3)), (5, 2)):
            prior.rho["beta"][place, owned] = 1.0
            prior.kappa0["beta"][place, owned] = 0.0
            prior.kappa1["beta"][place, owned] = 1.0 / SLAB_VARIANCE
        if k > steps // 5 and k % THIN == 0:
            draws.append(beta.detach()[:, :3].clone())
    kept = torch.stack(draws, dim=1)
    low, high = metrics.central_interval(kept, dim=1)
    rest = beta.detach()[:, 3:] @ x[:, 3:].t()  # what the weights that do not matter add to the fit
    inside = 100.0 * ((low <= truth) & (truth <= high))
    rows = []
    for place, method in enumerate(METHODS):
        values = {"covered_three": inside[place].mean(), "sigma": prior.sigma[place], "rest": rest[place].var()}
        values["r_hat"] = split_r_hat(kept[place : place + 1]).max()
        for j in range(3):
            values[f"covered_beta{j + 1}"] = inside[place, j]
            values[f"width_beta{j + 1}"] = (high - low)[place, j]
            values[f"error_beta{j + 1}"] = kept[place, :, j].mean() - truth[j]
            values[f"rho_beta{j + 1}"] = prior.rho["beta"][place, j]
        rows += rows_of(cell, values, method=method)
    return CellResult(rows)


def _cells(replicates: int, steps: int, num_inputs: int) -> list[Cell]:
    params = {"steps": steps, "num_inputs": num_inputs, "learning_rate": 1e-4}
    return [Cell(SETTING, "all methods", (replicate,), params) for replicate in range(replicates)]


EXPERIMENTS = [
    Experiment(
        name="aeb-coverage",
        summary="Intervals of the regression that hold their coefficient: sigma at the truth, the slab held, or both",
        profiles=profiles(_cells, smoke=(1, 100, 50), book=(10, 8_000, 1000)),
        run_cell=run_cell,
        tiny={"steps": 100, "num_inputs": 50},
        version=2,  # two runs more in a cell
        schedules=schedules,
        budget=lambda cell: (cell.params["steps"], "iterations"),
        value=4.0,
    )
]
