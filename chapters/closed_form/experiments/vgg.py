"""Experiment 9 of Saha, Liu and Liang (2024): a VGG-like network on CIFAR-10, pretrained, then pruned by p*.

The book profile has all channels, 40 epochs of each training, two priors to choose from, and convolutions in bfloat16.
Of the training only "pre-trained weights" and the grid of the paper profile are published. Both augment by crops and
reflections, which the paper does not mention.
"""

from itertools import product

from book.lab.cells import Cell
from chapters.closed_form.experiments.images import TINY, experiment

DROP_RATES = [0, 50, 75, 90, 95, 98, 98.5]
_SGD = {"optimizer": "sgd", "momentum": 0.9, "cosine": True, "minibatch_scheme": "uniform"}


def _cell(data: dict, train: dict, pretrain: dict, candidates: list[dict]) -> Cell:
    params = {"network": "VGG-like", "shape": [3, 32], "drop_rates": DROP_RATES, "choose_at": [0, 95]}
    params |= data | train | {"pretrain": pretrain, "candidates": candidates}
    return Cell("VGG-like", "sBNN", (0,), params)


def _candidate(log_tau1: float, log_tau0: float, kl_scale: float, pi: float = 0.5) -> dict:
    prior = {"log_tau1": log_tau1, "log_tau0": log_tau0, "pi": pi}
    return prior | {"kl_scale": kl_scale, "initial_scale": 0.002}


_CIFAR = {"data": "cifar10", "held_out": 5_000, "scaling": "cifar10", "augment": True}


def _smoke() -> list[Cell]:
    data = {"data": "digits", "held_out": 300, "scaling": "cifar10", "width": 0.05, "augment": False}
    train = _SGD | {"bfloat16": False, "epochs": 1, "batch_size": 128, "learning_rate": 0.01, "warm_up": 0}
    return [_cell(data, train, {"epochs": 1, "learning_rate": 0.05}, [_candidate(0.0, -5.0, 0.1)])]


def _book() -> list[Cell]:
    train = _SGD | {"bfloat16": True, "epochs": 40, "batch_size": 128, "learning_rate": 0.05, "warm_up": 6}
    pretrain = {"epochs": 40, "learning_rate": 0.05}
    return [_cell(_CIFAR | {"width": 1.0}, train, pretrain, [_candidate(0.0, -5.0, 0.1), _candidate(-1.0, -3.0, 1.0)])]


def _paper() -> list[Cell]:
    train = _SGD | {"bfloat16": True, "epochs": 200, "batch_size": 128, "learning_rate": 0.02, "warm_up": 20}
    pretrain = {"epochs": 200, "learning_rate": 0.05}
    grid = product((-2.0, -1.0, 0.0), (-6.0, -5.0, -4.0), (0.25, 0.5, 0.75))
    candidates = [_candidate(slab, spike, 1.0, pi) for slab, spike, pi in grid]
    return [_cell(_CIFAR | {"width": 1.0}, train, pretrain, candidates)]


EXPERIMENTS = [
    experiment(
        name="sbnn-vgg",
        summary="CIFAR-10 with a VGG-like network, pretrained, then pruned by closed-form inclusion probabilities",
        profiles={"smoke": _smoke, "book": _book, "paper": _paper},
        tiny=TINY | {"epochs": 1},
        unavailable={"paper": "not run: 27 candidates of 200 epochs"},
        budget=lambda cell: (cell.params["pretrain"]["epochs"] + cell.params["epochs"], "epochs"),
        value=9.0,
    )
]
