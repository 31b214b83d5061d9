"""Table 2 of Deng, Zhang, Liang and Lin (2019): MNIST and Fashion-MNIST with and without augmentation, four methods.

Networks, priors, temperatures, thinning and augmentations are those of the published code (its training script is not
public); the number of epochs without augmentation is stated nowhere. The book profile has 40 epochs of smaller batches,
the same number for all four methods and with augmentation too, and convolutions in bfloat16. Adam is at its published
0.001. The sampler's schedule was chosen with SGHMC-SA in runs of up to 7 epochs, scored on 10,000 training images held
out: constant learning rates of the mean loss of 0.05 and 0.1 were equally good, batches of 100 not better than 200 at
0.1, a temperature 30 times higher no better, and a burn-in at 0.1 with sampling at 0.02 better than all of
these. The profile burns in at 0.1 and samples at the published 0.03, with batches of 200, which cost less. Every final
run trains on all training images, and the test images score it once.
"""

from functools import partial
from typing import Any

import numpy as np
import torch

from bnnlib import metrics
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, epochs_of, profiles, rows_of
from chapters.learned_priors.experiments.mnist_augmented import build_augmented
from chapters.learned_priors.experiments.mnist_train import (
    Network,
    build,
    load_images,
    probabilities,
    reads,
    schedules,
    train_point,
    train_sampled,
)

METHODS = ("SGHMC-SA", "SGHMC", "Dropout", "Vanilla")
POINT = ("Dropout", "Vanilla")
AUGMENT = {"mnist": "rotate", "fashion_mnist": "erase"}
TAU = {"mnist": 1000.0, "fashion_mnist": 2500.0}
TITLE = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}
NAME = {"mnist": "aeb-mnist", "fashion_mnist": "aeb-fmnist"}
CHOSEN = {"batch_size": 200, "burn_in_rate": 0.1, "learning_rate": 0.03, "warm_up": 300}
# The real cell at the sizes of the digits: arithmetic, augmentation and temperature stay.
TINY = {"data": "digits", "rows": 200, "batch_size": 50, "burn_in_rate": 0.06, "learning_rate": 0.03, "warm_up": 5}
TINY |= {"epochs": 2, "burn_in": 2, "thin": 2, "note": ""}


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Train one network and score its posterior average, or for a point method its last state, on the test images.

    What training left is its product: "steps" and "states", the number of optimizer steps before each copy of the
    network and the copies, for a sampling method its draws, for a point method the last one alone; and "latent", end
    values of the prior.
    """
    params, replicate, point = cell.params, cell.replicates[0], cell.method in POINT
    train, (x, y) = load_images(params, device)
    model = network(params, cell.method, replicate, device)
    if point:
        product = train_point(model, train, params, checkpoint)
    else:
        product = train_sampled(model, train, params, cell.method == "SGHMC-SA", replicate, checkpoint)
    total, curve = 0.0, []
    for count, (step, state) in enumerate(zip(product["steps"], product["states"], strict=True), 1):
        single = probabilities(model, state, x)
        total = single if point else total + single
        average = total if point else total / count
        curve.append([step, metrics.accuracy(single, y), metrics.accuracy(average, y)])
    values = {name: function(average, y) for name, function in _SCORES.items()}
    if not point:
        values |= {f"{name}_single": function(single, y) for name, function in _SCORES.items()}
        values |= product["latent"] | {"num_draws": len(product["states"])}
        values["accuracy_mean_draw"] = float(np.mean([row[1] for row in curve]))
    rows = rows_of(cell, values | {"epochs": params["epochs"]})
    if params["note"]:
        rows[0]["note"] = params["note"]
    if point:
        product |= {name: product[name][-1:] for name in ("steps", "states")}
    return CellResult(rows, {"curve": np.array(curve, dtype=np.float32)}, product)


def network(params: dict[str, Any], method: str, replicate: int, device: torch.device) -> Network:
    """The network of a setting before training."""
    return (build_augmented if params["augment"] else build)(params, method, replicate, device)


_SCORES = {"accuracy": metrics.accuracy, "nll": metrics.nll, "ece": metrics.ece, "brier": metrics.brier}


def settings(data: str, augment: bool, profile: str) -> dict[str, Any]:
    """Everything that decides a network of Table 2, the same for its four methods."""
    tested = {"data": data, "held_out": 0, "rows": None, "augment": AUGMENT[data] if augment else "", "adam_rate": 1e-3}
    tau = {"inverse_temperature": TAU[data]}
    if profile == "smoke":
        return tested | tau | TINY | {"precision": "float32"}
    if profile == "paper":
        epochs = (200 if data == "mnist" else 1000) if augment else 500
        size = {"batch_size": 1000, "burn_in_rate": 0.03, "learning_rate": 0.03, "warm_up": 1, "epochs": epochs}
        # 100 evaluations of an epoch each before the average starts, as in the published code
        return tested | tau | size | {"burn_in": 6000, "thin": 500, "precision": "float32", "note": ""}
    epochs, steps = 40, 60_000 // CHOSEN["batch_size"]
    size = {"epochs": epochs, "burn_in": (epochs // 2) * steps, "thin": steps}
    arithmetic = "convolutions in bfloat16; published: batches of 1,000, more epochs"
    note = f"book profile: {epochs} epochs, batches of {CHOSEN['batch_size']}, {arithmetic}"
    return tested | tau | CHOSEN | size | {"precision": "bfloat16", "note": note}


def cells(data: str, profile: str, replicates: int, augmented: int) -> list[Cell]:
    """Without augmentation first: those cells matter most when time runs out."""
    found = []
    for augment, count in ((False, replicates), (True, augmented)):
        setting = ("DA-" if augment else "") + TITLE[data]
        params = settings(data, augment, profile)
        found += [Cell(setting, method, (seed,), params) for seed in range(count) for method in METHODS]
    return found


def _experiment(data: str, summary: str, left: str) -> Experiment:
    return Experiment(
        name=NAME[data],
        summary=summary,
        profiles=profiles(partial(cells, data), smoke=("smoke", 1, 1), book=("book", 3, 3), paper=("paper", 3, 3)),
        run_cell=run_cell,
        tiny=TINY,
        reads=reads,
        schedules=schedules,
        unavailable={"paper": f"not run: {left}"},
        budget=epochs_of,
        value=7.0,
    )


EXPERIMENTS = [
    _experiment(
        "mnist",
        "MNIST, two small CNNs: Adam, dropout, SGHMC and SGHMC with a prior that learns",
        "Dropout and augmented images, 3,900 epochs of the profile's 8,400",
    ),
    _experiment(
        "fashion_mnist",
        "Fashion-MNIST, the same networks and methods",
        "18,000 epochs in all, where the book profile has 960",
    ),
]
