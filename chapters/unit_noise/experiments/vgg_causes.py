"""Why Structured Bayesian Pruning takes 18 of 4,736 units of the VGG-like network in `sbp-vgg`; published are 3,560.

Adam moves a parameter by at most its rate in a step, so that rate times steps says how far the noise can go at all.
Published: a rate of 1e-4, constant for 250 epochs and then linear to zero at 300, batches of 100, hence 13.75 natural
units of log(sigma), which starts at -5 and has to come near 0. The book profile of `sbp-vgg`: 5e-4, linear to zero over
60 epochs of 352 steps, hence 5.3. "SBP" has that distance here, "SBP, farther" the published one, by a factor of 26 in
place of 10 between the rate of the noise and that of the weights. None of it was tuned: the factor is the one that
makes the two distances equal.

The networks have a quarter of the width, which processors can train. With augmented images such a network is far from
fitting its training set, so that it needs every unit, wherever the noise could go: seen in the first run here, at half
of its epochs. The whole network of `sbp-vgg` fits its images. Hence "by heart": the same narrow network without
augmentation, which fits them too.

"no data" is the noise of one unit that nothing needs, under the divergence alone and each of the three schedules: the
epoch in which its signal-to-noise ratio falls below one is the first in which any unit can be expected to go.
"""

from functools import partial
from typing import Any

import torch

from bnnlib.nn import StructuredBayesianPruning
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, rows_of
from chapters.shared.images import reads
from chapters.unit_noise.experiments.images import TINY, budget, experiment, pruned_from, schedules
from chapters.unit_noise.experiments.vgg import _ADAM, _CIFAR, _SGD, _SMOKE

NAME = "sbp-vgg-causes"
FACTORS = {"SBP": 10.0, "SBP, farther": 26.0}  # 26 * 5e-5 * 60 * 352 / 2 = 13.7
ALONE = "no data"
_OURS = {"epochs": 60, "level": 0, "steps": 352, "images": 45_000}
SCHEDULES = {  # rate, which falls to 0 after `level` epochs
    "SBP": _OURS | {"learning_rate": 5e-4},
    "SBP, farther": _OURS | {"learning_rate": 1.3e-3},
    "published": {"epochs": 300, "level": 250, "steps": 500, "images": 50_000, "learning_rate": 1e-4},
}


def _cells(setting: str, common: dict, methods: tuple[str, ...], dense: int, epochs: int) -> list[Cell]:
    common = common | {"network": "VGG-like", "batch_size": 128, "dense": _SGD | {"epochs": dense}}
    sbp = _ADAM | {"learning_rate": 5e-5, "epochs": epochs, "candidates": [{"kl_weights": [1.0] * 14}]}
    chosen = {method: sbp | {"noise_factor": FACTORS[method]} for method in methods}
    return pruned_from(NAME, Cell(setting, "Original", (0,), common), chosen)


def falling_late(epoch: int, epochs: int, level: int) -> float:
    """Of the learning rate: 1 for `level` epochs, then linearly down to 0."""
    return min(1.0, (epochs - epoch) / (epochs - level))


def _schedules(cell: Cell) -> dict[str, Any]:
    if cell.method != ALONE:
        return schedules(cell)
    lengths = {name: cell.params[name] for name in ("epochs", "level")}
    return {"learning rate": (partial(falling_late, **lengths), range(lengths["epochs"]))}


def run_alone(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """The first epoch that leaves the noise of a unit without data past the threshold; one beyond the last if none."""
    params, unit = cell.params, StructuredBayesianPruning(1)
    crossed = params["epochs"] + 1
    optimizer = torch.optim.Adam(unit.parameters(), betas=(0.95, 0.999))
    for epoch in range(params["epochs"]):
        factor = falling_late(epoch, params["epochs"], params["level"])
        optimizer.param_groups[0]["lr"] = params["learning_rate"] * factor
        for _ in range(params["steps"]):
            optimizer.zero_grad()
            (unit.kl_divergence() / params["images"]).backward()
            optimizer.step()
        if unit.signal_to_noise().item() <= unit.threshold:
            crossed = epoch + 1
            break
    return CellResult(rows_of(cell, {"crossed_epoch": crossed}))


def _book() -> list[Cell]:
    common = _CIFAR | {"width": 0.25, "bfloat16": True, "timed": False}
    by_heart = _cells("k=0.25, by heart", common | {"augment": False}, tuple(FACTORS), 30, 60)
    alone = [Cell(one, ALONE, (0,), params) for one, params in SCHEDULES.items()]
    return _cells("k=0.25", common, ("SBP, farther",), 30, 60) + by_heart + alone


def _smoke() -> list[Cell]:
    common = _SMOKE | {"width": 0.05, "bfloat16": False}
    little = {"epochs": 2, "steps": 3, "level": 0, "learning_rate": 2.0, "images": 100}
    return [*_cells("width 0.05", common, tuple(FACTORS), 1, 1), Cell("SBP", ALONE, (0,), little)]


EXPERIMENTS = [
    experiment(
        name=NAME,
        summary="Why the VGG-like network keeps its units: noise that moves as far as published, at k = 0.25",
        profiles={"smoke": _smoke, "book": _book},
        methods={ALONE: run_alone},
        tiny=TINY | {"epochs": 1, "dense": {"epochs": 1}},
        reads=lambda cell: reads(cell) if cell.method != ALONE else [],
        schedules=_schedules,
        budget=lambda cell: budget(cell) if cell.method != ALONE else (cell.params["epochs"], "epochs"),
        value=8.0,
    )
]
