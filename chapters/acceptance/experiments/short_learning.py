"""Does learning a proposal pay only in long runs, or is that said of our budgets alone?

Written down before the runs. The logistic regressions, proposals and seeds are those of `mh-logistic`, and so is the
learning but for its length: 500 steps in place of 2,000, which is 128,000 evaluations of the posterior, fewer than the
warm-up of HMC takes there (131,328, of 500 steps). Both lengths are our choice, so that HMC is run with a quarter of
its warm-up, too: 125 steps. "evaluations_learning" counts what learning or warm-up takes, "evaluations_draw" a draw;
an evaluation with its gradient counts as one. What a draw is worth is the ESS of the slowest coordinate, by Geyer's
rule. Times are not stored: those of `mh-logistic` are of another run.

What an outcome means, for each loss and data set:

1. In every run an effective draw costs fewer evaluations than one of HMC after 500 steps of warm-up: learned so shortly
   a proposal is ahead of it from the first draw on, and that learning pays only in long runs is said of 2,000 steps.
2. In some run it costs more: there HMC is ahead but for its first draws, and 500 steps are too few.
3. Beside HMC after 125 steps of warm-up: the effective draws after which both have spent the same say how long a run
   has to be where both budgets are cut. Where R-hat of these chains is above 1.01, nothing is read from them.

Trials were seen before the runs: after 500 steps an effective draw per draw of 0.59 to 0.68 on German (three seeds) and
of 0.82 on Heart (one).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bnnlib import sampling as mcmc
from bnnlib.sampling.diagnostics import effective_sample_size, split_r_hat
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.acceptance.experiments.logistic import OBJECTIVES, SETS
from chapters.acceptance.targets import LogProb, logistic_posterior, standardized

NAME, HMC = "mh-short", "HMC"
METHODS = (*OBJECTIVES, HMC)


def counting(log_prob: LogProb) -> tuple[LogProb, Callable[[], int]]:
    """The same log density, and a function that says at how many points it was asked for."""
    asked = 0

    def counted(points: Tensor) -> Tensor:
        nonlocal asked
        asked += len(points)
        return log_prob(points)

    return counted, lambda: asked


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """Learn one proposal, or warm HMC up, and sample."""
    x, y = (part.to(device) for part in standardized(SETS[cell.setting]))
    log_prob, asked = counting(logistic_posterior(x.float(), y))
    (replicate,), params, dim = cell.replicates, cell.params, x.shape[1] + 1
    if cell.method == HMC:
        generator = torch.Generator(device).manual_seed(76_000 + replicate)
        first = 0.1 * torch.randn(params["chains"], dim, generator=generator, device=device)
        found = mcmc.warm_up(log_prob, first, params["warm_up"], generator=generator)
        kernel, start, each = found.kernel, found.state, found.kernel.num_leapfrog
    else:
        torch.manual_seed(74_000 + replicate)  # the flow's first weights
        generator = torch.Generator(device).manual_seed(75_000 + replicate)
        density = mcmc.RealNVP(dim, params["layers"], params["hidden"], scale=params["start"]).to(device)
        mcmc.learn_proposal(
            log_prob,
            density,
            OBJECTIVES[cell.method],
            num_steps=params["steps"],
            batch_size=params["batch_size"],
            learning_rate=params["learning_rate"],
            generator=generator,
        )
        kernel, each = mcmc.metropolis_hastings(log_prob, mcmc.Independent(density)), 1
        start = density.rsample(params["chains"], generator).detach()
    spent = asked()
    trace = mcmc.sample(kernel, start, params["draws"], burn_in=params["burn_in"], generator=generator)
    ess, count = effective_sample_size(trace.draws).min().item(), trace.draws.shape[0] * trace.draws.shape[1]
    values = {
        "acceptance": 100.0 * trace.acceptance.mean().item(),
        "r_hat": split_r_hat(trace.draws).max().item(),
        "ess_share_geyer": 100.0 * ess / count,
        "evaluations_learning": spent,
        "evaluations_draw": each,
    }
    return CellResult(rows_of(cell, values))


def _cells(sets: Sequence[str], seeds: int, steps: int, warm_up: int, draws: int) -> list[Cell]:
    flow = {"steps": steps, "batch_size": 256, "learning_rate": 3e-3, "layers": 4, "hidden": 64, "start": 0.1}
    params: dict[str, dict[str, Any]] = dict.fromkeys(METHODS, flow | {"draws": draws, "burn_in": 50})
    params[HMC] = {"warm_up": warm_up, "draws": draws // 2, "burn_in": 10}
    return [
        Cell(name, method, (seed,), params[method] | {"chains": 64})
        for name in sets
        for seed in range(seeds)
        for method in METHODS
    ]


EXPERIMENTS = [
    Experiment(
        name=NAME,
        summary="Bayesian logistic regression: proposals and HMC, each with a quarter of its steps to learn",
        profiles=profiles(
            _cells,
            smoke=(["Breast cancer"], 1, 25, 20, 100),
            book=(["Heart", "Australian", "German"], 3, 500, 125, 4000),
        ),
        run_cell=run_cell,
        data={"book": ("heart", "australian", "german")},
        reads=lambda cell: [partial(standardized, SETS[cell.setting])],
        tiny={"steps": 3, "draws": 20, "burn_in": 2, "warm_up": 20, "chains": 8, "batch_size": 16},
        budget=lambda cell: (cell.params.get("steps", cell.params.get("warm_up")), "steps"),
    )
]
