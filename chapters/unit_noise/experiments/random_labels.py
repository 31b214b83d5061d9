"""Training on random labels (Neklyudov et al., 2017): binary dropout memorizes them, noise on units can refuse.

A fully connected network gets MNIST images, of which a subset keeps an epoch short, with labels drawn uniformly; the
draw depends on the replicate. "Dropout" has binary dropout behind both hidden layers, "SBP" noise on the 784 inputs and
both hidden layers, with the exact divergence. Both start from random weights: a dense network that has already learned
the labels by heart would be pruned from there. Accuracies are those of the network without noise, for SBP the
selected one. The test images have their true labels.

"MNIST, MLP, all images" has all 60,000, where the labels are worth twelve times as many nats beside the divergence.
Written down before it ran: the poster's row is reproduced if no unit is left in any replicate, and contradicted if one
of them has more than 15 % of its labels right. The slow noise is no row of theirs. Dropout came later, as a control of
the same length, and this was written down before it ran: if each replicate has more than 15 % right, labels could be
learned by then, and it is the noise that refuses them; if one has not, the slow noise's refusal says nothing.

Whether noise on units refuses the labels is decided in the first epochs. With a learning rate of the noise that is 100
times that of the weights, as in the experiment on MNIST, all units are noise before the weights have learned a label,
and stay so. "SBP, slow noise" has 10 times, which is published for other experiments: on 5,000 images the weights, on
which there is no prior, win the race, and the network memorizes. Its bound is then even the larger one, because the
labels are worth more nats than the divergence of the units that are left; the array "curve" has both parts. The fast
rate was taken after a trial with the slow one had memorized: both are reported, and neither is the method's own answer.

"SBP, noise at the weights' rate" has factor 1, as the authors' script for LeNet-5 on MNIST has it, the only script for
MNIST. Added last. Two shorter trials on all images had been seen, one replicate each: after 12 and 10 epochs 18.0 and
16.5 % of the labels were right, still rising. Written down before these runs, for each setting:

1. All three replicates have more than 15 % right: at this rate SBP learns random labels by heart, or has begun to. More
   than dropout of the same replicate has after the same epochs, decided in pairs: and faster than dropout.
2. Some have: it depends on the draw, and the text says which. None: also this rate refuses them.
3. The bound at the end is above -N log 10 in all replicates: the objective does not refuse; else it is open.

On all images 25 epochs are no final state: what is right then shows a beginning, and no value that it ends at.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bnnlib import metrics
from bnnlib.models import Dropout, mlp
from bnnlib.nn import StructuredBayesianPruning, insert_unit_noise, percent_active_units, selected_weights
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, epochs_of, profiles, rows_of
from chapters.shared.images import load_images, reads
from chapters.shared.training import EpochRows, fit

ALL_IMAGES = "MNIST, MLP, all images"


def _network(cell: Cell) -> nn.Module:
    params, generator = cell.params, torch.Generator().manual_seed(93_000 + cell.replicates[0])
    model = mlp(params["sizes"], flatten=True, generator=generator)
    if cell.method != "Dropout":
        return insert_unit_noise(model, before=["1", "3", "5"])
    layers: list[nn.Module] = []
    for layer in model:
        layers += [layer, Dropout(params["dropout"])] if isinstance(layer, nn.ReLU) else [layer]
    return nn.Sequential(*layers)


@torch.no_grad()
def _accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Of the network without noise, in percent."""
    was_training = model.training
    model.eval()
    try:
        if any(isinstance(module, StructuredBayesianPruning) for module in model.modules()):
            with selected_weights(model):
                return metrics.accuracy(model(x), y)
        return metrics.accuracy(model(x), y)
    finally:
        model.train(was_training)


class _Curve(EpochRows):
    """Training accuracy, units removed (both in percent) and the two parts of the objective after every epoch."""

    def __init__(self, x: Tensor, y: Tensor, noisy: bool) -> None:
        super().__init__()
        self.data, self.noisy = (x, y), noisy

    def on_epoch(self, run: Any) -> None:
        removed = 100.0 - percent_active_units(run.model) if self.noisy else 0.0
        last = run.history[-1]
        self.rows.append([_accuracy(run.model, *self.data), removed, len(self.data[0]) * last["nll"], last["kl"]])


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Train one network on random labels; array "curve" has a row (accuracy, removed, N nll, kl) for each epoch."""
    params, data = cell.params, load_images(cell.params, device)
    x = data["train"][0][: params["images"]]
    # the labels are drawn on the CPU, so that they are the same on every device
    y = torch.randint(10, (len(x),), generator=torch.Generator().manual_seed(94_000 + cell.replicates[0])).to(device)
    model = _network(cell).to(device)
    noisy = cell.method != "Dropout"
    noise = [p for name, p in model.named_parameters() if name.endswith(("location", "log_scale"))]
    rest = [p for name, p in model.named_parameters() if not name.endswith(("location", "log_scale"))]
    groups: list[dict[str, Any]] = [{"params": rest}]
    if noisy:
        groups.append({"params": noise, "lr": params["learning_rate"] * params["noise_factor"]})
    curve = _Curve(x, y, noisy)
    fit(
        model,
        (x, y),
        epochs=params["epochs"],
        batch_size=params["batch_size"],
        optimizer=torch.optim.Adam(groups, lr=params["learning_rate"], fused=True),
        generator=torch.Generator(device).manual_seed(95_000 + cell.replicates[0]),
        checkpoint=checkpoint,
        callbacks=[curve],
    )
    values = {"accuracy_train": _accuracy(model, x, y), "accuracy_test": _accuracy(model, *data["test"])}
    if noisy:
        values["removed"] = 100.0 - percent_active_units(model)
    return CellResult(rows_of(cell, values), {"curve": np.asarray(curve.rows, np.float32)})


def _cells(common: dict[str, Any], replicates: int) -> list[Cell]:
    methods = {
        "Dropout": {"dropout": 0.5},
        "SBP": {"noise_factor": 100.0},
        "SBP, slow noise": {"noise_factor": 10.0},
        "SBP, noise at the weights' rate": {"noise_factor": 1.0},
    }
    common = {"scaling": "unit", "shape": [1, 28], "sizes": [784, 500, 300, 10], "learning_rate": 1e-3} | common
    return [
        Cell("MNIST, MLP", method, (replicate,), common | params)
        for method, params in methods.items()
        for replicate in range(replicates)
    ]


def _book() -> list[Cell]:
    cells = _cells({"data": "mnist", "held_out": 5_000, "images": 5_000, "batch_size": 100, "epochs": 150}, 3)
    whole = _cells({"data": "mnist", "held_out": 0, "images": 60_000, "batch_size": 100, "epochs": 25}, 3)
    return cells + [replace(cell, setting=ALL_IMAGES) for cell in whole]


EXPERIMENTS = [
    Experiment(
        name="sbp-random-labels",
        summary="MNIST with random labels: dropout learns them by heart, noise on units can remove every unit",
        profiles=profiles(
            _cells,
            smoke=({"data": "digits", "held_out": 300, "images": 200, "batch_size": 100, "epochs": 3}, 1),
            book=_book,
            paper=({"data": "mnist", "held_out": 5_000, "images": 55_000, "batch_size": 100, "epochs": 400}, 3),
        ),
        run_cell=run_cell,
        tiny={"data": "digits", "held_out": 300, "images": 200, "epochs": 3},
        reads=reads,
        unavailable={"paper": "not run: no GPU"},
        budget=epochs_of,
    )
]
