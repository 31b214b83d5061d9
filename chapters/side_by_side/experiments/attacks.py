"""Accuracy under attack, and the time of a prediction, of all methods with default settings on MNIST.

The attacker knows the method, all of its networks and the average that it predicts by, but not the draws: the gradient
goes through the average of `attack_draws` draws of a seed of its own, and what is attacked predicts by others. Chains
and ensembles have only their stored networks, so that there both are the same.

Times are of one thread and 128 images, the fastest of `repeats`, and of everything that is shipped: all networks of a
chain. They depend on the machine, and are compared within a cell: with removed units taken out, and with all there.
"""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bnnlib import metrics
from bnnlib.contest import METHODS, Predictor, log_predictive
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from book.lab.probes import first
from chapters.shared.attacks import fgsm, pgd
from chapters.side_by_side.arena import trained
from chapters.side_by_side.costs import costs, steps
from chapters.side_by_side.experiments.contest import SMOKE, UNAVAILABLE, image_reads
from chapters.side_by_side.images import TASKS

TASK = "MNIST"
SETTING = "MNIST, attacked, B = 1, default"
SIZES = (0.05, 0.1, 0.2)
ATTACKS: dict[str, Callable[..., Tensor]] = {"fgsm": fgsm, "pgd": pgd}
NAME = "side-attacks"


def attacked_accuracy(predictor: Predictor, x: Tensor, y: Tensor, params: dict[str, Any]) -> dict[str, float]:
    """Accuracy in percent under each attack of each size, of the average of all draws."""

    def through(rows: Tensor) -> Tensor:
        return log_predictive(predictor.differentiable(rows, params["attack_draws"], seed=1))

    found = {"accuracy": metrics.accuracy(log_predictive(predictor.predict(x, params["draws"])), y)}
    for name, attack in ATTACKS.items():
        more = {"steps": params["attack_steps"]} if name == "pgd" else {}
        for size in params["sizes"]:
            moved = attack(through, x, y, size, **more)
            found[f"accuracy_{name}_{size:g}"] = metrics.accuracy(
                log_predictive(predictor.predict(moved, params["draws"])), y
            )
    return found


@torch.no_grad()
def prediction_times(predictor: Predictor, x: Tensor, repeats: int) -> dict[str, float]:
    """Milliseconds for 128 images, of all networks that are shipped, as they are and with removed units taken out."""
    found = {}
    for name, network in {"dense": predictor.deployed, "compressed": predictor.compress()}.items():
        times = []
        for _ in range(repeats):
            began = time.perf_counter()
            network(x[:128])
            times.append(time.perf_counter() - began)
        found[f"milliseconds_{name}"] = 1e3 * predictor.networks * min(times)
    return found


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """One method with its default settings on every seed."""
    params, rows = cell.params, []
    settings = METHODS[cell.method].trials(1)[0]
    for replicate in cell.replicates:
        predictor, data, diverged = trained(TASKS[TASK], cell, settings, replicate, device)
        x, y, _ = data["test"]()
        x, y = x[: params["images"]], y[: params["images"]]
        found = attacked_accuracy(predictor, x, y, params) | prediction_times(predictor, x, params["repeats"])
        rows += rows_of(cell, found | {"diverged": float(diverged)}, replicate=replicate)
    return CellResult(rows)


def _cells(params: dict[str, Any], seeds: int, smoke: bool) -> list[Cell]:
    return [
        Cell(SETTING, method, tuple(range(seeds)), {**params, "steps": count})
        for method in (SMOKE if smoke else [one for one in METHODS if one in costs()[TASK]])
        for count in [4 if smoke else steps(TASK, method, TASKS[TASK].one, 1)]
    ]


_PARAMS = {
    **{"data": "mnist", "unknown": "fashion_mnist", "held_out": 5000, "scaling": "unit"},
    **{"draws": 30, "attack_draws": 10, "attack_steps": 10, "sizes": list(SIZES), "images": 1000, "repeats": 30},
}
_SMALL = {"data": "digits", "unknown": "digits", "held_out": 300, "shape": [1, 28], "images": 20, "repeats": 2}

EXPERIMENTS = [
    Experiment(
        name=NAME,
        summary="All methods on MNIST under attack, with default settings at equal cost",
        profiles=profiles(
            _cells,
            smoke=({**_PARAMS, **_SMALL, "draws": 2, "attack_draws": 2, "attack_steps": 2, "sizes": [0.1]}, 2, True),
            book=(_PARAMS, 3, False),
        ),
        unavailable={"paper": UNAVAILABLE},
        measured=("milliseconds_dense", "milliseconds_compressed"),
        data={"smoke": ("digits",), "book": ("mnist", "fashion_mnist")},
        run_cell=run_cell,
        reads=image_reads,
        tiny={"steps": 3, "draws": 2, "attack_draws": 2, "attack_steps": 2, "sizes": first(1), "repeats": 1}
        | {name: value for name, value in _SMALL.items() if name not in ("shape", "repeats")}
        | {"added": {"shape": [1, 28]}},
    )
]
