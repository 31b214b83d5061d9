"""Is the bound preferable to the acceptance rate when data come in mini-batches? One posterior learned by both.

Written down before the runs. The proposal is a Gaussian with a full covariance for the logistic regressions of
`mh-logistic`, from N(0, 0.1^2), by Adam at the library's rate, along a cosine, in as many steps everywhere; points of
the posterior come from chains with the current proposal, 64 side by side, as in the paper. A mini-batch is a tenth of
the rows, drawn anew for each step; its log likelihood is multiplied by ten, and is the same at both ends of a pair.

full batch                all rows in the objective and in the test that moves the chains
mini-batches              the mini-batch in both: the learning sees mini-batches of data alone, as the claim has it
mini-batches, exact test  the mini-batch in the objective, all rows in the test: what is left is the objective's own

The bound is linear in the log likelihood, so that a mini-batch estimates its gradient without bias at given points. The
rate is not: noise in log xi lowers min{1, xi}. What counts in the end is the rate itself, "acceptance": of the learned
proposal, with all rows, at points that a long chain with the Laplace approximation gives. "acceptance_lost" is what it
lacks of the same objective's at full batch, by the same seed, in points.

What an outcome means, for each data set:

1. Learned by mini-batches, the bound's proposal is accepted more often than the rate's, and has lost less, both decided
   by t over the seeds: the bound is preferable, as claimed, for the reason that is claimed.
2. It has lost less and is not accepted more often: the reason holds, the preference does not follow.
3. It has lost no less: mini-batches give the bound no advantage here.
"""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bnnlib import sampling as mcmc
from bnnlib.functional import acceptance_rate_loss, log_acceptance_ratio, symmetric_kl_loss
from bnnlib.sampling.kernels import LogProb
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.acceptance import formulas
from chapters.acceptance.experiments.logistic import SETS
from chapters.acceptance.targets import laplace, logistic_posterior, standardized

LOSSES = {"Acceptance rate": acceptance_rate_loss, "Symmetric KL": symmetric_kl_loss}
FULL, BATCHES, EXACT = "full batch", "mini-batches", "mini-batches, exact test"


def falling(step: int, steps: int) -> float:
    """Of the learning rate: along a cosine to 0."""
    return 0.5 * (1.0 + math.cos(math.pi * step / steps))


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell, for its probe."""
    steps = cell.params["steps"]
    return {"learning rate": (partial(falling, steps=steps), range(steps))}


def scaled(x: Tensor, y: Tensor, rows: Tensor) -> LogProb:
    """Log posterior by some rows, whose log likelihood stands for that of all."""
    part, factor = logistic_posterior(x[rows], y[rows]), len(x) / len(rows)

    def log_prob(point: Tensor) -> Tensor:
        square = 0.5 * point.square().sum(dim=1)  # of the prior, which is not multiplied
        return factor * (part(point) + square) - square

    return log_prob


def learned(mode: str, method: str, x: Tensor, y: Tensor, params: dict, generator: torch.Generator) -> Any:
    """The proposal that an objective gives in one of the three modes."""
    whole = logistic_posterior(x, y)
    density = mcmc.FullGaussian(x.shape[1] + 1, params["start"]).to(x.device)
    optimizer = torch.optim.Adam(density.parameters(), lr=params["learning_rate"])
    count = math.ceil(len(x) * (1.0 if mode == FULL else params["share"]))
    position = density.rsample(params["points"], generator).detach()
    for step in range(params["steps"]):
        log_prob = scaled(x, y, torch.randperm(len(x), generator=generator, device=x.device)[:count])
        offered, log_q = density.rsample_with_log_prob(params["points"], generator)
        log_p, here, there = log_prob(offered), log_prob(position), density.log_prob(position)
        pairs = log_acceptance_ratio(here[:, None], log_p, log_q, there[:, None])
        # independent points: for the rate all pairs count, as in `learn_proposal`
        loss = LOSSES[method](pairs if method == "Acceptance rate" else pairs.diagonal())
        with torch.no_grad():
            test = pairs.diagonal()
            if mode == EXACT:
                test = test - (log_p - here) + whole(offered) - whole(position)
            taken = torch.rand(len(test), generator=generator, device=x.device).log() < test
            position = torch.where(taken[:, None], offered, position)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(density.parameters(), params["clip"])
        for group in optimizer.param_groups:
            group["lr"] = params["learning_rate"] * falling(step, params["steps"])
        optimizer.step()
    return density


def exact_points(x: Tensor, y: Tensor, draws: int, generator: torch.Generator) -> Tensor:
    """Points of the posterior from 64 chains whose proposal is the Laplace approximation."""
    log_prob = logistic_posterior(x, y)
    mode, covariance = laplace(lambda point: log_prob(point.float()).double(), x.shape[1] + 1, steps=8)
    density = mcmc.FullGaussian(len(mode)).match(mode.float(), covariance.float())
    kernel = mcmc.metropolis_hastings(log_prob, mcmc.Independent(density))
    start = density.rsample(64, generator).detach()
    return mcmc.sample(kernel, start, draws, burn_in=draws, thin=2, generator=generator).draws.flatten(0, 1)


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """One objective in the three modes on one data set."""
    x, y = (part.to(device) for part in standardized(SETS[cell.setting]))
    x, (replicate,), rows, rates = x.float(), cell.replicates, [], {}
    points = exact_points(x.cpu(), y.cpu(), cell.params["draws"], torch.Generator().manual_seed(79_000)).to(device)
    for mode in (FULL, BATCHES, EXACT):
        generator = torch.Generator(device).manual_seed(79_100 + replicate)
        density = learned(mode, cell.method, x, y, cell.params, generator)
        proposal = mcmc.Independent(density)
        rates[mode] = 100.0 * formulas.acceptance_rate_of(logistic_posterior(x, y), proposal, points, generator).mean
        values = {"acceptance": rates[mode]} | ({} if mode == FULL else {"acceptance_lost": rates[FULL] - rates[mode]})
        rows += rows_of(cell, values, f"{cell.setting}, {mode}")
    return CellResult(rows)


def _cells(sets: tuple[str, ...], seeds: int, steps: int, draws: int) -> list[Cell]:
    params = {"steps": steps, "points": 64, "learning_rate": 5e-3, "clip": 10.0, "start": 0.1, "share": 0.1}
    return [
        Cell(name, method, (seed,), params | {"draws": draws})
        for name in sets
        for seed in range(seeds)
        for method in LOSSES
    ]


EXPERIMENTS = [
    Experiment(
        name="mh-minibatches",
        summary="Bayesian logistic regression: a proposal learned by the rate and by the bound, from mini-batches",
        profiles=profiles(_cells, smoke=(("Breast cancer",), 1, 40, 40), book=(("Heart", "German"), 5, 2000, 100)),
        run_cell=run_cell,
        data={"book": ("heart", "german")},
        reads=lambda cell: [partial(standardized, SETS[cell.setting])],
        schedules=schedules,
        tiny={"steps": 3, "points": 8, "draws": 20},
        budget=lambda cell: (cell.params["steps"], "steps"),
    )
]
