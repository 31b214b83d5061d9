"""Why Structured Bayesian Pruning takes 18 of 4,736 units of the VGG-like network in `sbp-vgg`; published are 3,560.

Adam moves a parameter by at most its rate in a step, so that rate times steps says how far the noise can go at all.
Published: a rate of 1e-4, constant for 250 epochs and then linear to zero at 300, batches of 100, hence 13.75 natural
units of log(sigma), which starts at -5 and has to come near 0. The book profile of `sbp-vgg`: 5e-4, linear to zero over
60 epochs of 352 steps, hence 5.3. A network of a quarter of the width, which processors can train, prunes once as there
and once as far as published, by a factor of 26 in place of 10 between the rate of the noise and that of the weights.
SBPa and SparseVD go as far, too. None of it was tuned: the factor is the one that makes the two distances equal.
"""

from __future__ import annotations

from book.lab.cells import Cell, Experiment
from chapters.unit_noise.experiments.images import MEASURED, TINY, budget, pruned_from, run_cell
from chapters.unit_noise.experiments.vgg import _ADAM, _CIFAR, _SCALED, _SGD, _SMOKE

NAME = "sbp-vgg-causes"
FARTHER = 26.0  # 26 * 5e-5 * 60 * 352 / 2 = 13.7


def _cells(setting: str, replicate: int, common: dict, dense: int, epochs: int, vd: bool) -> list[Cell]:
    common = common | {"network": "VGG-like", "batch_size": 128, "dense": _SGD | {"epochs": dense}}
    sbp = _ADAM | {"learning_rate": 5e-5, "epochs": epochs}
    plain = {"candidates": [{"kl_weights": [1.0] * 14}]}
    methods = {
        "SBP": sbp | plain | {"noise_factor": 10.0},
        "SBP, farther": sbp | plain | {"noise_factor": FARTHER},
    }
    if vd:
        methods["SBPa, farther"] = sbp | {"candidates": [{"kl_weights": _SCALED}], "noise_factor": FARTHER}
        methods["SparseVD"] = sbp | {"candidates": [{"kl_scale": 1.0}], "noise_factor": FARTHER}
    return pruned_from(NAME, Cell(setting, "Original", (replicate,), common), methods)


def _smoke() -> list[Cell]:
    return _cells("width 0.05", 0, _SMOKE | {"width": 0.05, "bfloat16": False}, 1, 1, True)


def _book() -> list[Cell]:
    common = _CIFAR | {"width": 0.25, "bfloat16": True, "timed": False}
    return [cell for one in range(3) for cell in _cells("k=0.25", one, common, 30, 60, one == 0)]


EXPERIMENTS = [
    Experiment(
        name=NAME,
        paper="004",
        summary="Why the VGG-like network keeps its units: noise that moves as far as published, at k = 0.25",
        profiles={"smoke": _smoke, "book": _book},
        run_cell=run_cell,
        tiny=TINY | {"epochs": 1, "dense": {"epochs": 1}},
        measured=MEASURED,
        data={"smoke": ("digits",), "book": ("cifar10",)},
        unavailable={"paper": "not in the paper; the book profile is our own experiment"},
        budget=budget,
        value=8.0,
    )
]
