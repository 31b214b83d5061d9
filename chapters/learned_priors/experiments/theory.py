"""Theorem 1 and Corollary 1, measured where the fixed point is known: one weight, whose rho and kappa are learned.

Written down before the run. The lesson's example: a weight was observed once, y = 1.2 with standard deviation 0.6, and
has the prior with v0 = 0.25, v1 = 2, sigma = 1 and delta = 1/2, which stay. The fixed point rho* and its posterior
follow on a grid. The lesson makes a part of this live with one seed; here are ten.

rate            500 chains with steps w_k = A / (10 + k)^alpha, by `SGHMC`, whose discretization is nearly exact here.
                "slope" is that of the logarithm of the mean square of rho_k - rho* on log w_k, from k = 500 on: 1 is
                the rate of Theorem 1, 0 no convergence. A = 1 with alpha = 1 breaks the theorem's condition on steps
rate, quarter   the same with a quarter of the sampler's step, 0.0125. For alpha = 1, A = 1 the theory has the exponent
                2c = 0.67, and the whole step 0.75: a step moves the fixed point a little, which the slow mean passes.
                Within 0.03 of 0.67 here, and it was the step
step size       20,000 chains by `SGLD`, w_k = (10 + k)^-0.6, for a time of 100: "distance" is the largest one between
                the distribution functions of their last points and of the posterior at rho*, "excess" what it has more
                than that of as many exact draws
rate, long      what those windows say of a rate. Slopes of alpha = 0.3 from k = 500 to 4,000 are of steps that fall by
                half, and with a quarter of the sampler's step the slope is 0.48 there: here 60,000 steps of ten times
                200 chains, by both steps, with a slope for k from 500, from 4,000 and from 15,000 on
smallest        a step of 0.0125 has a bias of its own, which the corollary allows, and its excess of 0.0051 is of that
                size: here 0.003125, for the same time of 100. Points are those of 2,000 chains at twenty moments of the
                last quarter, 1.25 units of time apart: 40,000, beside as many exact draws. (Those of a chain turned out
                to depend on each other a little, as if they were 28,000: about 0.001 of the excess is this.)

What an outcome means:

1. Theorem 1: the slopes of alpha = 0.3, 0.6 and 1 with A = 4 lie within 0.2 of 1, decided by t: errors fall at the rate
   of the step size in this model. A theorem is not proved by it.
2. Corollary 1: the distance falls from the largest learning rate to the smallest, and there the excess lies within
   0.005 of zero: the chain's points come as near to the posterior as can be seen.
3. Otherwise the statement fails here, or its conditions do; the sizes say which.
4. rate, long, written before it ran: slopes within 0.2 of 1 from 15,000 on, by both steps: the rate. A slope that is
   decided to be outside, but to rise from the first window to the last: not yet the rate, which the lesson then says.
   One that does not rise: the rate fails here.
5. smallest, written before it ran: an excess decided to be within 0.005 of zero is outcome 2 at that step. One decided
   to be above it: the points stay away from the posterior, and the corollary fails here as far as 0.003125 can tell.
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bnnlib import functional as bF
from bnnlib.sampling import SGHMC, SGLD, SpikeSlabGaussianLaplacePrior
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.learned_priors import formulas

Y, SD, V0, V1 = 1.2, 0.6, 0.25, 2.0
GRID = torch.linspace(-6.0, 6.0, 20_001, dtype=torch.float64)
RATES = {
    "alpha=0.3, A=1": (1.0, 0.3),
    "alpha=0.6, A=1": (1.0, 0.6),
    "alpha=1, A=4": (4.0, 1.0),
    "alpha=1, A=1": (1.0, 1.0),
}
LEARNING_RATES = (0.2, 0.1, 0.05, 0.0125)
FALLING = (1.0, 0.6)  # where the learning rate is what matters
RATE, QUARTER, STEP = "rate", "rate, quarter", "step size"
LONG, SMALLEST, SLOWEST = "rate, long", "step size, smallest", "alpha=0.3, A=1"
WINDOWS = {"slope_first": (120, 15), "slope_middle": (15, 4), "slope_last": (4, 1)}  # from and to these parts of a run


def weight(k: int, size: float | Tensor, power: float | Tensor) -> float | Tensor:
    """w_k, equation (aeb-step-sizes) with B = 10."""
    return size / (10.0 + k) ** power


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell, for its probe."""
    params, rate = cell.params, not cell.setting.startswith(STEP)
    smallest = min(params.get("learning_rates", LEARNING_RATES))
    steps = range(1, 1 + (params["steps"] if rate else _steps(params, smallest)))
    return {
        f"weight {size:g} {power:g}": (partial(weight, size=size, power=power), steps)
        for size, power in (RATES.values() if rate else [FALLING])
    }


