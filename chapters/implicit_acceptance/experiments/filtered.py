"""How the experiments on images filter a trained generator by implicit Metropolis-Hastings.

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
deviation that is fixed beforehand. It refuses half of the proposals, a trained one 63 to 89 %, by a smooth function of
the image that has nothing to do with the data.

"Independent, CCE, picked" trains a discriminator in every way that its parameter "candidates" lists, with its weights
averaged or not and a learning rate that falls or not, and lets the one with the least cross-entropy of held-out
training images and fresh generated ones run the chains. The test images have no part in it. What every candidate is
worth on them is reported beside it.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bnnlib.functional.metropolis_hastings import conditional_cross_entropy
from bnnlib.sampling import (
    IndependentDiscriminator,
    LatentProposal,
    MarkovDiscriminator,
    PairDiscriminator,
    implicit_metropolis_hastings,
)
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, rows_of
from chapters.implicit_acceptance.discriminating import train_discriminator
from chapters.implicit_acceptance.experiments.generators import latent_proposal, latents, load_decoder, sheet
from chapters.implicit_acceptance.experiments.judge import MEASURES, Judge
from chapters.implicit_acceptance.pool import pooled_metropolis_hastings
from chapters.shared.images import Split, load_images
from chapters.shared.networks.layers import draw_initial
from chapters.shared.stages import Stages
from chapters.shared.training import falling

RAW, RANDOM, CCE, UB, MCE = "Raw", "Random discriminator", "Independent, CCE", "Markov, UB", "Markov, MCE"
PICKED = "Independent, CCE, picked"
LOSSES = {CCE: "cce", PICKED: "cce", UB: "ub", MCE: "mce"}
CURVES = (*MEASURES, "acceptance_rate", "never_moved")  # columns of the array "curves" behind the iteration


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
            states = _trained(cell, discriminator, {}, iterations, data, proposal, inverted, stages)
            stages.finish({"states": states})
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


def picked_cell(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None, products: Sequence[dict[str, Any]]
) -> CellResult:
    """Train the candidates, pick by the held-out loss after the last iteration, judge the pick as `chain_cell` does.

    The generator as it is and each candidate after its last iteration are judged too, in rows of their names: another
    device may have trained another generator than the one behind the rows of other cells.
    """
    params, data, replicate = cell.params, load_images(cell.params, device), cell.replicates[0]
    stages, iterations, names = Stages(checkpoint), params["discriminator"]["iterations"], sorted(params["candidates"])
    proposal = latent_proposal(load_decoder(params, products[1], device), params, device)
    discriminator = _discriminator(cell, device)
    for name in names[len(stages.finished) :]:
        options, discriminator = params["candidates"][name], _discriminator(cell, device)
        states = _trained(cell, discriminator, options, iterations, data, proposal, None, stages)
        losses = [_held_out(cell, discriminator, state, proposal, data["validation"][0]) for state in states]
        stages.finish({"states": states, "losses": losses})
    trained, last = dict(zip(names, stages.finished, strict=False)), len(iterations) - 1
    pick = min(names, key=lambda name: trained[name]["losses"][last])
    judge = Judge(params, products[0]["model"], data, device)
    if len(stages.finished) == len(names):
        images = proposal.decode(latents(params, replicate, device))
        stages.finish({"values": judge.values(images)})
    places = [(pick, step) for step in range(last)] + [(name, last) for name in names]
    pool = _pool(proposal, params, replicate, device)
    for name, step in places[len(stages.finished) - len(names) - 1 :]:
        discriminator.load_state_dict(trained[name]["states"][step])
        images, values = _chains(cell, discriminator.eval(), pool, proposal, data, None, device)
        stages.finish({"values": judge.values(images) | values | {"held_out_loss": trained[name]["losses"][step]}})
    raw, *judged = stages.finished[len(names) :]
    found = dict(zip(places, judged, strict=True))
    result = _result(cell, iterations, [found[pick, step] for step in range(last + 1)])
    for name in names:
        values = found[name, last]["values"] | {"picked": float(name == pick)}
        result.rows.extend(rows_of(cell, values, f"{cell.setting}, {name}"))
    result.rows.extend(rows_of(cell, raw["values"], f"{cell.setting}, raw"))
    return result


def _trained(
    cell: Cell,
    discriminator: PairDiscriminator,
    candidate: dict[str, Any],
    iterations: list[int],
    data: Split,
    proposal: LatentProposal,
    inverted: dict[str, Tensor] | None,
    stages: Stages,
) -> list[dict[str, Tensor]]:
    """States of a discriminator after these numbers of iterations; a candidate's options are "average", "falling"."""
    options, device = cell.params["discriminator"], data["train"][0].device
    rows, steps = len(inverted["train"]) if inverted else len(data["train"][0]), iterations[-1]
    training = train_discriminator(
        discriminator,
        data["train"][0][:rows],
        proposal,
        steps=steps,
        loss=LOSSES[cell.method],
        batch_size=options["batch_size"],
        latents=inverted["train"].to(device) if inverted else None,
        logit_penalty=options["logit_penalty"],
        optimizer=torch.optim.Adam(discriminator.parameters(), lr=options["learning_rate"], betas=(0.5, 0.999)),
        schedule=partial(falling, steps=steps) if candidate.get("falling") else None,
        average=candidate.get("average", 0.0),
        generator=torch.Generator(device).manual_seed(104_000 + cell.replicates[0]),
        checkpoint=stages,
        snapshots=iterations,
    )
    return [training.snapshots[step] for step in iterations]


@torch.no_grad()
def _held_out(
    cell: Cell, discriminator: PairDiscriminator, state: dict[str, Tensor], proposal: LatentProposal, real: Tensor
) -> float:
    """Conditional cross-entropy, in nats, of held-out training images and as many fresh generated ones."""
    discriminator.load_state_dict(state)
    generator = torch.Generator(real.device).manual_seed(108_000 + cell.replicates[0])
    made = proposal.decode(proposal.draw(len(real), generator))
    return float(conditional_cross_entropy(*(discriminator.eval().score(images) for images in (real, made))))


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
