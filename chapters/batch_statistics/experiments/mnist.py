"""LeNet-5 on MNIST of Atanov et al. (2019), papers/004 section 1.2: error, likelihood and entropy on unknown images.

The published unknown images are notMNIST's letters, which are not available here: Fashion-MNIST's clothes stand in.
Batch size, optimizer, learning rate and dropout are the published ones. The book profile is made for a CPU: four
networks of 5 epochs and one with dropout of 4, in place of six of 50, trained in bfloat16, in which the 100 draws of
the dropout network are scored too. The paper profile has the published epochs, six networks, and one with dropout,
whose masks are its draws; it was trained on a GPU and scored on a CPU, and has the best epoch on the test images
beside the last, as the published table. 5,000 training images are kept for the temperatures.
"BN, matched" is our control, as in `cifar5`; the book profile trains its networks again.
"""

from book.lab.cells import Cell, Need
from chapters.batch_statistics.experiments.matched import MATCHED, experiment

NAME = "sbn-mnist"
_TRAIN = {"batch_size": 16, "learning_rate": 1e-3, "constant": 0.0, "augment": False}
_COMMON = {"network": "LeNet-5", "shape": [1, 28], "draws": 50, "shown_batches": 300, "shown_features": 2} | _TRAIN
_MNIST = {"data": "mnist", "held_out": 5_000, "classes": 10, "unknown": "fashion_mnist", "unknown_rows": 5_000}


def _cells(params: dict, replicates: dict[str, int], epochs: dict[str, int]) -> list[Cell]:
    dropout = {"BN": 0.0, "DO": 0.5}
    return [
        Cell("LeNet-5", name, tuple(range(number)), params | {"dropout": dropout[name], "epochs": epochs[name]})
        for name, number in replicates.items()
    ]


def _control(trained: Cell, draws: int, rows: int, needs: bool = True) -> Cell:
    params = trained.params | {"noise_draws": draws, "noise_rows": rows}
    return Cell("LeNet-5", MATCHED, trained.replicates, params, (Need(NAME, trained),) if needs else ())


def _smoke() -> list[Cell]:
    data = {"data": "digits", "held_out": 300, "classes": 10, "unknown": "digits", "unknown_rows": 100}
    settings = {"bfloat16": False, "bfloat16_scores": False, "chunk": 200, "batches": 40, "draws": 4}
    settings |= {"shown_batches": 40, "best_epoch": True}
    cells = _cells(_COMMON | data | settings, {"BN": 2, "DO": 1}, {"BN": 2, "DO": 1})
    return [*cells, _control(cells[0], 4, 60)]


def _book() -> list[Cell]:
    settings = _COMMON | _MNIST | {"bfloat16": True, "batches": 3_400}
    plain = _cells(settings | {"bfloat16_scores": False, "chunk": 50}, {"BN": 4}, {"BN": 5})
    dropout = _cells(settings | {"bfloat16_scores": True, "chunk": 200}, {"DO": 1}, {"DO": 4})
    return [*plain, *dropout, _control(plain[0], 20, 1_000, needs=False)]


def _paper() -> list[Cell]:
    settings = {"bfloat16": False, "bfloat16_scores": False, "chunk": 1_000, "batches": 17_000, "unknown_rows": 10_000}
    settings |= {"best_epoch": True}
    cells = _cells(_COMMON | _MNIST | settings, {"BN": 6, "DO": 1}, {"BN": 50, "DO": 50})
    return [*cells, _control(cells[0], 50, 5_000)]


EXPERIMENTS = [
    experiment(
        name=NAME,
        summary="MNIST with LeNet-5: Stochastic Batch Normalization, deep ensembles and dropout on unknown images",
        profiles={"smoke": _smoke, "book": _book, "paper": _paper},
    )
]
