"""What repeated images do to the measures by themselves.

Chains over one pool end at some images twice or more: of 5,000 ends 79 % (MNIST) and 72 % (Fashion-MNIST) are different
images with a trained discriminator on the GAN's. Recall is the share of real images within balls around generated ones
that reach to the third nearest generated one, and repeats shrink these balls.

Here nothing is trained but the classifier. A pool stands in for a generator: blends of two training images, the
second with a fifth of the weight. 5,000 images are drawn from it either all different, or as a chain over it would: in
proportion to weights exp(spread times a normal number) that know nothing of the images. Spreads of 1.45 and 1.7 give
about the two shares. Written before it ran, for recall and coverage, in pairs of five replicates, repeats less none:
decided below zero, repeats alone lower it, and by about so much; undecided, this is not shown.
"""

from collections.abc import Sequence
from typing import Any

import torch

from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, Need, rows_of
from chapters.implicit_acceptance.experiments.images import CLASSIFIER, JUDGED, TINY, _only
from chapters.implicit_acceptance.experiments.judge import Judge, classifier_cell
from chapters.implicit_acceptance.experiments.mnist import BOOK
from chapters.shared.images import load_images, reads

NAME, DRAWS, BLEND = "imh-repeats", "Draws", 0.2
TITLES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}


def repeats_cell(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None, products: Sequence[dict[str, Any]]
) -> CellResult:
    """The measures of images that are all different, and of as many with repeats, one setting for each spread."""
    params, data = cell.params, load_images(cell.params, device)
    generator = torch.Generator(device).manual_seed(110_000 + cell.replicates[0])
    judge, images, count = Judge(params, products[0]["model"], data, device), data["train"][0], params["samples"]
    first, second = (torch.randperm(len(images), generator=generator, device=device)[: params["pool"]] for _ in "ab")
    chances = {"all different": torch.ones(len(first), device=device)}
    for spread in params["spreads"]:
        noise = torch.randn(len(first), generator=generator, device=device)
        chances[f"repeats, spread {spread}"] = (spread * noise).exp()
    rows = []
    for name, weights in chances.items():
        repeats = name != "all different"
        places = torch.multinomial(weights, count, replacement=repeats, generator=generator)
        made = (1.0 - BLEND) * images[first[places]] + BLEND * images[second[places]]
        values = judge.values(made) | {"distinct": 100.0 * len(places.unique()) / count}
        rows += rows_of(cell, values, f"{cell.setting}, {name}")
    return CellResult(rows)


def _cells(params: dict[str, Any], data: Sequence[str], replicates: int) -> list[Cell]:
    cells = []
    for name in data:
        own = params | {"data": name}
        judge = Cell(TITLES.get(name, name), CLASSIFIER, (0,), _only(own, JUDGED))
        draws = own | {"spreads": [1.45, 1.7]}
        cells.append(judge)
        cells += [Cell(judge.setting, DRAWS, (one,), draws, (Need(NAME, judge),)) for one in range(replicates)]
    return cells


SIZES = _only(BOOK, (*(name for name in JUDGED if name in BOOK), "pool")) | {"bootstrap": 2, "shape": [1, 28]}
EXPERIMENTS = [
    Experiment(
        name=NAME,
        summary="Images that are all different, and images with repeats that mean nothing: what the measures say",
        profiles={
            "smoke": lambda: _cells(SIZES | _only(TINY, ("held_out", "samples", "classifier", "pool")), ["digits"], 1),
            "book": lambda: _cells(SIZES, list(TITLES), 5),
        },
        run_cell=repeats_cell,
        methods={CLASSIFIER: classifier_cell},
        tiny=_only(TINY, ("data", "held_out", "samples", "classifier", "pool")),
        reads=reads,
    )
]
