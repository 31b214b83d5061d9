"""Does the start decide how many weights end in the slab? A question to the VGG-like network, asked of a small one.

A pre-trained network with batch norm is converted, as in experiment 9. Batch norm undoes any factor of the weights
before it, so the pre-trained means may be multiplied by one: the network computes the same, but more or fewer of its
weights begin beyond the threshold of equation (sbnn-threshold). All else is that of the VGG-like network: SGD at 0.05
with momentum 0.9, a cosine, 40 epochs of each training, a tenth of the divergence, the prior (0, -5, 1/2).
"""

from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from bnnlib.nn import to_bayesian
from bnnlib.pruning import weight_scores
from bnnlib.train import cosine
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.closed_form.experiments.images import pruning_curve
from chapters.closed_form.experiments.networks import prior_of
from chapters.shared.images import Split, load_images, reads
from chapters.shared.stages import Stages
from chapters.shared.training import fit, rising

FACTORS = {"as pretrained": 1.0, "half": 0.5, "a fifth": 0.2}
DROP_RATES = [0, 50, 75, 90, 95, 98]
PRIOR = {"log_tau1": 0.0, "log_tau0": -5.0, "pi": 0.5, "initial_scale": 0.002}


def network(pixels: int, width: int, seed: int) -> nn.Sequential:
    """Two hidden layers without biases, each before batch norm, and the ten outputs; PyTorch's initial weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers: list[nn.Module] = [nn.Flatten()]
        for inputs in (pixels, width):
            layers += [nn.Linear(inputs, width, bias=False), nn.BatchNorm1d(width), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(width, 10))


@torch.no_grad()
def shrink(model: nn.Sequential, factor: float) -> None:
    """Multiply the weights that batch norm follows: but for its epsilon the network computes the same."""
    for layer, after in pairwise(model):
        if isinstance(after, nn.BatchNorm1d):
            layer.weight.mul_(factor)


def run_start(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """One pre-trained network, converted once for each factor: the weights in the slab, first and last, and errors."""
    params, (replicate,) = cell.params, cell.replicates
    data = load_images(params, device)
    data["train"] = tuple(part[: params["rows"]] for part in data["train"])
    stages = Stages(checkpoint)

    def trained(model: nn.Module, number: int, weight: float) -> nn.Module:
        if number == len(stages.finished):
            _fit(model, data, params, weight, 84_000 + 10 * replicate + number, stages)
            stages.finish(model.state_dict())
        model.load_state_dict(stages.finished[number])
        return model

    first = trained(network(data["train"][0][0].numel(), params["width"], 83_500 + replicate).to(device), 0, 0.0)
    rows = []
    for number, (setting, factor) in enumerate(FACTORS.items(), 1):
        start = network(data["train"][0][0].numel(), params["width"], 83_500 + replicate).to(device)
        start.load_state_dict(first.state_dict())
        shrink(start, factor)
        model = to_bayesian(start, "gaussian_spike_slab", unsupported="keep", **prior_of(PRIOR))
        begun = in_slab(model)
        ended = in_slab(trained(model, number, params["kl_scale"]))
        values = {
            "begun_share": _percent(begun),
            "slab_share": _percent(ended),
            "entered_share": _percent(ended[~begun]),
        }
        errors = pruning_curve(model, data, "test", DROP_RATES, "inclusion")
        rows += rows_of(cell, values | {f"error_at_{rate}": error for rate, error in errors.items()}, setting)
    return CellResult(rows)


def in_slab(model: nn.Module) -> Tensor:
    """Which weights and biases have p* above one half, in one row."""
    return torch.cat([odds.flatten() for odds in weight_scores(model).values()]) > 0


def _percent(some: Tensor) -> float:
    return 100.0 * float(some.double().mean())


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell, for its probe."""
    params, epochs = cell.params, range(cell.params["epochs"])
    weight = partial(rising, weight=params["kl_scale"], warm_up=params["warm_up"])
    return {"learning rate": (cosine(len(epochs)), epochs), "divergence": (weight, epochs)}


def _fit(model: nn.Module, data: Split, params: dict, weight: float, seed: int, stages: Stages) -> None:
    fit(
        model,
        data["train"],
        epochs=params["epochs"],
        batch_size=params["batch_size"],
        optimizer=torch.optim.SGD(model.parameters(), lr=params["learning_rate"], momentum=0.9),
        kl_scale=partial(rising, weight=weight, warm_up=params["warm_up"]),
        schedule=cosine(params["epochs"]),
        generator=torch.Generator(data["train"][0].device).manual_seed(seed),
        checkpoint=stages,
    )


def _cells(replicates: int, data: dict, sizes: dict) -> list[Cell]:
    train = {"batch_size": 128, "learning_rate": 0.05, "kl_scale": 0.1}
    params = {"held_out": 0, "scaling": "unit"} | data | train | sizes
    return [Cell("all factors", "sBNN", (replicate,), params) for replicate in range(replicates)]


_DIGITS = {"data": "digits", "shape": [1, 28], "rows": 300}
_SMALL = {"width": 16, "epochs": 2, "warm_up": 1}

EXPERIMENTS = [
    Experiment(
        name="sbnn-start",
        summary="One pretrained network with batch norm, its weights begun at three sizes: how many end in the slab",
        profiles=profiles(
            _cells,
            smoke=(1, _DIGITS, _SMALL),
            book=(3, {"data": "mnist", "shape": [1, 28], "rows": 4_000}, {"width": 200, "epochs": 40, "warm_up": 6}),
        ),
        run_cell=run_start,
        tiny=_DIGITS | _SMALL,
        reads=reads,
        schedules=schedules,
        budget=lambda cell: (2 * cell.params["epochs"], "epochs"),
        value=4.0,
    )
]