def posterior(rho: Tensor) -> Tensor:
    """Density on `GRID` of the weight under a prior that stands still."""
    penalty = formulas.ssgl_penalty(GRID, *bF.expected_precisions(rho, V0, V1), 1.0)
    energy = (Y - GRID).square() / (2.0 * SD**2) + penalty
    density = torch.exp(energy.min() - energy)
    return density / torch.trapezoid(density, GRID)


def fixed_point() -> Tensor:
    """rho*, whose posterior suggests it."""
    owner, rho = bF.slab_probability(GRID, 0.5, 1.0, V0, V1), torch.tensor(0.5, dtype=torch.float64)
    for _ in range(60):
        rho = torch.trapezoid(posterior(rho) * owner, GRID)
    return rho


def distance(draws: Tensor, density: Tensor) -> float:
    """Largest gap between the distribution functions of draws and of a density on `GRID`."""
    ordered, level = draws.flatten().sort().values, torch.cumulative_trapezoid(density, GRID)
    exact = level[(torch.searchsorted(GRID, ordered) - 2).clamp(0, len(level) - 1)]
    steps = torch.arange(len(ordered) + 1, dtype=torch.float64) / len(ordered)
    return torch.maximum(steps[1:] - exact, exact - steps[:-1]).max().item()


def chains(count: int, sampler: type, learning_rate: float, weights: Any, generator: torch.Generator, **settings):
    """Weights (count, 1) with their prior, and a function that makes one step of all."""
    beta = torch.nn.Parameter(torch.full((count, 1), Y, dtype=torch.float64))
    prior = SpikeSlabGaussianLaplacePrior(
        {"beta": beta},
        spike_scale=V0,
        slab_variance=V1,
        rho=0.1,
        update=("rho", "kappa"),
        step_size=weights,
        batch_dims=1,
    )
    moves = sampler([beta], lr=learning_rate, generator=generator, **settings)

    def step() -> None:
        beta.grad = (beta.detach() - Y) / SD**2
        prior.add_gradient_()
        moves.step()
        prior.update()

    return beta, prior, step


