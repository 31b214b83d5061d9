"""VGG-11 and ResNet-18 on five classes of CIFAR-10, with the other five as unknown images: papers/004, section 1.2.

Known are classes 0 to 4, as in the code of Atanov et al. (2019); the text says "randomly chosen". Adam with a learning
rate of 1e-3, constant for half of the epochs and then falling to 0, batches of 32, crops (padded with zeros, not by
reflection) and reflections. There is no published dropout network of ResNet-18. The book profile is made for a CPU: a
quarter of VGG-11's channels and an eighth of ResNet-18's, 6 epochs in place of 200, three networks in place of six,
bfloat16, and no dropout network. About 1,000 training images fit the temperatures. "BN, matched" is a control of ours:
the statistics that SBN estimates after training, without their noise; the book profile has it for two networks.
"""

from __future__ import annotations

from book.lab.cells import Cell, Experiment, Need, epochs_of
from chapters.batch_statistics.experiments.images import SOURCES, TINY, run_cell
from chapters.batch_statistics.experiments.matched import run_matched

NAME, MATCHED = "sbn-cifar5", "BN, matched"
_TRAIN = {"batch_size": 32, "learning_rate": 1e-3, "constant": 0.5}
_COMMON = {"shape": [3, 32], "classes": 5, "unknown": "rest", "draws": 50, "shown_features": 1} | _TRAIN
_CIFAR = {"data": "cifar10", "held_out": 5_000, "augment": True, "shown_batches": 200}


def _cells(params: dict, replicates: dict[str, int], widths: dict[str, float], dropout: list[float]) -> list[Cell]:
    def cell(network: str, method: str, rates: list[float] | float, needs: tuple[Need, ...] = ()) -> Cell:
        settings = params | {"network": network, "width": widths[network], "dropout": rates}
        return Cell(network, method, tuple(range(replicates[method])), settings, needs)

    cells = [cell("VGG-11", "BN", [0.0, 0.0]), cell("ResNet-18", "BN", 0.0)]
    cells.append(cell("ResNet-18", MATCHED, 0.0, (Need(NAME, cells[1]),)))
    return cells + ([cell("VGG-11", "DO", dropout)] if "DO" in replicates else [])


def _smoke() -> list[Cell]:
    data = {"data": "digits", "held_out": 300, "augment": False, "shown_batches": 10}
    settings = {"bfloat16": False, "bfloat16_scores": False, "chunk": 300, "batches": 10, "draws": 2, "epochs": 1}
    return _cells(
        _COMMON | data | settings, {"BN": 1, MATCHED: 1, "DO": 1}, {"VGG-11": 0.05, "ResNet-18": 0.05}, [0.25, 0.1]
    )


def _book() -> list[Cell]:
    settings = {"bfloat16": True, "bfloat16_scores": True, "chunk": 250, "batches": 1_400, "epochs": 6}
    return _cells(
        _COMMON | _CIFAR | settings | {"held_out": 2_000},
        {"BN": 3, MATCHED: 2},
        {"VGG-11": 0.25, "ResNet-18": 0.125},
        [0.25, 0.1],
    )


def _paper() -> list[Cell]:
    settings = {"bfloat16": False, "bfloat16_scores": False, "chunk": 1_000, "batches": 3_500, "epochs": 200}
    return _cells(
        _COMMON | _CIFAR | settings, {"BN": 6, MATCHED: 6, "DO": 6}, {"VGG-11": 1.0, "ResNet-18": 1.0}, [0.5, 0.4]
    )


EXPERIMENTS = [
    Experiment(
        name=NAME,
        paper="004",
        summary="Five classes of CIFAR-10 with VGG-11 and ResNet-18: Stochastic Batch Normalization on unknown classes",
        profiles={"smoke": _smoke, "book": _book, "paper": _paper},
        run_cell=run_cell,
        tiny=TINY,
        methods={MATCHED: run_matched},
        data={"smoke": ("digits",), "book": ("cifar10",), "paper": ("cifar10",)},
        unavailable={"paper": "not run: no GPU"},
        budget=epochs_of,
        sources=SOURCES,
        value=8.0,
    )
]
