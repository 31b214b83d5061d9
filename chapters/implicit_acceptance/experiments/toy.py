"""Implicit Metropolis-Hastings on six Gaussians: what each loss and proposal makes of an imperfect generator.

Generator and discriminators see draws alone. The laws that they imply are masses on a grid, see `ring`. The paper has
no such toy: all settings are ours.

imh-ring repeats the last look of the bridges on twelve data sets and generators that imh-toy has not seen, and parts
what differs between CCE and the Markov methods: the form of d and its loss, and the proposal. Written before it ran: by
the distance `chain_tv`, in pairs,

- a Markov method less CCE, decided below zero: it is nearer to the target; undecided: what imh-toy shows in five runs
  is not seen again, and the lesson calls it so; these twelve runs decide, they are not pooled with the five;
- UB with Markov proposals less the same loss and form with independent ones: what the proposal does;
- these independent ones less CCE: what loss and form do.

The same was written of MCE, whose independent proposals did not run.
"""

import math
from typing import Any

import torch

from bnnlib.sampling.densities import RealNVP
from bnnlib.sampling.discriminators import (
    IndependentDiscriminator,
    MarkovDiscriminator,
    PairDiscriminator,
    discriminator_loss,
)
from bnnlib.sampling.implicit import implicit_metropolis_hastings
from bnnlib.sampling.latent import LatentProposal
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.implicit_acceptance import ring
from chapters.implicit_acceptance.discriminating import train_discriminator
from chapters.implicit_acceptance.formulas import implicit_bound_constant
from chapters.shared.finite import total_variation

# method: (loss, does the proposal move from where the chain is, does d compare scores)
METHODS = {
    "CCE": ("cce", False, False),
    "UB": ("ub", False, False),
    "MCE, Markov": ("mce", True, True),
    "UB, Markov": ("ub", True, True),
}
CONTROLS = {"UB, independent": ("ub", False, True)}
ANGLE = math.pi / 3
# setting: (modes that the generator was trained on, points that the discriminator sees)
SETTINGS = {"bridges": (6, 4000), "five modes": (5, 4000), "30 points": (6, 30)}
TINY = {"replicates": 1, "looks": [0, 5], "flow_steps": 10, "chains": 50, "steps": 20}
NUM_PAIRS = 20_000  # fresh pairs behind the loss and its bound


def run_cell(cell: Cell, device: torch.device, checkpoint=None) -> CellResult:
    """One discriminator for each replicate, looked at after each number of steps in params["looks"]."""
    rows = []
    for replicate in cell.replicates:
        for step, values in _replicate(cell, replicate):
            rows += rows_of(cell, values, setting=f"{cell.setting}/{step}", replicate=replicate)
    return CellResult(rows)


def _replicate(cell: Cell, replicate: int):
    params, (loss, markov, compares) = cell.params, (METHODS | CONTROLS)[cell.method]
    modes, points = SETTINGS[cell.setting]
    # data and generator are those of the replicate, whatever the method
    shared = torch.Generator().manual_seed(1_000 + replicate)
    data = ring.draw_ring(4000, shared)
    flow = ring.fit_flow(ring.draw_ring(4000, shared, range(modes)), params["flow_steps"], shared)
    generator = torch.Generator().manual_seed(2_000 + replicate)
    proposal = LatentProposal(lambda z: flow.push(z)[0], 2, ANGLE if markov else math.pi / 2, device=data.device)
    kind = MarkovDiscriminator if compares else IndependentDiscriminator
    discriminator = kind(ring.score_network(generator), params["lower"])
    optimizer = torch.optim.Adam(discriminator.parameters(), lr=params["learning_rate"])
    options = {"latents": flow.pull(data[:points])[0] if markov else None, "optimizer": optimizer}
    options |= {"loss": loss, "batch_size": params["batch_size"], "logit_penalty": 0.0, "generator": generator}
    done = 0
    for look in params["looks"]:
        if look > done:
            train_discriminator(discriminator, data[:points], proposal, steps=look - done, **options)
            done = look
        yield look, measure(discriminator, flow, proposal, params["chains"], params["steps"], 5_000 + replicate)


