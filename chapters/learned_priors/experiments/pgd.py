"""The networks of Table 2 under a projected gradient attack, beside one step of the fast gradient sign attack.

The paper attacks with one step. Ten steps that stay within the same distance of the image (Madry et al., 2018), from a
random start, find what one step misses: resistance that vanishes under them was the attack's weakness. As in `fgsm`
the attack goes through one network, for a sampler its last draw, and the average of four draws has to stand it; the
rows "accuracy_averaged_attack" go through that average, as an attacker who knows it would. The networks are the book's
of MNIST, three of each method, trained anew on a processor; both attacks get the same images, the first 2,000 of the
test set, so that their difference is paired. Nothing is chosen on them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from bnnlib import metrics
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, Need, profiles, rows_of
from chapters.learned_priors.experiments.fgsm import NUM_DRAWS, Models, averages, victims
from chapters.learned_priors.experiments.mnist import NAME, POINT, TINY, cells
from chapters.learned_priors.experiments.mnist_train import reads
from chapters.shared.attacks import fgsm, pgd

SIZES = (0.05, 0.1, 0.2)
ANEW = "MNIST, trained anew"  # a name of their own: the networks of "aeb-mnist" are a GPU's, whose files are gone


def attacked(kind: str, models: Models, x: Tensor, size: float, params: dict[str, Any], seed: int) -> Tensor:
    """The images moved by one attack, "FGSM" or "PGD", through the average of the models' probabilities."""
    generator = torch.Generator(x.device).manual_seed(seed)
    moved = []
    for part in x.split(params["batch"]):
        if kind == "FGSM":
            moved.append(fgsm(models, part, size=size))
        else:
            steps = params["steps"]
            moved.append(pgd(models, part, size=size, steps=steps, random_start=True, generator=generator))
    return torch.cat(moved)


def run_cell(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None, products: Sequence[dict[str, Any]]
) -> CellResult:
    """Accuracy of one method's network on the images that each attack has moved, for every size."""
    _, models, (x, y) = victims(cell, device, products)
    x, y = x[: cell.params["images"]], y[: cell.params["images"]]
    ways = {"accuracy": models[-1:]} | ({} if cell.method in POINT else {"accuracy_averaged_attack": models})
    rows = rows_of(cell, {"accuracy": metrics.accuracy(averages(models, x)[0], y)})
    for size in cell.params["sizes"]:
        for kind in ("FGSM", "PGD"):
            values = {
                name: metrics.accuracy(
                    averages(models, attacked(kind, through, x, size, cell.params, 75_000 + cell.replicates[0]))[0], y
                )
                for name, through in ways.items()
            }
            rows += rows_of(cell, values, f"{cell.setting}, {kind} zeta={size:g}")
    return CellResult(rows)


def _cells(profile: str, replicates: int, images: int, steps: int) -> list[Cell]:
    shared = {"sizes": list(SIZES), "draws": NUM_DRAWS, "images": images, "steps": steps, "batch": 500}
    found = []
    for one in cells("mnist", profile, replicates, augmented=0):
        need = Need(NAME["mnist"], replace(one, setting=ANEW))
        found.append(Cell(one.setting, one.method, one.replicates, shared | {"network": one.params}, (need,)))
    return found


EXPERIMENTS = [
    Experiment(
        name="aeb-pgd",
        summary="MNIST networks under ten projected gradient steps, beside the paper's one step",
        profiles=profiles(_cells, smoke=("smoke", 1, 100, 2), book=("book", 3, 2_000, 10)),
        run_cell=run_cell,
        tiny={"network": TINY, "images": 50, "steps": 2},
        reads=reads,
        budget=lambda cell: (cell.params["network"]["epochs"], "epochs"),
        value=6.0,
    )
]
