"""What repeated images do to the measures, and what a draw by the weights of the pool does in place of a chain.

The ends of chains over one pool repeat images, and recall is the share of real images within balls around generated
ones that reach to the third nearest generated one: repeats shrink these balls. Here the discriminator of "Independent,
CCE" in the case that fails, the GAN of Fashion-MNIST, judges generators of its own (replicates that `imh-fmnist` does
not have), and four ways make images of its scores:

- "chain": 500 steps over a pool of 50,000, as in `filtered`;
- "resampled": draws from the same pool with weights in proportion to d / (1 - d), where such a chain settles;
- "permuted": the same draws with the weights permuted over the pool: as many repeats, and no information;
- "large pool": draws by weight from a pool of 200,000, with fewer repeats.

"effective" is 1 / sum of squared weights, in percent of the pool. Written before it ran, in pairs of three replicates:

- permuted less raw, in recall and coverage: decided below zero, repeats alone cost that; undecided, that is not shown;
- chain less permuted, in recall: what the discriminator does at the same number of repeats;
- large pool less resampled, in recall: decided above zero, a larger pool gives recall back;
- resampled less chain, in feature-FID and recall: undecided, nothing is seen of the start and of the 500 steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from bnnlib.sampling import LatentProposal, PairDiscriminator
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, Need, rows_of
from chapters.implicit_acceptance.experiments.filtered import CCE, RAW, _chains, _discriminator, _pool, _trained
from chapters.implicit_acceptance.experiments.generators import latent_proposal, load_decoder, raw_cell, schedules
from chapters.implicit_acceptance.experiments.images import CLASSIFIER, JUDGED, MADE, TINY, _only, budget
from chapters.implicit_acceptance.experiments.judge import Judge, classifier_cell
from chapters.implicit_acceptance.experiments.mnist import BOOK, SMOKE, models
from chapters.shared.images import load_images, reads
from chapters.shared.stages import Stages

NAME, GAN = "imh-repeats", "WGAN-GP"


def repeats_cell(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None, products: Sequence[dict[str, Any]]
) -> CellResult:
    """Train the discriminator, and judge the images of the four ways."""
    params, data, replicate = cell.params, load_images(cell.params, device), cell.replicates[0]
    proposal = latent_proposal(load_decoder(params, products[1], device), params, device)
    discriminator, steps = _discriminator(cell, device), params["discriminator"]["iterations"][-1]
    (state,) = _trained(cell, discriminator, {}, [steps], data, proposal, None, Stages(checkpoint))
    discriminator.load_state_dict(state)
    judge = Judge(params, products[0]["model"], data, device)
    pool = _pool(proposal, params, replicate, device)
    images, moved = _chains(cell, discriminator.eval(), pool, proposal, data, None, device)
    rows = rows_of(cell, judge.values(images) | moved, f"{cell.setting}, chain")
    generator = torch.Generator(device).manual_seed(109_000 + replicate)
    weights = torch.cat([_scores(discriminator, part) for part in pool.split(1000)]).softmax(dim=0)
    large, far = _large_pool(discriminator, proposal, params["large_pool"], generator)
    ways = {
        "resampled": (weights, lambda places: pool[places]),
        "permuted": (weights[torch.randperm(len(weights), generator=generator, device=device)], lambda p: pool[p]),
        "large pool": (far, lambda places: proposal.decode(large[places])),
    }
    for name, (chances, made) in ways.items():
        places = torch.multinomial(chances, params["samples"], replacement=True, generator=generator)
        values = {"distinct": 100.0 * len(places.unique()) / len(places)}
        values |= {"effective": 100.0 / (len(chances) * float(chances.double().square().sum()))}
        rows += rows_of(cell, judge.values(made(places)) | values, f"{cell.setting}, {name}")
    return CellResult(rows)


@torch.no_grad()
def _scores(discriminator: PairDiscriminator, images: Tensor) -> Tensor:
    return discriminator.score(images).double()


@torch.no_grad()
def _large_pool(
    discriminator: PairDiscriminator, proposal: LatentProposal, count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Latents of a pool whose images would fill the memory, and the images' weights."""
    latents = proposal.draw(count, generator)
    scores = [_scores(discriminator, proposal.decode(part)) for part in latents.split(1000)]
    return latents, torch.cat(scores).softmax(dim=0)


def _cells(params: dict[str, Any], replicates: Sequence[int]) -> list[Cell]:
    judge = Cell("Images", CLASSIFIER, (0,), _only(params, JUDGED))
    cells = [judge]
    for replicate in replicates:
        raw = Cell(GAN, RAW, (replicate,), _only(params, MADE), (Need(NAME, judge),))
        cells += [raw, Cell(GAN, CCE, (replicate,), params, (Need(NAME, judge), Need(NAME, raw)))]
    return cells


SMALL = SMOKE | models({"gan": TINY["generator"], "filter": TINY["discriminator"]})[GAN]
SIZES = BOOK | models({})[GAN] | {"bootstrap": 10, "data": "fashion_mnist", "shape": [1, 28], "large_pool": 200_000}
EXPERIMENTS = [
    Experiment(
        name=NAME,
        paper="004",
        summary="Repeated images of a pool: draws by weight, by permuted weights, and from a larger pool",
        profiles={
            "smoke": lambda: _cells(SMALL | {"shape": [1, 28], "large_pool": 400}, [5]),
            "book": lambda: _cells(SIZES, [5, 6, 7]),
        },
        run_cell=repeats_cell,
        methods={CLASSIFIER: classifier_cell, RAW: raw_cell},
        tiny=TINY | {"large_pool": 400},
        reads=reads,
        schedules=schedules,
        unavailable={"paper": "not in the paper; the book profile is our own experiment"},
        budget=budget,
    )
]
