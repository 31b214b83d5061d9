"""Experiment 5 of Saha, Liu and Liang (2024): UCI regression with 50 hidden units, pruned by p* (Tables 2 and 3).

The prior is the published one, log tau_1 = 1, log tau_0 = -6, pi = 1/2; optimizer, epochs, initial values and noise
model are stated nowhere. Ours: Adam with half a cosine, learned noise, and two settings that decide how much of the
network ends in the spike, chosen for each split on rows held out of its training part: the scale of the initial means
and the weight of the KL term (1 is the paper's objective). "sBNN" is chosen by the error of the whole network,
"sBNN-50" by that after half of its weights are removed. Both train anew on all training rows; test rows score them
once.
"""

import math
from itertools import product

import torch
from torch import Tensor

from bnnlib import metrics
from bnnlib.pruning import rank_mask
from bnnlib.replicates import GaussianLikelihood, Layout, StackedGaussianSpikeSlab, StackedMLP
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, epochs_of, profiles, rows_of
from chapters.closed_form.experiments import uci_rivals
from chapters.closed_form.experiments.uci_baselines import run_dropout, run_pbp
from chapters.closed_form.experiments.uci_data import (
    Splits,
    fit_splits,
    gaussian_scores,
    load_splits,
    reads,
    schedules,
)
from chapters.shared.simulated import SIMULATED
from chapters.shared.stages import Stages

PRIOR = {"slab_scale": math.exp(1.0), "spike_scale": math.exp(-6.0), "prior_inclusion_probability": 0.5}
DROP_RATES = (10, 20, 25, 50, 75, 80, 90, 95)  # percent, Table 2
NUM_DRAWS = 100
# data set: epochs, batch size; about 3,000 to 12,000 steps
TRAINING = {
    "boston": (400, 64),
    "concrete": (400, 64),
    "energy": (400, 64),
    "kin8nm": (200, 256),
    "naval": (200, 256),
    "power": (150, 256),
    "protein": (150, 512),
    "wine": (200, 64),
    "yacht": (600, 64),
    "year": (40, 1024),
}
MEAN_SCALES = (1.0, 0.2, 0.1)  # of the initial means, in units of PyTorch's own
KL_SCALES = (1.0, 0.3, 0.1, 0.03)
CHOICES = {"sBNN": 0, "sBNN-50": 50}  # method: drop rate in percent at which the held-out error is compared


def network(
    data: Splits, settings: list[tuple[float, float]], params: dict, device: torch.device
) -> tuple[StackedMLP, GaussianLikelihood, Tensor]:
    """Untrained networks, one for each (mean scale, KL weight), their noise, and the KL weights (networks, 1)."""
    scales, weights = (torch.tensor(column).unsqueeze(1) for column in zip(*settings, strict=True))
    layout = Layout((data.train_x.shape[-1], params["hidden"], 1), len(settings))
    means = layout.kaiming_uniform(torch.Generator().manual_seed(70_000)) * scales
    posterior = StackedGaussianSpikeSlab(layout, means, **PRIOR, initial_scale=params["initial_scale"])
    return StackedMLP(posterior).to(device), GaussianLikelihood(len(settings)).to(device), weights.to(device)


def _fit(data: Splits, copies: int, settings, params: dict, device, seed: int, checkpoint):
    """Train `copies` networks a split, whose settings run over the splits first."""
    model, noise, kl_scale = network(data, settings, params, device)
    fit_splits(model, noise, data, copies, params, torch.Generator(device).manual_seed(seed), checkpoint, kl_scale)
    return model, noise


@torch.no_grad()
def pruned(model: StackedMLP, percent: int, x: Tensor) -> Tensor:
    """Outputs of the mean weights without the `percent` with the lowest p* of each network, biases included."""
    posterior = model.posterior
    weights = posterior.mean() * rank_mask(posterior.inclusion_log_odds(), percent / 100.0, batch_dims=1)
    return model.propagate(posterior.layout.layers(weights), x)