@torch.no_grad()
def measure(
    discriminator: PairDiscriminator, flow: RealNVP, proposal: LatentProposal, chains: int, steps: int, seed: int
) -> dict[str, float]:
    """Numbers of one discriminator: distances on the grid, how the chains moved, and the bounds.

    The chains start from the generator, and not from data as in Algorithm 1: a chain that never moves then counts as
    the generator's draw, and not as a perfect one. The first half of the steps is left out.
    """
    generator = torch.Generator().manual_seed(seed)
    target, raw = ring.cell_masses(ring.ring_log_density), ring.cell_masses(flow.log_prob)
    implied = ring.cell_masses(lambda x: flow.log_prob(x) + discriminator.score(x))
    latents = proposal.draw(chains, generator)
    found = implicit_metropolis_hastings(
        discriminator,
        proposal,
        proposal.decode(latents),
        steps,
        start_latents=None if proposal.independent else latents,
        trace=True,
        generator=generator,
    )
    kept = found.trace[steps // 2 :]
    filtered = ring.cell_shares(kept)
    exact = ring.cell_shares(ring.draw_ring(kept[..., 0].numel(), generator))
    values = {
        "proposal_tv": total_variation(raw, target),
        "implied_tv": total_variation(implied, target),
        "chain_tv": total_variation(filtered, target),
        "chain_implied_tv": total_variation(filtered, implied),
        "floor_tv": total_variation(exact, target),
        "acceptance_rate": 100.0 * found.acceptance_rate,
        "never_moved": 100.0 * found.never_moved.double().mean().item(),
        "modes_found": ring.modes_found(kept),
    }
    return values | bound(discriminator, flow, proposal, generator)


@torch.no_grad()
def bound(
    discriminator: PairDiscriminator, flow: RealNVP, proposal: LatentProposal, generator: torch.Generator
) -> dict[str, float]:
    """The gap of (imh-bound), loss - 1 + KL, on fresh pairs, and what it and (imh-direct) promise.

    The divergences need densities: of the flow, and of the latent move, which has the flow's law as its own.
    """
    x = ring.draw_ring(NUM_PAIRS, generator)
    y = proposal.decode(proposal.move(flow.pull(x)[0], generator))
    weight_x, weight_y = (ring.ring_log_density(points) - flow.log_prob(points) for points in (x, y))
    divergence = (weight_x - weight_y).mean()
    loss = discriminator_loss(discriminator, x, y, "ub").double()
    gap = loss - 1.0 + divergence
    promise = (implicit_bound_constant(discriminator.pair_lower) * gap.clamp_min(0.0)).sqrt()
    drawn = discriminator.score(proposal.decode(proposal.draw(NUM_PAIRS, generator))).double()
    bracket = discriminator.score(x).double().mean() - (drawn.logsumexp(0) - math.log(NUM_PAIRS))
    direct = (0.5 * (weight_x.mean() - bracket)).clamp_min(0.0).sqrt()
    named = {"loss_ub": loss, "divergence": divergence, "gap": gap}
    if proposal.independent:  # a turn of latents has no minorization: for it (imh-bound) says nothing
        named["log10_bound"] = promise.log10()
    return named | {"bracket": bracket, "direct_bound": direct}


def _budget(cell: Cell) -> tuple[float, str]:
    return cell.params["looks"][-1], "iterations"


def _params(looks: tuple[int, ...], flow_steps: int, chains: int, steps: int) -> dict[str, Any]:
    params = {"looks": list(looks), "flow_steps": flow_steps, "chains": chains, "steps": steps}
    return params | {"lower": 0.01, "batch_size": 256, "learning_rate": 1e-3}


def _cells(replicates: int, looks: tuple[int, ...], flow_steps: int, chains: int, steps: int) -> list[Cell]:
    params = _params(looks, flow_steps, chains, steps)
    return [
        Cell(setting, method, tuple(range(replicates)), params)
        for setting in SETTINGS
        for method in METHODS
        if setting == "bridges" or method == "CCE"
    ]


def _fresh(replicates: int, *plan: Any) -> list[Cell]:
    """All with Markov proposals, and what they are held beside, on replicates that no cell of `_cells` has."""
    methods = [name for name in METHODS | CONTROLS if name != "UB"]
    return [Cell("bridges", name, tuple(range(100, 100 + replicates)), _params(*plan)) for name in methods]


EXPERIMENTS = [
    Experiment(
        name="imh-toy",
        summary="Six Gaussians and an imperfect flow: the law where the chain settles, by loss, proposal and iteration",
        profiles=profiles(
            _cells,
            smoke=(2, (0, 20), 30, 200, 40),
            book=(5, (0, 50, 100, 200, 400, 800, 1600), 600, 2000, 100),
            paper=(20, (0, 50, 100, 200, 400, 800, 1600, 3200, 6400, 12800), 600, 2000, 200),
        ),
        run_cell=run_cell,
        tiny=TINY,
        unavailable={"paper": "not run: the paper has no such toy, and five replicates say what the lesson says"},
        budget=_budget,
        value=4.0,
        version=2,  # chains that never moved are a share
    ),
    Experiment(
        name="imh-ring",
        summary="The same ring with other data sets: whether Markov proposals, or loss and form of d, bring it nearer",
        profiles=profiles(_fresh, smoke=(2, (20,), 30, 200, 40), book=(12, (1600,), 600, 2000, 100)),
        run_cell=run_cell,
        tiny=TINY,
        budget=_budget,
        version=2,
    ),
]
