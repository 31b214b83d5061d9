"""VGG-11 and ResNet-18 on five classes of CIFAR-10, with the other five as unknown images: papers/004, section 1.2.

Known are classes 0 to 4, as in the code of Atanov et al. (2019); the text says "randomly chosen", which is the setting
"VGG-11, drawn classes": five classes that we have drawn once. Adam with a learning rate of 1e-3, constant for half of
the epochs and then falling to 0, batches of 32, crops (padded with zeros, not by reflection) and reflections. There is
no published dropout network of ResNet-18. The book profile has the published networks, 16 epochs in place of 200, three
networks in place of six, and bfloat16. About 1,000 training images fit the temperatures. "BN, matched" is a control of
ours: the statistics that SBN estimates after training, without their noise.
"""

from typing import Any

import torch

from book.lab.cells import Cell, Need
from chapters.batch_statistics.experiments.matched import MATCHED, experiment

NAME, DRAWN = "sbn-cifar5", "VGG-11, drawn classes"
_TRAIN = {"batch_size": 32, "learning_rate": 1e-3, "constant": 0.5}
_COMMON = {"shape": [3, 32], "classes": 5, "unknown": "rest", "draws": 50, "shown_features": 1} | _TRAIN
_CIFAR = {"data": "cifar10", "held_out": 5_000, "augment": True, "shown_batches": 200}
Params = dict[str, Any]


def drawn_classes() -> list[int]:
    """Five of the ten classes, drawn once."""
    return torch.randperm(10, generator=torch.Generator().manual_seed(94_000))[:5].sort().values.tolist()


def _trained(params: Params, number: int, widths: dict[str, float]) -> list[Cell]:
    """The networks without dropout, `number` of each."""
    rates: dict[str, Any] = {"VGG-11": [0.0, 0.0], "ResNet-18": 0.0}
    own = {name: {"network": name, "width": width, "dropout": rates[name]} for name, width in widths.items()}
    return [Cell(name, "BN", tuple(range(number)), params | more) for name, more in own.items()]


def _also_vgg(plain: Cell, rates: list[float]) -> list[Cell]:
    """VGG-11 with dropout, and VGG-11 that knows other classes."""
    dropped, drawn = plain.params | {"dropout": rates}, plain.params | {"known": drawn_classes()}
    return [Cell("VGG-11", "DO", plain.replicates, dropped), Cell(DRAWN, "BN", plain.replicates, drawn)]


def _all(trained: list[Cell], noise: Params, rates: list[float]) -> list[Cell]:
    """These cells, the controls that start from their networks, and `_also_vgg`."""
    controls = [Cell(one.setting, MATCHED, one.replicates, one.params | noise, (Need(NAME, one),)) for one in trained]
    return [*trained, *controls, *_also_vgg(trained[0], rates)]


def _smoke() -> list[Cell]:
    data = {"data": "digits", "held_out": 300, "augment": False, "shown_batches": 10}
    settings = {"bfloat16": False, "bfloat16_scores": False, "chunk": 300, "batches": 10, "draws": 2, "epochs": 1}
    settings |= {"best_epoch": True}
    trained = _trained(_COMMON | data | settings, 1, {"VGG-11": 0.05, "ResNet-18": 0.05})
    return _all(trained, {"noise_draws": 4, "noise_rows": 60}, [0.25, 0.1])


def _book() -> list[Cell]:
    settings = {"bfloat16": True, "bfloat16_scores": True, "chunk": 250, "batches": 1_400, "epochs": 16}
    trained = _trained(_COMMON | _CIFAR | settings | {"held_out": 2_000}, 3, {"VGG-11": 1.0, "ResNet-18": 1.0})
    return _all(trained, {"noise_draws": 20, "noise_rows": 1_000}, [0.5, 0.4])


def _paper() -> list[Cell]:
    settings = {"bfloat16": False, "bfloat16_scores": False, "chunk": 1_000, "batches": 3_500, "epochs": 200}
    settings |= {"best_epoch": True}
    trained = _trained(_COMMON | _CIFAR | settings, 6, {"VGG-11": 1.0, "ResNet-18": 1.0})
    return _all(trained, {"noise_draws": 50, "noise_rows": 5_000}, [0.5, 0.4])


EXPERIMENTS = [
    experiment(
        name=NAME,
        summary="Five classes of CIFAR-10 with VGG-11 and ResNet-18: Stochastic Batch Normalization on unknown classes",
        profiles={"smoke": _smoke, "book": _book, "paper": _paper},
        unavailable={"paper": "not run: no GPU"},
        value=8.0,
    )
]
