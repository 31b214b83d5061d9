"""Bayesian logistic regression on Heart, Australian and German credit: learned proposals beside HMC.

A cell is one data set and one seed, and holds all methods, so that their times are of one machine in one run. HMC warms
up (step size, dense mass matrix) and then runs longer than the others. What "long HMC" says of the moments comes from a
cell of its own with another seed. "HMC, burn-in kept" is how the published code arrives at the moments that it is
given: those of all draws, the way of the chains from N(0, I) to the posterior among them. The proposals are flows of
four coupling layers around a full Gaussian that begins as N(0, start^2 I); "Laplace" is the rule that learns
nothing: the Gaussian at the mode.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bnnlib import sampling as mcmc
from bnnlib.sampling.diagnostics import effective_sample_size, split_r_hat
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, Need, profiles, rows_of
from chapters.acceptance.targets import LogProb, laplace, logistic_posterior, standardized

NAME = "mh-logistic"
SETS = {"Heart": "heart", "Australian": "australian", "German": "german", "Breast cancer": "breast_cancer"}
OBJECTIVES = {"VI": "vi", "Acceptance rate": "acceptance", "Symmetric KL": "symmetric_kl"}
RULES = ("geyer", "threshold", "batch_means")
REFERENCE, KEPT = "Long HMC", "HMC, burn-in kept"
# first step size and draws of the published scripts, the draws that they mean to discard included
PUBLISHED = {"Heart": (0.01, 6000), "Australian": (0.1, 4000), "German": (0.005, 6000), "Breast cancer": (0.01, 200)}
TARGET, SLOWNESS, GROWTH = 0.65, 0.9, 0.03  # of their rule for the step size


def _target(cell: Cell, device: torch.device) -> tuple[LogProb, int]:
    x, y = (part.to(device) for part in standardized(SETS[cell.setting]))
    return logistic_posterior(x.float(), y), x.shape[1] + 1


def run_reference(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None, products: Sequence[dict[str, Any]] = ()
) -> CellResult:
    """Mean and sd of every coordinate by many long chains of HMC."""
    log_prob, dim = _target(cell, device)
    params, generator = cell.params, torch.Generator(device).manual_seed(73_000 + cell.replicates[0])
    trace = _hmc(log_prob, dim, params, generator)[0]
    ess = effective_sample_size(trace.draws)
    rows = rows_of(cell, {"r_hat": split_r_hat(trace.draws).max().item(), "ess": ess.min().item()})
    moments, mean, sd = _moments(cell, trace.draws)
    return CellResult(rows + moments, product={"mean": mean, "sd": sd})


def run_kept(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None, products: Sequence[dict[str, Any]] = ()
) -> CellResult:
    """Mean and sd over every draw of short chains from N(0, I), whose step size never settles."""
    log_prob, dim = _target(cell, device)
    params, generator = cell.params, torch.Generator(device).manual_seed(77_000 + cell.replicates[0])
    kernel = mcmc.HamiltonianMonteCarlo(log_prob, params["step_size"], params["num_leapfrog"], jitter=0.0)
    state = kernel.start(torch.randn(params["chains"], dim, generator=generator, device=device))
    draws, rate, size = [], TARGET, params["step_size"]
    for _ in range(params["hmc_draws"]):
        kernel.step_size = size
        move = kernel.step(state, generator)
        state = move.state
        draws.append(state.position)
        size = max(size * (1.0 + GROWTH if rate > TARGET else 1.0 - GROWTH), 1e-3)
        rate = SLOWNESS * rate + (1.0 - SLOWNESS) * move.accepted.float().mean().item()
    return CellResult(_moments(cell, torch.stack(draws))[0])


def _moments(cell: Cell, draws: Tensor) -> tuple[list[dict[str, Any]], Tensor, Tensor]:
    """Rows of the mean and sd of every coordinate over draws (n, chains, dim), and both as they are."""
    flat = draws.double().flatten(0, 1)
    mean, sd = flat.mean(dim=0), flat.std(dim=0)
    names = [*(f"w{index + 1}" for index in range(len(mean) - 1)), "bias"]
    rows = []
    for name, center, spread in zip(names, mean.tolist(), sd.tolist(), strict=True):
        rows += rows_of(cell, {"posterior_mean": center, "posterior_sd": spread}, f"{cell.setting}, {name}")
    return rows, mean, sd


def run_cell(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None, products: Sequence[dict[str, Any]] = ()
) -> CellResult:
    """Learn three proposals, take the Laplace approximation as a fourth, and sample with each and with HMC."""
    log_prob, dim = _target(cell, device)
    (replicate,), params = cell.replicates, cell.params
    rows = []
    for method in (*OBJECTIVES, "Laplace"):
        torch.manual_seed(74_000 + replicate)
        generator = torch.Generator(device).manual_seed(75_000 + replicate)
        began = time.perf_counter()
        density = _learned(method, log_prob, dim, params, generator, device)
        training = time.perf_counter() - began
        kernel = mcmc.metropolis_hastings(log_prob, mcmc.Independent(density))
        began = time.perf_counter()
        start = density.rsample(params["chains"], generator).detach()
        trace = mcmc.sample(kernel, start, params["draws"], burn_in=params["burn_in"], generator=generator)
        rows += _rows(cell, method, trace, time.perf_counter() - began, training, products[0])
    generator = torch.Generator(device).manual_seed(76_000 + replicate)
    trace, training, sampling = _hmc(log_prob, dim, params, generator)
    rows += _rows(cell, "HMC", trace, sampling, training, products[0])
    return CellResult(rows)


def _learned(method, log_prob: LogProb, dim: int, params: dict[str, Any], generator, device) -> mcmc.FullGaussian:
    if method == "Laplace":
        mode, covariance = laplace(lambda point: log_prob(point.to(device, torch.float32)).double().cpu(), dim, steps=8)
        return mcmc.FullGaussian(dim).match(mode.float(), covariance.float()).to(device)
    flow = mcmc.RealNVP(dim, params["layers"], params["hidden"], scale=params["start"]).to(device)
    mcmc.learn_proposal(
        log_prob,
        flow,
        OBJECTIVES[method],
        num_steps=params["steps"],
        batch_size=params["batch_size"],
        learning_rate=params["learning_rate"],
        generator=generator,
    )
    return flow


def _hmc(log_prob: LogProb, dim: int, params: dict[str, Any], generator) -> tuple[mcmc.Trace, float, float]:
    """Trace, seconds of the warm-up and of the sampling."""
    start = 0.1 * torch.randn(params["chains"], dim, generator=generator, device=generator.device)
    began = time.perf_counter()
    found = mcmc.warm_up(log_prob, start, params["warm_up"], generator=generator)
    middle = time.perf_counter()
    trace = mcmc.sample(found.kernel, found.state, params["hmc_draws"], burn_in=10, generator=generator)
    return trace, middle - began, time.perf_counter() - middle


def _rows(cell: Cell, method: str, trace: mcmc.Trace, sampling: float, training: float, reference: dict[str, Tensor]):
    draws = trace.draws.double()
    mean, sd = draws.mean(dim=(0, 1)), draws.flatten(0, 1).std(dim=0)
    ess = {rule: effective_sample_size(trace.draws, rule=rule).min().item() for rule in RULES}
    count = draws.shape[0] * draws.shape[1]
    values = {
        "acceptance": 100.0 * trace.acceptance.mean().item(),
        "mean_error": ((mean - reference["mean"]).abs() / reference["sd"]).max().item(),
        "sd_error": (sd / reference["sd"] - 1.0).abs().max().item(),
        "r_hat": split_r_hat(trace.draws).max().item(),
        **{f"ess_share_{rule}": 100.0 * value / count for rule, value in ess.items()},
        "never_moved": 100.0 * trace.never_moved.double().mean().item(),
        "seconds_training": training,
        "seconds_sampling": sampling,
        "ess_per_second": ess["geyer"] / sampling,
        "ess_per_second_with_training": ess["geyer"] / (sampling + training),
    }
    return rows_of(cell, values, method=method)


def _cells(
    sets: Sequence[str], seeds: int, steps: int, draws: int, hmc_draws: int, long: int, warm_up: int, kept_seeds: int
):
    common = {"chains": 64, "warm_up": warm_up}
    cells = []
    for name in sets:
        reference = Cell(name, REFERENCE, (0,), common | {"hmc_draws": long})
        need = Need(NAME, reference)
        cells += [replace(reference, replicates=(seed,)) for seed in range(seeds)]
        size, count = PUBLISHED[name]
        published = {"chains": 32, "step_size": size, "num_leapfrog": 40, "hmc_draws": count}
        cells += [Cell(name, KEPT, (seed,), published) for seed in range(kept_seeds)]
        params = common | {"hmc_draws": hmc_draws, "draws": draws, "burn_in": 50, "steps": steps, "batch_size": 256}
        params |= {"learning_rate": 3e-3, "layers": 4, "hidden": 64, "start": 0.1}
        cells += [Cell(name, "all methods", (seed,), params, (need,)) for seed in range(seeds)]
    return cells


EXPERIMENTS = [
    Experiment(
        name=NAME,
        summary="Bayesian logistic regression: proposals learned three ways, Laplace and HMC; ESS and moments",
        profiles=profiles(
            _cells,
            smoke=(["Breast cancer"], 1, 100, 200, 100, 200, 60, 1),
            book=(["Heart", "Australian", "German"], 3, 2000, 4000, 2000, 3000, 500, 5),
            paper=(["Heart", "Australian", "German"], 10, 10_000, 10_000, 5000, 40_000, 1000, 10),
        ),
        run_cell=run_cell,
        methods={REFERENCE: run_reference, KEPT: run_kept},
        data={"book": ("heart", "australian", "german"), "paper": ("heart", "australian", "german")},
        reads=lambda cell: [partial(standardized, SETS[cell.setting])],
        sources=dict.fromkeys((*OBJECTIVES, "Laplace", "HMC"), "all methods"),
        tiny={"steps": 3, "draws": 20, "hmc_draws": 20, "burn_in": 2, "warm_up": 20, "chains": 8, "batch_size": 16},
        measured=("seconds", "ess_per_second"),
        budget=lambda cell: (cell.params.get("steps", cell.params["hmc_draws"]), "steps"),
        value=2.0,
        version=2,  # HMC keeps the number of leapfrog steps that its last window learns with
    )
]
