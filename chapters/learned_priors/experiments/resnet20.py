"""ResNet20 on CIFAR-10 at 30 to 90 percent sparsity, Table 3 of Deng, Zhang, Liang and Lin (2019).

A network is pre-trained with SGHMC; from it, four methods sample under the spike-and-slab Gaussian-Laplace prior while
magnitude pruning removes weights. They differ in how the prior's latent variables move: not at all (A-SGHMC), to their
optimum at once (A-SGHMC-EM) or by stochastic approximation (SGHMC-SA, A-SGHMC-SA), and in whether the temperature falls
(A-). Settings are those of the published code, the published spike and slab included: the Gaussian is the narrow one.

The paper reports the best epoch on the test images, of those within half a percent of the final sparsity. Here no test
image chooses anything: "accuracy" is that of the last network. The paper's choice, "accuracy_best_sparse", follows from
the stored curves. "accuracy_best_epoch" is the best of all epochs: at 70 and 90 % the first one, in which most weights
are not yet zero.

The book profile is made for an hour of one GPU that other experiments share: 100 epochs that rise to a learning
rate of 0.4 and fall to 0, in batches of 500, then 20 sparse ones, in bfloat16. None of this was tuned.

A shorter chain runs all clocks of the published one faster by the same factor: the learning rate, the stochastic
approximation, the cooling and the sparsity all do in a step what they did in as many steps.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, Need, rows_of
from chapters.learned_priors.distributed import launch
from chapters.learned_priors.experiments import resnet20_stage
from chapters.learned_priors.experiments.resnet20_stage import PUBLISHED_STEPS, load_images, run_stage

NAME = "aeb-resnet20"
METHODS = ("A-SGHMC-SA", "A-SGHMC", "SGHMC-SA", "A-SGHMC-EM")
PRIORS = {30: (0.5, 1e-3), 50: (0.1, 5e-4), 70: (0.1, 5e-5), 90: (0.005, 1e-5)}  # S in percent to (v0, v1)
TOTAL, PRUNABLE = 272_474, 267_264  # parameters of ResNet20, and those in the convolutions of its blocks


def layer_rate(percent: int) -> float:
    """Share to prune of each prunable layer so that `percent` of the whole network are 0, cut to three digits."""
    return math.floor(percent * 10 * TOTAL / PRUNABLE) / 1000


def run_cell(
    cell: Cell,
    device: torch.device,
    checkpoint: Checkpoint | None,
    devices: int = 1,
    products: Sequence[dict[str, Any]] = (),
) -> CellResult:
    """The pre-trained network, which is its product, or a sparse one that starts from it."""
    stage, first = ("sparse", products[0]["model"]) if products else ("pretraining", None)
    result = launch(run_stage, cell.params[stage], first, checkpoint, devices=devices, device=device)
    curve = torch.tensor(result["curve"])
    values = {"accuracy": curve[-1, 2], "sparsity": curve[-1, 3], "accuracy_best_epoch": curve[:, 2].max()}
    values |= {"loss_train": curve[-1, 1], **result["latent"]}
    rows = rows_of(cell, values)
    rows[0]["note"] = _note(cell, result["data"])
    product = None if products else {"model": result["model"]}
    return CellResult(rows, {"curve": np.asarray(result["curve"], dtype=np.float32)}, product)


def _stage(cell: Cell) -> dict[str, Any]:
    return cell.params["sparse" if cell.needs else "pretraining"]


def reads(cell: Cell) -> list[partial]:
    """The call of `load_images` that a cell makes, for its probe."""
    return [partial(load_images, _stage(cell)["data"], torch.device("cpu"))]


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell, for its probe."""
    return resnet20_stage.schedules(_stage(cell))


def best_when_sparse(arrays: Mapping[tuple[str, str, int, str], np.ndarray]) -> list[dict[str, Any]]:
    """Rows with the paper's choice: the best test accuracy of the epochs within half a percent of the final sparsity.

    Args:
        arrays: curves of `run_cell`, by (setting, method, replicate, "curve").
    """
    rows = []
    for (setting, method, replicate, _), curve in sorted(arrays.items()):
        active = curve[:, 3]
        if active[-1] == 100.0:
            continue  # the pre-training, which prunes nothing
        best = float(curve[active <= active[-1] + 0.5, 2].max())
        row = {"setting": setting, "method": method, "replicate": replicate, "metric": "accuracy_best_sparse"}
        rows.append(row | {"value": round(best, 4)})  # as the accuracies of 10,000 images that float32 has rounded
    return rows


