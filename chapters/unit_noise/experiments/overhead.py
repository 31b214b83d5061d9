"""Has the layer of noise almost no computational overhead? Steps and predictions with it and without it, in pairs.

Written down before the run. Networks are those of `sbp-mnist` with their noise on all units and, added when neither
had shown "almost no", the published VGG-like one (32 x 32 images); a step of training is the
forward pass of 128 images, the loss (with the gradient of the divergence where there is noise), the backward pass and
Adam; a prediction is a forward pass of 128 images in eval mode, before anything is compressed. With and without noise
take turns on one thread of a CPU, and each counts by its least processor time over the repeats, so that other work on
the machine does not. Images, labels and weights are random: no time depends on their values.

"step_ratio" and "prediction_ratio" are the times with the layer over those without it. A network has five weights for
five replicates.

That measures the bare layer: each layer of noise draws by itself, and a prediction draws, too. "SBP, as used" was added
last, for the two small networks. Its step draws the noise of all layers together, as `bnnlib.train.fit` does; its
prediction multiplies each unit by a constant, its mean or 0, as the published code does after training, with the
constants computed beforehand. A trial of one replicate had been seen: steps of 1.68 and 1.15, predictions of 1.13 and
0.96 on LeNet-500-300 and LeNet-5.

What an outcome means: "almost no" is taken as less than a tenth.

1. Both ratios of all networks lie below 1.10, decided by t: almost no overhead, as claimed.
2. Some do: partly, and the text says which. The VGG-like network alone: it is a matter of size.
3. None does: the layer costs more than a tenth on such a machine.

By the same three the paper's words are judged by "SBP, as used" and, on the VGG-like network, by the bare layer, the
only one that was run there. The bare layer of the small networks stays in the table.
"""

import contextlib
import copy
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib.nn import StructuredBayesianPruning, drawn_together, kl_gradient
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.shared.timing import processor_milliseconds
from chapters.unit_noise.experiments.networks import UNITS, add_noise, network

NUM_DATA = 60_000  # which divides the divergence
USED = "SBP, as used"


class Constant(nn.Module):
    """What a layer of noise is after training: a factor for each unit, its mean or 0."""

    def __init__(self, noise: StructuredBayesianPruning) -> None:
        super().__init__()
        self.dim = noise.dim
        self.register_buffer("factor", noise.selected().detach())

    def forward(self, x: Tensor) -> Tensor:
        shape = [1] * x.dim()
        shape[self.dim] = -1
        return x * self.factor.view(shape)


def held(model: nn.Module) -> nn.Module:
    """A copy in eval mode, with constants in place of its noise."""
    constant = copy.deepcopy(model).eval()
    for parent in list(constant.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, StructuredBayesianPruning):
                setattr(parent, name, Constant(child))
    return constant


def step_of(model: nn.Module, noisy: bool, x: Tensor, y: Tensor, together: bool = False) -> Callable[[], None]:
    """A step of training, again and again on the same images; `together` draws the noise of all layers at once."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        with drawn_together(model) if together else contextlib.nullcontext():
            out = model(x)
        loss = F.cross_entropy(out, y)
        (loss + kl_gradient(model) / NUM_DATA if noisy else loss).backward()
        optimizer.step()

    return step


def least(calls: dict[bool, Callable[[], object]], repeats: int) -> dict[bool, float]:
    """The least time of each of the calls, which take turns."""
    times = [{key: processor_milliseconds(call) for key, call in calls.items()} for _ in range(repeats)]
    return {key: min(one[key] for one in times) for key in calls}


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """One network after the other, with the layer and without."""
    params, rows, used = cell.params, [], cell.method == USED
    for replicate in cell.replicates:
        generator = torch.Generator().manual_seed(95_000 + replicate)
        x = torch.rand(params["batch_size"], *params.get("shape", (1, 28, 28)), generator=generator)
        y = torch.randint(10, (len(x),), generator=generator)
        plain = network(params, 95_500 + replicate)
        models = {False: plain, True: add_noise(plain, params["network"], [1.0] * len(UNITS[params["network"]]))}
        steps = least(
            {noisy: step_of(model.train(), noisy, x, y, used and noisy) for noisy, model in models.items()},
            params["repeats"],
        )
        if used:
            models[True] = held(models[True])
        with torch.no_grad():
            passes = least({noisy: partial(model.eval(), x) for noisy, model in models.items()}, params["repeats"])
        for name, times in ((USED, True),) if used else (("SBP", True), ("Original", False)):
            values = {"milliseconds_step": steps[times], "milliseconds_prediction": passes[times]}
            if times:
                values |= {"step_ratio": steps[True] / steps[False], "prediction_ratio": passes[True] / passes[False]}
            rows += rows_of(cell, values, method=name, replicate=replicate)
    return CellResult(rows)


def _cells(replicates: int, repeats: int, width: float) -> list[Cell]:
    small = {name: {"batch_size": 128, "repeats": repeats, "network": name} for name in ("LeNet-500-300", "LeNet-5")}
    large = {"batch_size": 128, "repeats": max(1, repeats // 5), "network": "VGG-like", "width": width}
    every = small | {"VGG-like": large | {"shape": [3, 32, 32]}}
    found = [Cell(name, "SBP", tuple(range(replicates)), params) for name, params in every.items()]
    return found + [Cell(name, USED, tuple(range(replicates)), params) for name, params in small.items()]


EXPERIMENTS = [
    Experiment(
        name="sbp-overhead",
        summary="LeNet-500-300, LeNet-5, VGG: time of a step and of a prediction, noise on the units and without",
        profiles=profiles(_cells, smoke=(1, 2, 0.25), book=(5, 40, 1.0)),
        run_cell=run_cell,
        sources={"Original": "SBP"},
        measured=("milliseconds", "step_ratio", "prediction_ratio"),
        tiny={"batch_size": 4, "repeats": 1, "width": 0.25},
    )
]
