"""Experiments 6 and 7 of Saha, Liu and Liang (2024): fully connected networks on MNIST and CIFAR-10, against BbB.

The book profile trains by SGD with momentum: on MNIST for few epochs, as a CPU allows; on CIFAR-10 three networks of
each method for 60 epochs of images cropped and reflected, which the paper does not mention. 400 units a layer choose
between two weights of the KL term; the larger networks were given the smaller one beforehand, without a search (at 400
units the larger one was then chosen). The start of the means was not searched.
The settings "as published" of the same profile have the whole KL term, the 300 epochs, the optimizer without momentum,
the mini-batch weights and, of Table 4, the prior. Which of its three learning rates the paper took and how it started
it does not say: of the rates 0.05 and 0.01 and the two starts of `STARTS`, the first of each had the lowest mean of the
held-out errors at `CHOOSE_AT` after 60 epochs (1,200 units, one network; at 0.01 the smaller start left all weights in
the spike). "Smaller start" is the same from the other start. Both were chosen with 1,200 units: with 400, whose spike
is narrower in Table 4, every weight of the first start begins with p* above 1/2. So "400, smaller start, rate 0.005"
has the other start and the smallest published rate. Written down before it ran: that the networks of 400 units lose
everything with 98 % removed is due to start and rate, and not to their number of units or their prior, if here the
error with 98 % removed is within one point of that with nothing removed in all three runs; it is not, if it is above
50 % in all; and else they are a part of it. Read after the runs: by its letter they are a part, for the errors are 39
to 51 %. But from the first start they are 22 to 47 %, and with 90 % removed the two have the same error: the smaller
start begins at 2.9 % in place of 1.7, and does not explain what removing costs.
The paper profile has the published sizes, epochs, optimizer, learning rates and mini-batch weights, and searches the
published grid.
"""

from functools import partial
from itertools import product

from book.lab.cells import Cell
from chapters.closed_form.experiments.images import experiment

METHODS = ("sBNN", "BbB")
PROBLEMS = {
    "mnist": {"data": "mnist", "held_out": 10_000, "scaling": "blundell", "shape": [1, 28]},
    "cifar10": {"data": "cifar10", "held_out": 5_000, "scaling": "cifar10", "shape": [3, 32]},
}
DROP_RATES = [0, 50, 75, 90, 95, 98, 99]
CHOOSE_AT = [0, 95]  # drop rates in percent whose held-out errors a candidate is chosen by, their mean
BOOK_CANDIDATES = [
    {"log_tau1": 0.0, "log_tau0": -5.0, "pi": 0.5, "kl_scale": 0.1, "mean_scale": 0.5, "initial_scale": 0.005},
    {"log_tau1": 0.0, "log_tau0": -5.0, "pi": 0.5, "kl_scale": 0.3, "mean_scale": 0.5, "initial_scale": 0.005},
]
# fixed before the larger networks were trained
CHOSEN = {"sBNN": BOOK_CANDIDATES[:1], "BbB": BOOK_CANDIDATES[:1]}


def _cell(
    problem: str, units: int, method: str, candidates: list[dict], train: dict, inputs: int, replicate=0, suffix=""
) -> Cell:
    params = PROBLEMS[problem] | {"network": "mlp", "sizes": [inputs, units, units, 10], "drop_rates": DROP_RATES}
    params |= {"choose_at": CHOOSE_AT, "candidates": candidates} | train
    return Cell(f"{units}{suffix}", method, (replicate,), params)


def _digits(train: dict) -> dict:
    return {"data": "digits", "held_out": 300, "scaling": "unit"} | train


_SGD = {"optimizer": "sgd", "momentum": 0.9, "cosine": True, "minibatch_scheme": "uniform", "bfloat16": True}
_SMOKE = _digits(_SGD | {"epochs": 2, "batch_size": 256, "learning_rate": 0.05, "warm_up": 1, "bfloat16": False})
_BOOK = _SGD | {"batch_size": 128, "learning_rate": 0.1, "warm_up": 3}
_PUBLISHED = {"optimizer": "sgd", "momentum": 0.0, "cosine": False, "minibatch_scheme": "halving", "bfloat16": False}
_PAPER = _PUBLISHED | {"batch_size": 128, "epochs": 300, "warm_up": 0}
# c of Table 4, whose heads say log(tau) where it prints tau: log tau_1 = -1 + c and log tau_0 = -5 - c
CHOSEN_C = {400: 1.0, 1200: 0.02}
STARTS = {
    "as published": {"mean_scale": 1.0, "initial_scale": 0.02},
    "smaller start": {"mean_scale": 0.5, "initial_scale": 0.005},
}


