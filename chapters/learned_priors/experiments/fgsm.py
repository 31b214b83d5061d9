"""Figure 2 of Deng, Zhang, Liang and Lin (2019): the networks of Table 2 under the fast gradient sign attack.

As in the published code the attack goes through one network of each method, for a sampler its last draw, and the
attacked images are given to the average of all draws. An attacker who knows that average can do better: the rows
"accuracy_averaged_attack" go through it. The published code averages log-probabilities under attack
("accuracy_log_average") and leaves dropout on ("accuracy_mc_dropout"); the rows "accuracy" average probabilities, as in
Table 2, with dropout off. Our attack climbs the log-odds; "accuracy_max_log" follows the gradient of the largest
log-probability in float32, as the published code does, where rounding takes part of it from confident networks. The
networks are those that the experiments of Table 2 trained.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bnnlib import metrics
from bnnlib.nn import use_generator
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, Need, profiles, rows_of
from chapters.learned_priors.experiments.mnist import NAME, POINT, TINY, cells, network
from chapters.learned_priors.experiments.mnist_train import TEST_BATCH, Network, State, load_images, reads
from chapters.shared.attacks import fgsm

Models = list[Callable[[Tensor], Tensor]]
SIZES = (0.1, 0.2, 0.3, 0.4, 0.5)
NUM_DRAWS = 4  # that are averaged and attacked together, of all that were kept


def logits_of(model: Network, state: State, x: Tensor) -> Tensor:
    """Output of one draw; the draws share the module that their weights are loaded into."""
    model.load_state_dict(state)
    return model(x)


def direction(models: Models, x: Tensor) -> Tensor:
    """Sign of the attack's gradient, which is the same for every size: -1, 0 or 1 in the shape of x."""
    moved = [fgsm(models, part, size=1.0, clip=None) - part for part in x.split(TEST_BATCH)]
    return torch.cat(moved).round()


def plain_direction(model: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Sign of minus the gradient of max_c log p_c, computed as it stands: 0 where rounding has left nothing."""
    signs = []
    for part in x.split(TEST_BATCH):
        leaf = part.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(model(leaf).log_softmax(dim=1).amax(dim=1).sum(), leaf)
        signs.append(-gradient.sign())
    return torch.cat(signs)


@torch.no_grad()
def averages(models: Iterable[Callable[[Tensor], Tensor]], x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean probabilities, and probabilities from mean log-probabilities, of the models; both (n, classes)."""
    total, log_total, count = 0.0, 0.0, 0
    for model in models:
        log_p = torch.cat([model(part).log_softmax(dim=1) for part in x.split(TEST_BATCH)])
        total, log_total, count = total + log_p.exp(), log_total + log_p, count + 1
    return total / count, (log_total / count).softmax(dim=1)


def spread(states: list[State], count: int) -> list[State]:
    """At most `count` draws, evenly spaced, the last one among them."""
    every = -(-len(states) // count)
    return states[::-1][::every][::-1]


def victims(
    cell: Cell, device: torch.device, products: Sequence[dict[str, Any]]
) -> tuple[Network, Models, tuple[Tensor, Tensor]]:
    """The module of a trained network, its draws as functions of images, one of a point estimate, and test data."""
    params, point = cell.params["network"], cell.method in POINT
    model, (product,) = network(params, cell.method, cell.replicates[0], device).eval(), products
    states = product["states"][-1:] if point else spread(product["states"], cell.params["draws"])
    return model, [partial(logits_of, model, state) for state in states], load_images(params, device)[1]


def run_cell(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None, products: Sequence[dict[str, Any]]
) -> CellResult:
    """Attack one method's network and score what it makes of the attacked test images, for every size."""
    model, models, (x, y) = victims(cell, device, products)
    point, note = cell.method in POINT, cell.params["network"]["note"]
    attacks = {"": direction(models[-1:], x), "_max_log": plain_direction(models[-1], x)}
    if not point:
        attacks["_averaged_attack"] = direction(models, x)
    rows, curve = [], []
    for size in (0.0, *cell.params["sizes"]):
        values: dict[str, float] = {}
        for name, sign in attacks.items():
            images = (x + size * sign).clamp(0.0, 1.0)
            mean, log_mean = averages(models, images)
            values[f"accuracy{name}"] = metrics.accuracy(mean, y)
            if not name:
                values["nll"] = metrics.nll(mean, y)
                if not point:
                    values["accuracy_log_average"] = metrics.accuracy(log_mean, y)
                if cell.method == "Dropout":
                    values["accuracy_mc_dropout"] = _with_dropout(model, cell, images, y)
        curve.append([size, values["accuracy"], values.get("accuracy_averaged_attack", values["accuracy"])])
        if size:
            found = rows_of(cell, values, f"{cell.setting} zeta={size:g}")
            if note:
                found[0]["note"] = note
            rows += found
    return CellResult(rows, {"curve": np.array(curve, dtype=np.float32)})


def _with_dropout(model: Network, cell: Cell, x: Tensor, y: Tensor) -> float:
    """Accuracy of as many passes with dropout on as a sampler has draws; the network has no other randomness."""
    generator = torch.Generator(x.device).manual_seed(74_000 + cell.replicates[0])
    model.train()
    try:
        with use_generator(generator):
            mean, _ = averages([model] * cell.params["draws"], x)
    finally:
        model.eval()
    return metrics.accuracy(mean, y)


def _cells(profile: str, replicates: int) -> list[Cell]:
    found = []
    for data, name in NAME.items():
        for one in cells(data, profile, replicates, augmented=0):
            params = {"network": one.params, "sizes": list(SIZES), "draws": NUM_DRAWS}
            found.append(Cell(one.setting, one.method, one.replicates, params, (Need(name, one),)))
    return found


EXPERIMENTS = [
    Experiment(
        name="aeb-fgsm",
        summary="the networks of aeb-mnist and aeb-fmnist under the fast gradient sign attack",
        profiles=profiles(_cells, smoke=("smoke", 1), book=("book", 3), paper=("paper", 3)),
        run_cell=run_cell,
        tiny={"network": TINY},
        reads=reads,
        unavailable={"paper": "not run: only the samplers on MNIST, of networks of the paper profiles"},
        budget=lambda cell: (cell.params["network"]["epochs"], "epochs"),
        value=6.5,
    )
]
