"""Two rivals in Table 7 of Saha, Liu and Liang (2024): the whole network, and pruning by magnitude with retraining.

"DC" is the first part of Deep Compression (Han et al., 2015), repeated at each drop rate: the smallest weights of the
whole network go, and the others are trained on from where they are, at a tenth of the learning rate. The rest of it,
sharing and coding weights, saves bits and no weights. Half of the epochs train the whole network. Biases stay, and a
drop rate is the share of the weights.
"""

import copy

import torch

from bnnlib.pruning import MagnitudePruner
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, rows_of
from chapters.closed_form.experiments.images import curve_rows, first_epochs, train
from chapters.closed_form.experiments.networks import network
from chapters.shared.images import error_percent, load_images
from chapters.shared.stages import Stages

METHODS = ("Original", "DC")
SLOWER = 0.1  # the learning rate of retraining, of that before


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Train, then remove and retrain through the drop rates; the held-out images choose the one that is reported.

    Test errors of all drop rates are rows of their own and choose nothing.
    """
    params, data, seed = cell.params, load_images(cell.params, device), cell.replicates[0]
    rates = params["drop_rates"] if cell.method == "DC" else [0]
    stages = Stages(checkpoint)
    model = network(params, "deterministic", 80_000 + seed).to(device)
    pruner = MagnitudePruner(model, scope="global")
    if stages.finished:
        model.load_state_dict(stages.finished[-1]["model"])
        pruner.load_state_dict(stages.finished[-1]["masks"])
    whole = first_epochs(params | {"drop_rates": rates})
    for k in range(len(stages.finished), len(rates)):
        settings = params | {"epochs": whole}
        if rates[k]:
            pruner.prune(rates[k] / 100.0)
            settings = params | {"epochs": params["retrain"], "learning_rate": SLOWER * params["learning_rate"]}
        train(model, data, settings, {}, device, 82_000 + 100 * seed + k, stages, [pruner])
        errors = {part: error_percent(model, data, part) for part in ("validation", "test")}
        stages.finish(errors | {"model": copy.deepcopy(model.state_dict()), "masks": pruner.state_dict()})
    found = {f"{rate:g}": stage for rate, stage in zip(rates, stages.finished, strict=True)}
    test, validation = ({rate: one[part] for rate, one in found.items()} for part in ("test", "validation"))
    return CellResult(rows_of(cell, curve_rows(rates, test, validation)))
