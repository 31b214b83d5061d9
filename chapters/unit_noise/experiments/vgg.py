"""Structured Bayesian Pruning of a VGG-like network on CIFAR-10, Table 1 of Neklyudov et al. (2017).

As published, the network is pretrained and then trained with noise on its units, while batch norm keeps the statistics
of the pretraining and trains scale and shift; "SBPa" multiplies the divergence by 10 for the first two layers and by 5
for the third and fourth. units_1 to units_13 are the channels that the convolutions make, as the next layer reads them,
and units_14 the features of the hidden layer, the 14 columns of the table.

The book profile has the published network, 60 epochs in place of 200 and of 300, the learning rate of the pruning five
times the published one, so that it can move as far in a fifth of the steps, convolutions in bfloat16, and one network
each. None of it was tuned. It shared its machine with other work, so that it measures no latencies.
"""

from book.lab.cells import Cell
from chapters.unit_noise.experiments.images import TINY, experiment, pruned_from

NAME = "sbp-vgg"
_CIFAR = {"data": "cifar10", "held_out": 5_000, "scaling": "cifar10", "shape": [3, 32], "augment": True, "repeats": 25}
_SMOKE = {"data": "digits", "held_out": 300, "scaling": "cifar10", "shape": [3, 32], "augment": False, "repeats": 2}
_SGD = {"optimizer": "sgd", "learning_rate": 0.05, "weight_decay": 5e-4, "schedule": "cosine"}
_ADAM = {"optimizer": "adam", "weight_decay": 0.0, "schedule": "linear"}
_SCALED = [10.0, 10.0, 5.0, 5.0] + [1.0] * 10


def _cells(setting: str, common: dict, epochs: dict[str, int], adam: dict) -> list[Cell]:
    common = common | {"network": "VGG-like", "batch_size": 128, "dense": _SGD | {"epochs": epochs["dense"]}}
    sbp = _ADAM | adam | {"epochs": epochs["SBP"]}
    methods = {
        "SBP": sbp | {"candidates": [{"kl_weights": [1.0] * 14}]},
        "SBPa": sbp | {"candidates": [{"kl_weights": _SCALED}]},
    }
    if "SparseVD" in epochs:
        candidates = [{"kl_scale": 1.0}]
        methods["SparseVD"] = sbp | {"epochs": epochs["SparseVD"], "noise_factor": 10.0, "candidates": candidates}
    return pruned_from(NAME, Cell(setting, "Original", (0,), common), methods)


def _smoke() -> list[Cell]:
    epochs = {"dense": 1, "SBP": 1, "SparseVD": 1}
    adam = {"learning_rate": 1e-3, "noise_factor": 100.0}
    return _cells("width 0.05", _SMOKE | {"width": 0.05, "bfloat16": False, "best_epoch": True}, epochs, adam)


def _book() -> list[Cell]:
    epochs = {"dense": 60, "SBP": 60, "SparseVD": 60}
    adam = {"learning_rate": 5e-5, "noise_factor": 10.0}
    return _cells("k=1.0", _CIFAR | {"width": 1.0, "bfloat16": True, "timed": False}, epochs, adam)


def _paper() -> list[Cell]:
    epochs = {"dense": 200, "SBP": 300, "SparseVD": 300}
    adam = {"learning_rate": 1e-5, "noise_factor": 10.0}
    cells = []
    for width in (1.0, 1.5):
        cells += _cells(f"k={width}", _CIFAR | {"width": width, "bfloat16": True, "best_epoch": True}, epochs, adam)
    return cells


EXPERIMENTS = [
    experiment(
        name=NAME,
        summary="CIFAR-10 with a VGG-like network, pretrained, then pruned by noise on its units",
        profiles={"smoke": _smoke, "book": _book, "paper": _paper},
        tiny=TINY | {"epochs": 1, "dense": {"epochs": 1}},
        unavailable={"paper": "not run: no GPU"},
        value=9.0,
    )
]
