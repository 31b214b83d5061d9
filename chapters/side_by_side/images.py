"""The tasks of images: MNIST and Fashion-MNIST, each with the other as what is not known, and CIFAR-10."""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib import metrics
from bnnlib.contest import Predictor, Problem, log_predictive
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult
from chapters.shared.images import Split, load_images
from chapters.shared.networks import lenet_300_100, resnet20
from chapters.side_by_side.arena import Data, Task, first_weights, run
from chapters.side_by_side.shifts import SHIFTS, shifted


def load(name: str, other: str, replicate: int, device, params=None) -> Data:
    """Images of one set with 5,000 held out, and behind "test" its test images and those of another."""
    params = {"scaling": "unit", "held_out": 5000, "data": name, **(params or {})}
    data = _split(params, str(device))

    def test() -> tuple[Tensor, Tensor, Tensor]:
        unknown = _split({**params, "data": params.get("unknown", other), "held_out": 0}, str(device))
        return (*data["test"], framed(unknown["test"][0], x.shape[1:]))

    (x, y), held = data["train"], data["validation"]
    return {"problem": Problem(x, y, *held, kind="classification", batch_size=128), "test": test}


def _split(params: dict[str, Any], device: str) -> Split:
    return _kept(params["data"], params["held_out"], params["scaling"], tuple(params.get("shape", ())), device)


@lru_cache(2)  # the known and the unknown images, which every training of a cell reads again
def _kept(name: str, held_out: int, scaling: str, shape: tuple[int, ...], device: str) -> Split:
    return load_images({"data": name, "held_out": held_out, "scaling": scaling, "shape": shape}, torch.device(device))


def framed(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Images in a black frame up to (channels, height, width), grey ones in every channel."""
    wide, high = shape[2] - x.shape[3], shape[1] - x.shape[2]
    x = F.pad(x, (wide // 2, wide - wide // 2, high // 2, high - high // 2))
    return x.expand(-1, shape[0], -1, -1)


def score_images(predictor: Predictor, data: Data, params: dict[str, Any]) -> dict[str, float]:
    """Errors, calibration, unknown images and shifted ones."""
    x, y, unknown = data["test"]()
    held, labels = data["problem"].x_validation, data["problem"].y_validation
    draws = params["draws"]
    known = log_predictive(predictor.predict(x, draws))
    temperature = metrics.fit_temperature(log_predictive(predictor.predict(held, draws)), labels)
    probabilities = known.exp()
    probabilities /= probabilities.sum(dim=1, keepdim=True)
    others = log_predictive(predictor.predict(unknown[: params["shifted_rows"]], draws))
    entropies = [-(one.exp() * one).sum(dim=1) for one in (others, known)]
    shipped = log_predictive(predictor.shipped(x))
    found = {
        "accuracy_shipped": metrics.accuracy(shipped, y),
        "nll_shipped": float(nn.functional.nll_loss(shipped, y)),
        "accuracy": metrics.accuracy(known, y),
        "nll": float(nn.functional.nll_loss(known, y)),
        "nll_tempered": float(nn.functional.cross_entropy(known / temperature, y)),
        "temperature": temperature,
        "ece": metrics.ece(probabilities, y, equal_mass=True),
        "brier": metrics.brier(probabilities, y),
        "auroc_unknown": metrics.auroc(*entropies),
    }
    rows = slice(0, params["shifted_rows"])
    for kind in SHIFTS:
        for severity in params["severities"]:
            outputs = log_predictive(predictor.predict(shifted(x[rows], kind, severity), draws))
            found[f"nll_{kind}_{severity}"] = float(nn.functional.cross_entropy(outputs / temperature, y[rows]))
            found[f"accuracy_{kind}_{severity}"] = metrics.accuracy(outputs, y[rows])
    return found


def _lenet(replicate: int) -> nn.Module:
    return lenet_300_100(generator=first_weights(replicate))


def _resnet(replicate: int) -> nn.Module:
    return resnet20(generator=first_weights(replicate))


TASKS = {
    "MNIST": Task(partial(load, "mnist", "fashion_mnist"), _lenet, 4300, score_images, 5),
    "Fashion-MNIST": Task(partial(load, "fashion_mnist", "mnist"), _lenet, 4300, score_images, 5),
    "CIFAR-10": Task(partial(load, "cifar10", "fashion_mnist"), _resnet, 3500, score_images, 3),
}


def run_cell(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None, products: Sequence[dict[str, Any]] = ()
) -> CellResult:
    """One method on one set of images at one budget."""
    return run(TASKS[cell.params["task"]], cell, device, products)