def _note(cell: Cell, title: str) -> str:
    first, sparse = cell.params["pretraining"], cell.params.get("sparse")
    text = f"{title}; pre-training of {first['epochs']} epochs in batches of {first['batch_size']}"
    if sparse:
        speed = sparse["speed"]
        text += f", then {sparse['epochs']} in batches of {sparse['batch_size']}"
        text += f" with the published clocks {speed:.3g} times as fast" if speed > 1 else ""
    return f"{text}; the last network, where the paper takes its best epoch on the test images"


def _cells(
    common: dict[str, Any], first: dict[str, Any], sparse: dict[str, Any], images: int, levels: dict[int, int]
) -> list[Cell]:
    """Networks by level of sparsity and its number of replicates, and the pre-trained one of each replicate."""
    cells = []
    for seed in range(max(levels.values())):
        chosen = tuple(percent for percent, count in levels.items() if seed < count)
        cells += _replicate(common | {"seed": seed}, first, sparse, images, chosen)
    order = ["S=0", *(f"S={percent}" for percent in levels)]
    return sorted(cells, key=lambda cell: order.index(cell.setting))  # what matters most first, if time runs out


def _replicate(
    common: dict[str, Any], first: dict[str, Any], sparse: dict[str, Any], images: int, levels: tuple[int, ...]
) -> list[Cell]:
    speed = PUBLISHED_STEPS / (sparse["epochs"] * images / sparse["batch_size"])
    pretraining, replicates = common | first | {"inverse_temperature": 2e4}, (common["seed"],)
    cells = [Cell("S=0", "SGHMC", replicates, {"pretraining": pretraining})]
    needs = (Need(NAME, cells[0]),)
    for percent in levels:
        v0, v1 = PRIORS[percent]
        stage = common | sparse | {"spike_scale": v0, "slab_variance": v1, "rate": layer_rate(percent)}
        # the method's constants are those of the published code; it also learns sigma and delta, which its authors
        # advise against in their README: learned = ["rho", "kappa"]
        stage |= {"inverse_temperature": 1e3, "learned": ["rho", "kappa", "sigma", "inclusion"], "persistent": False}
        stage |= {"schedule": "tenths", "learning_rate": 1e-4 * speed, "speed": speed}
        for method in METHODS:
            params = {"pretraining": pretraining, "sparse": stage | {"method": method}}
            cells.append(Cell(f"S={percent}", method, replicates, params, needs))
    return cells


def _common(data: str, depth: int, width: int, bfloat16: bool) -> dict[str, Any]:
    sizes = {"data": data, "depth": depth, "width": width, "bfloat16": bfloat16}
    return sizes | {"weight_decay": 5e-4}  # times 50,000: the paper's 25


def _smoke() -> list[Cell]:
    first = {"epochs": 4, "batch_size": 32, "learning_rate": 0.05, "schedule": "up-down"}
    return _cells(_common("simulated", 8, 4, False), first, {"epochs": 4, "batch_size": 32}, 512, {90: 1})


def _book() -> list[Cell]:
    first = {"epochs": 100, "batch_size": 500, "learning_rate": 0.4, "schedule": "up-down"}
    sparse = {"epochs": 20, "batch_size": 500}
    return _cells(_common("cifar10", 20, 16, True), first, sparse, 50_000, {90: 3, 50: 3, 70: 1, 30: 1})


def _paper() -> list[Cell]:
    first = {"epochs": 1000, "batch_size": 1000, "learning_rate": 0.1, "schedule": "tenths"}
    sparse = {"epochs": 1000, "batch_size": 1000}
    return _cells(_common("cifar10", 20, 16, False), first, sparse, 50_000, dict.fromkeys((90, 70, 50, 30), 1))


def _budget(cell: Cell) -> tuple[float, str]:
    return sum(cell.params[stage]["epochs"] for stage in ("pretraining", "sparse") if stage in cell.params), "epochs"


_STAGE = {"data": "simulated", "depth": 8, "width": 4, "epochs": 4, "batch_size": 32}
_TINY = {"pretraining": _STAGE | {"learning_rate": 0.05}}
_TINY["sparse"] = _STAGE | {"spike_scale": 0.005, "slab_variance": 1e-5, "rate": 0.917}
_TINY["sparse"] |= {"learning_rate": 0.078125, "speed": 781.25}

EXPERIMENTS = [
    Experiment(
        name=NAME,
        summary="ResNet20 on CIFAR-10 pruned to 30-90 %: SGHMC with a fixed, an EM or an SA prior, annealed or not",
        profiles={"smoke": _smoke, "book": _book, "paper": _paper},
        run_cell=run_cell,
        tiny=_TINY,
        reads=reads,
        schedules=schedules,
        unavailable={"paper": "not run: 17,000 epochs in all, where the book profile has 940"},
        several_devices=True,
        derived=best_when_sparse,
        budget=_budget,
        value=10.0,
    )
]