def _published_grid() -> list[dict]:
    """pi, c with log tau_1 = -1 + c and log tau_0 = -5 - c, and the learning rate (of the mean loss), section 4.3."""
    return [
        {"log_tau1": -1.0 + c, "log_tau0": -5.0 - c, "pi": pi, "kl_scale": 1.0, "mean_scale": 1.0}
        | {"initial_scale": 0.02, "learning_rate": rate}
        for pi, c, rate in product((0.25, 0.5, 0.75), (0.0, 0.75, 1.5, 2.25, 3.0), (0.05, 0.01, 0.005))
    ]


def _as_published(units: int, start: str, replicate: int, rate: float = 0.05) -> Cell:
    c = CHOSEN_C[units]
    prior = {"log_tau1": -1.0 + c, "log_tau0": -5.0 - c, "pi": 0.5, "kl_scale": 1.0, "learning_rate": rate}
    train = _PAPER | {"bfloat16": True, "keyed": True}
    slower = "" if rate == 0.05 else f", rate {rate:g}"
    return _cell("mnist", units, "sBNN", [prior | STARTS[start]], train, 784, replicate, f", {start}{slower}")


def _mnist_book() -> list[Cell]:
    train = _BOOK | {"epochs": 15}
    cells = [_cell("mnist", 400, method, BOOK_CANDIDATES, train, 784) for method in METHODS]
    cells += [_cell("mnist", 1200, method, CHOSEN[method], train, 784) for method in METHODS]
    cells.append(_cell("mnist", 800, "sBNN", CHOSEN["sBNN"], train, 784))
    kinds = ((1200, "as published"), (400, "as published"), (1200, "smaller start"), (400, "smaller start", 0.005))
    return cells + [_as_published(*kind[:2], replicate, *kind[2:]) for kind in kinds for replicate in range(3)]


def _mnist_smoke() -> list[Cell]:
    return [_cell("mnist", 32, method, BOOK_CANDIDATES, _SMOKE, 784) for method in METHODS]


def _mnist_paper() -> list[Cell]:
    kinds = ((400, "sBNN"), (800, "sBNN"), (1200, "sBNN"), (1200, "BbB"))
    return [_cell("mnist", *kind, _published_grid(), _PAPER, 784) for kind in kinds]


def _cifar_book() -> list[Cell]:
    train = _BOOK | {"epochs": 60, "batch_size": 256, "augment": True}
    every = product(range(3), METHODS)
    return [_cell("cifar10", 1200, method, CHOSEN[method], train, 3072, replicate) for replicate, method in every]


def _cifar_smoke() -> list[Cell]:
    return [_cell("cifar10", 16, method, BOOK_CANDIDATES[:1], _SMOKE, 3072) for method in METHODS]


def _cifar_paper() -> list[Cell]:
    return [_cell("cifar10", 1200, method, _published_grid(), _PAPER, 3072) for method in METHODS]


_experiment = partial(experiment, unavailable={"paper": "not run: 45 candidates of 300 epochs for every network"})
EXPERIMENTS = [
    _experiment(
        name="sbnn-mnist",
        summary="MNIST, two hidden layers of 400, 800, 1200: pruned by p*, beside Bayes by Backprop",
        profiles={"smoke": _mnist_smoke, "book": _mnist_book, "paper": _mnist_paper},
    ),
    _experiment(
        name="sbnn-cifar10-mlp",
        summary="CIFAR-10 flattened, two hidden layers of 1200: pruned by p*, beside Bayes by Backprop",
        profiles={"smoke": _cifar_smoke, "book": _cifar_book, "paper": _cifar_paper},
        value=6.0,
    ),
]