def run_rate(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """The slope of the mean square on the step size, for each schedule."""
    params, star, rows = cell.params, fixed_point(), []
    size, power = (
        torch.tensor(one, dtype=torch.float64).repeat_interleave(params["chains"])
        for one in zip(*RATES.values(), strict=True)
    )
    for replicate in cell.replicates:
        generator = torch.Generator().manual_seed(76_000 + replicate)
        moves = params.get("learning_rate", 0.05)
        _, prior, step = chains(len(size), SGHMC, moves, lambda k: weight(k, size, power), generator, momentum=0.5)
        errors = []
        for _ in range(params["steps"]):
            step()
            errors.append((prior.rho["beta"] - star).square().view(len(RATES), -1).mean(dim=1))
        from_ = params["steps"] // 8
        k = np.arange(1, params["steps"] + 1)[from_:]
        for column, (name, schedule) in zip(torch.stack(errors).T.numpy(), RATES.items(), strict=True):
            slope = np.polyfit(np.log(weight(k, *schedule)), np.log(column[from_:]), 1)[0]
            shown = name + cell.setting.removeprefix(RATE)
            rows += rows_of(cell, {"slope": slope}, shown, replicate=replicate)
    return CellResult(rows)


def run_long(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """The same slope in each window of a long run, by both steps of the sampler; replicates are groups of one batch."""
    params, star, rows = cell.params, fixed_point(), []
    count, steps, schedule = len(cell.replicates), cell.params["steps"], RATES[SLOWEST]
    logs = np.log(weight(np.arange(1, steps + 1), *schedule))
    for moves, suffix in ((0.05, ""), (0.0125, QUARTER.removeprefix(RATE))):
        generator = torch.Generator().manual_seed(78_000)
        many = count * params["chains"]
        _, prior, step = chains(many, SGHMC, moves, lambda k: weight(k, *schedule), generator, momentum=0.5)
        errors = torch.empty(steps, count, dtype=torch.float64)
        for k in range(steps):
            step()
            errors[k] = (prior.rho["beta"] - star).square().view(count, -1).mean(dim=1)
        for place, replicate in enumerate(cell.replicates):
            column = errors[:, place].log().numpy()
            values = {}
            for name, (first, last) in WINDOWS.items():
                window = slice(steps // first, steps // last)
                values[name] = np.polyfit(logs[window], column[window], 1)[0]
            rows += rows_of(cell, values, f"{SLOWEST}, long{suffix}", "SGHMC-SA", replicate)
    return CellResult(rows)


def _steps(params: dict[str, Any], learning_rate: float) -> int:
    return max(2, round(params["time"] / learning_rate))


def run_step_size(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """How far the last points are from the posterior at the fixed point, for each learning rate.

    With "moments" the points are also those of so many moments of the last quarter, for more of them at less cost.
    """
    params, density, rows = cell.params, posterior(fixed_point()), []
    level = torch.cumulative_trapezoid(density, GRID)
    for replicate in cell.replicates:
        generator = torch.Generator().manual_seed(77_000 + replicate)
        for learning_rate in params.get("learning_rates", LEARNING_RATES):
            beta, _, step = chains(params["chains"], SGLD, learning_rate, lambda k: weight(k, *FALLING), generator)
            steps, moments, points = _steps(params, learning_rate), params.get("moments", 1), []
            kept = {steps - place * max(1, steps // (4 * moments)) for place in range(moments)}
            for k in range(1, steps + 1):
                step()
                if k in kept:
                    points.append(beta.detach().clone())
            draws = torch.cat(points)
            uniform = torch.rand(len(draws), dtype=torch.float64, generator=generator)
            exact = GRID[1:][torch.searchsorted(level, uniform).clamp_max(len(level) - 1)]
            found = distance(draws, density)
            values = {"distance": found, "excess": found - distance(exact, density)}
            rows += rows_of(cell, values, f"learning rate {learning_rate:g}", replicate=replicate)
    return CellResult(rows)


def _cells(replicates: int, rate_chains: int, steps: int, step_chains: int, time: float, long: int) -> list[Cell]:
    many, smallest = tuple(range(replicates)), {"learning_rates": [0.003125], "moments": 20}
    return [
        Cell(RATE, "SGHMC-SA", many, {"chains": rate_chains, "steps": steps}),
        Cell(QUARTER, "SGHMC-SA", many, {"chains": rate_chains, "steps": steps, "learning_rate": 0.0125}),
        Cell(STEP, "SGLD-SA", many, {"chains": step_chains, "time": time}),
        Cell(LONG, "SGHMC-SA, long", many, {"chains": 2 * rate_chains // 5, "steps": long}),
        Cell(SMALLEST, "SGLD-SA", many, {"chains": step_chains // 10, "time": time} | smallest),
    ]


EXPERIMENTS = [
    Experiment(
        name="aeb-theory",
        summary="One weight with a known fixed point: how fast the learned prior converges, and what the chain samples",
        profiles=profiles(_cells, smoke=(2, 20, 80, 50, 1.0, 240), book=(10, 500, 4_000, 20_000, 100.0, 60_000)),
        run_cell=run_rate,
        methods={"SGLD-SA": run_step_size, "SGHMC-SA, long": run_long},
        schedules=schedules,
        precision="float64",
        tiny={"replicates": 1, "chains": 20, "steps": 80, "time": 1.0},
    )
]
