"""Images of the experiments: training, held-out and test rows, as networks take them, and the error of a network."""

import copy
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib import datasets, metrics
from bnnlib.train.fit import Callback, Run
from book.lab.cells import Cell

Split = dict[str, tuple[Tensor, Tensor]]
# mean and standard deviation of a pixel in [0, 1]; Blundell et al. divide the bytes by 126 and center nothing
SCALING = {
    "blundell": ((0.0,), (126.0 / 255.0,)),
    "unit": ((0.0,), (1.0,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}


def held_out_parts(name: str, held_out: int) -> Split:
    """Rows "train", "validation" and "test" as (x, y); which ones are held out depends on the data set alone.

    Args:
        name: of the data set.
        held_out: training rows to hold out for choosing settings; with 0 there is no "validation".
    """
    whole = datasets.load(name)
    test = {"test": (whole.test_x, whole.test_y)}
    if not held_out:
        return {"train": (whole.train_x, whole.train_y)} | test
    train, validation = whole.validation_split(held_out, generator=torch.Generator().manual_seed(0))
    return {"train": (train.train_x, train.train_y), "validation": (validation.test_x, validation.test_y)} | test


def load_images(params: dict[str, Any], device: torch.device) -> Split:
    """Rows for training, validation and test, as (n, c, h, w); which ones are held out does not depend on the seed."""
    parts = held_out_parts(params["data"], params["held_out"])
    mean, scale = (torch.tensor(values).view(1, -1, 1, 1) for values in SCALING[params["scaling"]])
    return {name: (((fitted(x, params) - mean) / scale).to(device), y.to(device)) for name, (x, y) in parts.items()}


def reads(cell: Cell) -> list[partial]:
    """The call of `load_images` that a cell makes, for its probe."""
    asked = {name: cell.params[name] for name in ("data", "held_out", "scaling", "shape") if name in cell.params}
    return [partial(load_images, asked, torch.device("cpu"))]


def fitted(x: Tensor, params: dict[str, Any]) -> Tensor:
    """The smoke profile's digits, in [0, 1] as loaded, enlarged and repeated to size and channels of real images."""
    if params["data"] != "digits":
        return x
    channels, size = params["shape"]
    images = F.interpolate(x.reshape(-1, 1, 8, 8), size=(size, size), mode="bilinear")
    return images.expand(-1, channels, -1, -1)


@torch.no_grad()
def error_percent(model: nn.Module, data: Split, part: str) -> float:
    """Error in percent of a deterministic network."""
    x, y = data[part]
    model.eval()
    return 100.0 - metrics.accuracy(torch.cat([model(rows) for rows in x.split(1000)]), y)


class BestEpoch(Callback):
    """The weights of the epoch that errs least on the test images.

    Published code of several papers keeps these. Where a paper reports them, ours are stored beside those of the last
    epoch, under metrics that say so; nothing of ours is chosen by them.

    Args:
        test: images and labels.
    """

    def __init__(self, test: tuple[Tensor, Tensor]) -> None:
        self.data: Split = {"test": test}
        self.error, self.weights = float("inf"), {}

    def on_epoch(self, run: Run) -> None:
        training = run.model.training
        error = error_percent(run.model, self.data, "test")
        run.model.train(training)
        if error < self.error:
            self.error, self.weights = error, copy.deepcopy(run.model.state_dict())

    def state_dict(self) -> dict[str, Any]:
        return {"error": self.error, "weights": self.weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.error, self.weights = state["error"], state["weights"]
