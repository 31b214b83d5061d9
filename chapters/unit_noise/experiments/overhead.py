"""Has the layer of noise almost no computational overhead? Steps and predictions with it and without it, in pairs.

Written down before the run. Networks are those of `sbp-mnist` with their noise on all units; a step of training is the
forward pass of 128 images, the loss (with the gradient of the divergence where there is noise), the backward pass and
Adam; a prediction is a forward pass of 128 images in eval mode, before anything is compressed. With and without noise
take turns on one thread of a CPU, and each counts by its least processor time over the repeats, so that other work on
the machine does not. Images, labels and weights are random: no time depends on their values.

"step_ratio" and "prediction_ratio" are the times with the layer over those without it. A network has five weights for
five replicates.

What an outcome means: "almost no" is taken as less than a tenth.

1. Both ratios of both networks lie below 1.10, decided by t: almost no overhead, as claimed.
2. Some do: partly, and the text says which.
3. None does: the layer costs more than a tenth on such a machine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib.nn import kl_gradient
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.shared.timing import processor_milliseconds
from chapters.unit_noise.experiments.networks import UNITS, add_noise, network

NUM_DATA = 60_000  # which divides the divergence


def step_of(model: nn.Module, noisy: bool, x: Tensor, y: Tensor) -> Callable[[], None]:
    """A step of training, again and again on the same images."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        (loss + kl_gradient(model) / NUM_DATA if noisy else loss).backward()
        optimizer.step()

    return step


def least(calls: dict[bool, Callable[[], object]], repeats: int) -> dict[bool, float]:
    """The least time of each of the calls, which take turns."""
    times = [{key: processor_milliseconds(call) for key, call in calls.items()} for _ in range(repeats)]
    return {key: min(one[key] for one in times) for key in calls}


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """One network after the other, with the layer and without."""
    params, rows = cell.params, []
    for replicate in cell.replicates:
        generator = torch.Generator().manual_seed(95_000 + replicate)
        x = torch.rand(params["batch_size"], 1, 28, 28, generator=generator)
        y = torch.randint(10, (len(x),), generator=generator)
        plain = network(params, 95_500 + replicate)
        models = {False: plain, True: add_noise(plain, params["network"], [1.0] * len(UNITS[params["network"]]))}
        steps = least(
            {noisy: step_of(model.train(), noisy, x, y) for noisy, model in models.items()}, params["repeats"]
        )
        with torch.no_grad():
            passes = least({noisy: partial(model.eval(), x) for noisy, model in models.items()}, params["repeats"])
        for name, times in (("SBP", True), ("Original", False)):
            values = {"milliseconds_step": steps[times], "milliseconds_prediction": passes[times]}
            if times:
                values |= {"step_ratio": steps[True] / steps[False], "prediction_ratio": passes[True] / passes[False]}
            rows += rows_of(cell, values, method=name, replicate=replicate)
    return CellResult(rows)


def _cells(replicates: int, repeats: int) -> list[Cell]:
    params = {"batch_size": 128, "repeats": repeats}
    return [
        Cell(name, "SBP", tuple(range(replicates)), params | {"network": name}) for name in ("LeNet-500-300", "LeNet-5")
    ]


EXPERIMENTS = [
    Experiment(
        name="sbp-overhead",
        paper="004",
        summary="LeNet-500-300 and LeNet-5: the time of a step and of a prediction with noise on the units and without",
        profiles=profiles(_cells, smoke=(1, 2), book=(5, 40)),
        run_cell=run_cell,
        sources={"Original": "SBP"},
        unavailable={"paper": "not in the paper; the book profile is our own experiment"},
        measured=("milliseconds", "step_ratio", "prediction_ratio"),
        tiny={"batch_size": 4, "repeats": 1},
    )
]
