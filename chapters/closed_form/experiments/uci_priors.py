"""Do the prior's scales and inclusion probability matter on the small networks of Experiment 5? A sweep of all three.

Written down before the run. Networks, training and splits are those of `sbnn-uci` with the paper's objective (weight 1
of the divergence, initial means as PyTorch has them) and nothing chosen. Priors are the pair of that experiment,
(log tau_1, log tau_0) = (1, -6) with pi = 1/2, the other published pairs, without the two that lie within 1.1 of
another, and the first pair with pi = 0.1 and 0.9. All networks of a split begin with the same means.

A row is a prior; what decides is its test error, whole, over that of the first prior on the same split. "active" is the
mean of p*, in percent, which no claim reads.

What an outcome means: "minimal" is taken as 5 %, the share which the verdicts take for the least that matters.

1. All ratios lie within 5 % of 1 on all data sets, decided by t over the splits: the effects are minimal, as claimed.
2. Some do: partly; the text says which prior or set has an effect.
3. None does, and some are decided to lie outside: the effects are not minimal.
"""

import torch

from bnnlib.replicates import GaussianLikelihood, Layout, StackedGaussianSpikeSlab, StackedMLP
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, epochs_of, profiles, rows_of
from chapters.closed_form.experiments.uci import NUM_DRAWS, TRAINING
from chapters.closed_form.experiments.uci_data import fit_splits, gaussian_scores, load_splits, reads, schedules
from chapters.shared.simulated import SIMULATED

# name: log tau_1, log tau_0, pi
PRIORS = {
    "(1, -6), 0.5": (1.0, -6.0, 0.5),
    "(0, -6), 0.5": (0.0, -6.0, 0.5),
    "(0, -5), 0.5": (0.0, -5.0, 0.5),
    "(-1, -3), 0.5": (-1.0, -3.0, 0.5),
    "(1, -6), 0.1": (1.0, -6.0, 0.1),
    "(1, -6), 0.9": (1.0, -6.0, 0.9),
}


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """All priors on all splits of a data set as one stack."""
    params, splits = cell.params, len(cell.replicates)
    data = load_splits(params["data"], cell.replicates).to(device)
    priors = torch.tensor(list(PRIORS.values()), dtype=torch.float64).repeat_interleave(splits, dim=0)
    layout = Layout((data.train_x.shape[-1], params["hidden"], 1), splits)
    means = layout.kaiming_uniform(torch.Generator().manual_seed(70_000)).repeat(len(PRIORS), 1)
    slab, spike, inclusion = priors[:, 0].exp(), priors[:, 1].exp(), priors[:, 2]
    every = Layout(layout.sizes, len(means))
    posterior = StackedGaussianSpikeSlab(every, means, slab, spike, inclusion, initial_scale=params["initial_scale"])
    model, noise = StackedMLP(posterior).to(device), GaussianLikelihood(len(means)).to(device)
    generator = torch.Generator(device).manual_seed(74_000)
    fit_splits(model, noise, data, len(PRIORS), params, generator, checkpoint, 1.0)
    with torch.no_grad():
        x = data.test_x.repeat(len(PRIORS), 1, 1)
        draws = model.predict(x, NUM_DRAWS, torch.Generator(device).manual_seed(75_000))
        active = posterior.percent_active()
    rows = []
    for index, method in enumerate(PRIORS):
        part = slice(index * splits, (index + 1) * splits)
        found = gaussian_scores(draws[:, part], noise.scale()[part].detach(), data)
        rows += rows_of(cell, found | {"active": active[part]}, method=method)
    return CellResult(rows)


def _cells(names: tuple[str, ...], splits: int, hidden: int = 50) -> list[Cell]:
    cells = []
    for name in names:
        epochs, batch = TRAINING.get(name, (2, 64))
        params = {"data": name, "hidden": hidden, "epochs": epochs, "batch_size": batch, "learning_rate": 0.01}
        cells.append(Cell(name, "priors", tuple(range(splits)), params | {"initial_scale": 0.002}))
    return cells


EXPERIMENTS = [
    Experiment(
        name="sbnn-uci-priors",
        overlap=1 / 9,
        summary="UCI regression with six priors: whether scales and inclusion probability matter on small networks",
        profiles=profiles(
            _cells, smoke=((SIMULATED,), 2, 5), book=(("boston", "concrete", "energy", "wine", "yacht"), 20)
        ),
        run_cell=run_cell,
        sources=dict.fromkeys(PRIORS, "priors"),
        tiny={"replicates": 2, "data": SIMULATED, "hidden": 5, "epochs": 2},
        reads=reads,
        schedules=schedules,
        budget=epochs_of,
    )
]