def run_sbnn(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Search on held-out rows of every split, then the two chosen networks of every split on all training rows."""
    params, replicates = cell.params, len(cell.replicates)
    stages = Stages(checkpoint)
    candidates = [(float(a), float(b)) for a, b in product(params["mean_scales"], params["kl_scales"])]
    if not stages.finished:
        data = load_splits(params["data"], cell.replicates, held_out=params["held_out"]).to(device)
        settings = [one for one in candidates for _ in range(replicates)]
        model, _ = _fit(data, len(candidates), settings, params, device, 71_000, stages)
        x, y = (part.repeat(len(candidates), 1, 1) for part in (data.test_x, data.test_y))
        errors = [
            metrics.rmse(pruned(model, rate, x), y, dim=(1, 2)).view(len(candidates), replicates)
            for rate in CHOICES.values()
        ]
        stages.finish({"validation": torch.stack(errors).cpu()})
    errors = stages.finished[0]["validation"]  # (choices, candidates, splits), in standardized units
    chosen = errors.argmin(dim=1)
    data = load_splits(params["data"], cell.replicates).to(device)
    settings = [candidates[index] for row in chosen.tolist() for index in row]
    model, noise = _fit(data, len(CHOICES), settings, params, device, 72_000, stages)
    rows = []
    for index, method in enumerate(CHOICES):
        part = slice(index * replicates, (index + 1) * replicates)
        found = _scores(model, noise, data, part, device)
        found["mean_scale"], found["kl_scale"] = torch.tensor(settings[part]).unbind(dim=1)
        rows += rows_of(cell, found, method=method)
    return CellResult(rows)


def _scores(model: StackedMLP, noise: GaussianLikelihood, data: Splits, part: slice, device) -> dict[str, Tensor]:
    """Test scores of one choice: the predictive mean, the mean weights, the pruned networks; in the data's units."""
    copies = model.replicates // data.test_x.shape[0]
    x = data.test_x.repeat(copies, 1, 1)
    draws = model.predict(x, NUM_DRAWS, torch.Generator(device).manual_seed(73_000))[:, part]
    found = gaussian_scores(draws, noise.scale()[part], data)
    found["rmse_test_mean_weights"] = data.rmse(pruned(model, 0, x)[part])
    for percent in DROP_RATES:
        found[f"rmse_test_at_{percent}"] = data.rmse(pruned(model, percent, x)[part])
    return found | {"active": model.posterior.percent_active()[part]}


def _cells(name: str, splits: int, hidden: int = 50, epochs: int | None = None, **others) -> list[Cell]:
    size = {"data": name, "hidden": hidden}
    default, batch = TRAINING.get(name, (2, 64))
    search = {"mean_scales": list(MEAN_SCALES), "kl_scales": list(KL_SCALES), "held_out": 0.2}
    train = {"epochs": epochs or default, "batch_size": batch, "learning_rate": 0.01}
    dropout = {"probabilities": [0.005, 0.01, 0.05, 0.1], "weight_decays": [1e-6, 1e-4], "held_out": 0.2}
    rivals = {"kl_scales": list(uci_rivals.KL_SCALES), "held_out": 0.2}
    replicates = tuple(range(splits))
    return [
        Cell(name, "sBNN", replicates, size | train | search | {"initial_scale": 0.002}),
        Cell(name, "Dropout", replicates, size | train | dropout),
        Cell(name, "PBP", replicates, size | {"epochs": 40} | others),
        *(Cell(name, method, replicates, size | train | rivals) for method in uci_rivals.METHODS),
    ]


def _book() -> list[Cell]:
    cells = []
    for name in TRAINING:
        if name == "year":
            continue
        cells += _cells(name, 5 if name == "protein" else 20)
    return cells


def _paper() -> list[Cell]:
    return _book() + _cells("year", 1, hidden=100)


EXPERIMENTS = [
    Experiment(
        name="sbnn-uci",
        overlap=1 / 9,
        summary="UCI regression, nine sets and Year: closed-form inclusion pruned at 0-95 %, and four rivals",
        profiles=profiles(_cells, smoke=(SIMULATED, 2, 5, 2), book=_book, paper=_paper),
        run_cell=run_sbnn,
        tiny={"replicates": 2, "data": SIMULATED, "hidden": 5, "epochs": 2, "batch_size": 64},
        methods={"Dropout": run_dropout, "PBP": run_pbp} | dict.fromkeys(uci_rivals.METHODS, uci_rivals.run_rival),
        unavailable={"paper": "not run: adds only Year to the book profile, whose file is not at hand"},
        reads=reads,
        schedules=schedules,
        budget=epochs_of,
        sources={"sBNN-50": "sBNN"},
        value=4.0,
    )
]
