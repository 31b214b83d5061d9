"""Six Gaussians on a ring (Figure 2): one flow, learned by VI, by the acceptance rate and by its bound.

The paper does not say which proposal it learns, nor how. Ours is a flow of eight coupling layers that begins as the
Gaussian N(0, start^2 I), the same for all three objectives; the settings differ in that start. Every number is of the
chain that the learned proposal gives, but for the acceptance rate: there the chain's points are replaced by exact ones,
which is what equation (10) means. A chain that never saw a mode does not know that it is missing.
"""

import time

import numpy as np
import torch
from torch import Tensor

from bnnlib import sampling as mcmc
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.acceptance import formulas
from chapters.acceptance.targets import MODES, draw_six_gaussians, nearest_mode, six_gaussians

OBJECTIVES = {"VI": "vi", "Acceptance rate": "acceptance", "Symmetric KL": "symmetric_kl"}
STARTS = {"start sd 3": 3.0, "start sd 1": 1.0}
EXTENT, BINS = 8.0, 48  # of the histograms of Figure 2
FOUND = 0.1  # a mode is found where the chain has at least this part of its mass
EXACT = 20_000  # exact points for the acceptance rate
GRID = 400  # points a side of the grid for total variation


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """Learn one proposal, run 100 chains with it, and look at their 25,000 draws."""
    (replicate,), params = cell.replicates, cell.params
    torch.manual_seed(70_000 + replicate)  # the flow's first weights
    generator = torch.Generator(device).manual_seed(71_000 + replicate)
    flow = mcmc.RealNVP(2, params["layers"], params["hidden"], scale=STARTS[cell.setting]).to(device)
    began = time.perf_counter()
    mcmc.learn_proposal(
        six_gaussians,
        flow,
        OBJECTIVES[cell.method],
        num_steps=params["steps"],
        batch_size=params["batch_size"],
        learning_rate=params["learning_rate"],
        generator=generator,
    )
    minutes = (time.perf_counter() - began) / 60.0
    proposal = mcmc.Independent(flow)
    kernel = mcmc.metropolis_hastings(six_gaussians, proposal)
    start = flow.rsample(params["chains"], generator).detach()
    draws = params["draws"] // params["chains"]
    trace = mcmc.sample(kernel, start, draws, burn_in=params["burn_in"], generator=generator)
    points = trace.draws.reshape(-1, 2)
    shares = torch.bincount(nearest_mode(points), minlength=MODES) / len(points)
    exact = draw_six_gaussians(EXACT, torch.Generator().manual_seed(72_000)).to(device)
    rate = formulas.acceptance_rate_of(six_gaussians, proposal, exact, generator)
    values = {
        "modes_found": int((shares >= FOUND / MODES).sum()),
        "mode_tv": 0.5 * (shares - 1.0 / MODES).abs().sum().item(),
        "acceptance": 100.0 * rate.mean,
        "acceptance_chain": 100.0 * trace.acceptance.mean().item(),
        "proposal_tv": proposal_tv(flow),
        "minutes_training": minutes,
    }
    return CellResult(rows_of(cell, values), {"histogram": histogram(points)})


def histogram(points: Tensor) -> np.ndarray:
    """Counts of the draws in BINS x BINS squares; row by the second coordinate, upward."""
    edges = np.linspace(-EXTENT, EXTENT, BINS + 1)
    first, second = points.cpu().numpy().T
    return np.histogram2d(second, first, bins=(edges, edges))[0].astype(np.uint16)


@torch.no_grad()
def proposal_tv(density: mcmc.RealNVP) -> float:
    """Total variation between the proposal and the target, by summing over a fine grid."""
    place = next(density.parameters())
    side = (torch.arange(GRID, device=place.device) + 0.5) * (2.0 * EXTENT / GRID) - EXTENT
    grid = torch.cartesian_prod(side, side)
    area = (2.0 * EXTENT / GRID) ** 2
    target, proposal = six_gaussians(grid).exp(), density.log_prob(grid).exp()
    # what the proposal puts outside of the grid counts whole
    outside = 1.0 - area * proposal.sum().item()
    return 0.5 * (area * (target - proposal).abs().sum().item() + max(0.0, outside))


def _cells(seeds: dict[str, int], steps: int, draws: int = 25_000, batch_size: int = 256) -> list[Cell]:
    params = {"steps": steps, "batch_size": batch_size, "learning_rate": 3e-3, "layers": 8, "hidden": 64}
    params |= {"chains": 100, "draws": draws, "burn_in": 100}
    return [
        Cell(setting, method, (seed,), params)
        for setting, count in seeds.items()
        for seed in range(count)
        for method in OBJECTIVES
    ]


EXPERIMENTS = [
    Experiment(
        name="mh-six-gaussians",
        summary="Six Gaussians on a ring: a flow learned by VI, by acceptance rate and by its bound (Figure 2)",
        profiles=profiles(
            _cells,
            smoke=({"start sd 3": 2}, 150, 2500, 128),
            book=({"start sd 3": 10, "start sd 1": 3}, 2000),
            paper=lambda: _cells({"start sd 3": 10, "start sd 1": 10}, 10_000, batch_size=1024),
        ),
        run_cell=run_cell,
        budget=lambda cell: (cell.params["steps"], "steps"),
        tiny={"steps": 3, "batch_size": 32, "draws": 200, "burn_in": 2, "chains": 20},
        measured=("minutes",),
        value=2.0,
    )
]
