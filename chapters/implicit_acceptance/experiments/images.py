"""How the experiments on images train a generator, then filter it by implicit Metropolis-Hastings.

There is no published code. Ours: networks after DCGAN, and a fresh discriminator, trained on the generator's own
training images, which sees every image at half its resolution. At the whole one it learned first to tell the texture of
strokes, by which no generated image is better than another (trials with one generator of MNIST, on held-out training
images: feature-FID fell by 8 % at best, and by 21 % at half). Chains start at held-out training images, one chain for
each generated image, of which the last state is kept. A chain that refused every proposal would hand out the real image
that it started from. It starts again from a proposal (our addition, after Turner et al., 2019), so that every image
that is judged was generated. Independent proposals come from a pool that is made and scored once: with ten proposals of
its own a chain, half of the chains never moved. Several samples may then be the same image, and how many differ is a
measure beside the others. The number of iterations is fixed beforehand; what is measured on the way is reported beside
it.

"Random discriminator" is an untrained network, its scores stretched over the generator's images to a standard
deviation that is fixed beforehand, so that it refuses about as much as a trained one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bnnlib.mcmc import (
    IndependentDiscriminator,
    LatentProposal,
    MarkovDiscriminator,
    PairDiscriminator,
    implicit_metropolis_hastings,
    pooled_metropolis_hastings,
    train_discriminator,
)
from bnnlib.models.cnn import draw_initial
from bnnlib.train.checkpoint import Checkpoint
from bnnlib.train.stages import Stages
from book.lab.cells import Cell, CellResult, Experiment, Need, rows_of
from chapters.implicit_acceptance.experiments.generators import (
    inversion_cell,
    latent_proposal,
    latents,
    load_decoder,
    raw_cell,
    sheet,
)
from chapters.implicit_acceptance.experiments.judge import MEASURES, Judge, classifier_cell
from chapters.shared.images import Split, load_images

RAW, RANDOM, CCE, UB, MCE = "Raw", "Random discriminator", "Independent, CCE", "Markov, UB", "Markov, MCE"
CLASSIFIER, INVERSION = "Classifier", "Inversion"
LOSSES = {CCE: "cce", UB: "ub", MCE: "mce"}
CURVES = (*MEASURES, "acceptance_rate", "never_moved")  # columns of the array "curves" behind the iteration
# What decides a cell of these kinds, so that another filter does not train the generator again.
JUDGED = ("data", "shape", "held_out", "scaling", "samples", "bootstrap", "classifier")
MADE = (*JUDGED, "generator", "latent_dim")

# a real cell at the sizes of the digits
TINY: dict[str, Any] = {"data": "digits", "held_out": 100, "samples": 60, "bootstrap": 3, "chain_steps": 3}
TINY |= {"pool": 200, "pool_steps": 10}
TINY |= {
    "latent_dim": 8,
    "classifier": {"epochs": 8, "width": 8},
    "generator": {"width": 2, "steps": 3, "batch_size": 8},
}
TINY |= {
    "discriminator": {"width": 2, "iterations": [0, 2, 4], "iterations_markov": [0, 2, 4], "batch_size": 8},
    "inversion": {"images": 40, "steps": 3},
}


def grid(
    name: str, common: dict[str, Any], models: dict[str, dict[str, Any]], counts: dict[str, dict[str, int]]
) -> list[Cell]:
    """The classifier, and for each generator and replicate the cells of its methods.

    Args:
        name: of the experiment.
        common: parameters of all cells.
        models: setting ("WGAN-GP", "VAE") to the parameters that its cells have of their own.
        counts: the same to the number of replicates by method; none of a method that is not in it.
    """
    judge = Cell("Images", CLASSIFIER, (0,), _only(common, JUDGED))
    cells = [judge]
    for replicate in range(max(one[RAW] for one in counts.values())):
        for setting, own in models.items():
            params = common | own
            raw = Cell(setting, RAW, (replicate,), _only(params, MADE), (Need(name, judge),))
            both = (Need(name, judge), Need(name, raw))
            inverted = Cell(setting, INVERSION, (replicate,), _only(params, (*MADE, "inversion")), (Need(name, raw),))
            methods = [method for method in (RANDOM, CCE, UB, MCE) if replicate < counts[setting].get(method, 0)]
            cells.append(raw)
            if {UB, MCE} & set(methods):
                cells.append(inverted)
            for method in methods:
                needs = (*both, Need(name, inverted)) if method in (UB, MCE) else both
                cells.append(Cell(setting, method, (replicate,), params, needs))
    return cells


def _only(params: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: params[name] for name in names}


def budget(cell: Cell) -> tuple[float, str]:
    """Iterations of what a cell trains: discriminator, generator, latents; else steps of its chains, or epochs."""
    params = cell.params
    if cell.method in LOSSES:
        name = "iterations_markov" if cell.method in (UB, MCE) else "iterations"
        return params["discriminator"][name][-1], "iterations"
    if cell.method == RANDOM:
        return params["pool_steps"], "iterations"
    part, name = {CLASSIFIER: ("classifier", "epochs"), RAW: ("generator", "steps"), INVERSION: ("inversion", "steps")}[
        cell.method
    ]
    return params[part][name], "iterations"


def chain_cell(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None, products: Sequence[dict[str, Any]]
) -> CellResult:
    """Train a discriminator, and after each number of iterations run the chains and judge their last states.

    Array "curves" has a row (iteration, every measure) for each number. The rows of the last one are the method's.
    """
    params, data, options = cell.params, load_images(cell.params, device), cell.params["discriminator"]
    replicate, stages = cell.replicates[0], Stages(checkpoint)
    decoder = load_decoder(params, products[1], device)
    inverted = products[2] if len(products) > 2 else None
    proposal = latent_proposal(decoder, params, device, params["angle"] if inverted else None)
    discriminator = _discriminator(cell, device)
    iterations = options["iterations_markov" if inverted else "iterations"] if cell.method in LOSSES else [0]
    if not stages.finished:
        if cell.method in LOSSES:
            rows = len(inverted["train"]) if inverted else len(data["train"][0])
            training = train_discriminator(
                discriminator,
                data["train"][0][:rows],
                proposal,
                steps=iterations[-1],
                loss=LOSSES[cell.method],
                batch_size=options["batch_size"],
                latents=inverted["train"].to(device) if inverted else None,
                logit_penalty=options["logit_penalty"],
                optimizer=torch.optim.Adam(discriminator.parameters(), lr=options["learning_rate"], betas=(0.5, 0.999)),
                generator=torch.Generator(device).manual_seed(104_000 + replicate),
                checkpoint=stages,
                snapshots=iterations,
            )
            stages.finish({"states": [training.snapshots[step] for step in iterations]})
        else:
            stages.finish({"states": [_stretched(discriminator, proposal, params, replicate, device)]})
    states = stages.finished[0]["states"]
    judge = Judge(params, products[0]["model"], data, device)
    if len(stages.finished) <= len(states):
        pool = None if inverted else _pool(proposal, params, replicate, device)
    for state in states[len(stages.finished) - 1 :]:
        discriminator.load_state_dict(state)
        images, values = _chains(cell, discriminator.eval(), pool, proposal, data, inverted, device)
        stages.finish({"values": judge.values(images) | values, "sheet": torch.as_tensor(sheet(images))})
    return _result(cell, iterations, stages.finished[1:])


def _result(cell: Cell, iterations: list[int], found: list[dict[str, Any]]) -> CellResult:
    rows = rows_of(cell, found[-1]["values"])
    if cell.method in LOSSES:
        for step, one in zip(iterations, found, strict=True):
            rows += rows_of(cell, one["values"], f"{cell.setting}, {step} iterations")
    curves = [[step, *(one["values"][name] for name in CURVES)] for step, one in zip(iterations, found, strict=True)]
    arrays = {"curves": np.asarray(curves, np.float32)}
    if cell.replicates[0] == 0 and cell.method == CCE:
        arrays["sheet"] = found[-1]["sheet"].numpy()
    return CellResult(rows, arrays)


def _chains(
    cell: Cell, discriminator: PairDiscriminator, pool: Tensor | None, proposal, data: Split, inverted, device
) -> tuple[Tensor, dict[str, float]]:
    """The chains' last states, and how they moved; the same random numbers for every discriminator of a replicate."""
    params = cell.params
    start = data["validation"][0][: params["samples"]]
    options = {"restart": True, "generator": torch.Generator(device).manual_seed(105_000 + cell.replicates[0])}
    if pool is not None:
        chains = pooled_metropolis_hastings(discriminator, pool, start, params["pool_steps"], **options)
    else:
        options |= {"start_latents": inverted["held_out"].to(device), "block": params["samples"]}
        chains = implicit_metropolis_hastings(discriminator, proposal, start, params["chain_steps"], **options)
    values = {"acceptance_rate": 100.0 * chains.acceptance_rate, "acceptance_rate_se": 100.0 * chains.acceptance_error}
    values |= {"never_moved": 100.0 * float(chains.never_moved.float().mean())}
    values |= {"distinct": 100.0 * len(chains.states.unique(dim=0)) / len(start)}
    return chains.samples, values


def _pool(proposal: LatentProposal, params: dict[str, Any], replicate: int, device: torch.device) -> Tensor:
    """Images of the generator that all discriminators of a replicate choose from."""
    return proposal.decode(proposal.draw(params["pool"], torch.Generator(device).manual_seed(103_000 + replicate)))


def coarse_critic(channels: int, width: int, generator: torch.Generator) -> nn.Sequential:
    """Images of side 28 or 32 to numbers (n,): halved by averages, then two convolutions of stride 2."""
    model = nn.Sequential(
        nn.AvgPool2d(2),
        nn.Conv2d(channels, width, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(width, 2 * width, 3, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(2 * width * 16, 1),
        nn.Flatten(0),
    )
    draw_initial(model, generator)
    return model


class _Affine(nn.Module):
    """A score shifted and stretched."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(()))
        self.register_buffer("factor", torch.ones(()))

    def forward(self, score: Tensor) -> Tensor:
        return (score - self.shift) * self.factor


def _discriminator(cell: Cell, device: torch.device) -> PairDiscriminator:
    options = cell.params["discriminator"]
    start = torch.Generator().manual_seed(106_000 + cell.replicates[0])
    network = nn.Sequential(*coarse_critic(cell.params["shape"][0], options["width"], start), _Affine())
    kind = MarkovDiscriminator if cell.method in (UB, MCE) else IndependentDiscriminator
    return kind(network, options["lower"]).to(device, memory_format=torch.channels_last)


@torch.no_grad()
def _stretched(discriminator: PairDiscriminator, proposal, params, replicate: int, device) -> dict[str, Tensor]:
    """State of an untrained discriminator whose scores of generated images have mean 0 and the given spread."""
    scores = discriminator.raw(proposal.decode(latents(params, replicate, device)[:1000]))
    affine = discriminator.network[-1]
    affine.shift.copy_(scores.mean())
    affine.factor.copy_(params["discriminator"]["spread"] / scores.std())
    return {name: value.clone() for name, value in discriminator.state_dict().items()}


METHODS = {CLASSIFIER: classifier_cell, RAW: raw_cell, INVERSION: inversion_cell}


def experiment(name: str, title: str, data: str, profiles: dict, unavailable: dict[str, str]) -> Experiment:
    """An experiment of these cells on one data set."""
    return Experiment(
        name=name,
        paper="004",
        summary=f"generators of {title}, filtered by implicit Metropolis-Hastings",
        profiles=profiles,
        run_cell=chain_cell,
        methods=METHODS,
        tiny=TINY,
        data={profile: ("digits",) if profile == "smoke" else (data,) for profile in profiles},
        unavailable=unavailable,
        budget=budget,
    )
