"""The inclusion probabilities of every method of the book beside the exact ones, in spike-and-slab regression.

20 random problems a design: 100 rows, 10 inputs, noise N(0, 1), slab N(0, 1), prior probability 1/2. Six inputs have
weights from 0.1, one posterior sd where inputs are orthogonal, to 0.8, in random order and with random signs; four have
none. A cell is all problems of all designs by one method, as one stack; the exact answer is computed beside it.

Steps, learning rates and spikes were chosen by the mean absolute error, those of SBP by its choice of inputs, on 20
other problems of each design (`problems(..., first=900_000)`): spike sd 0.1 for chapter 4 and Laplace scale 0.05 for
chapter 1. "AVO" is chapter 2 with the spike of chapter 4, so that its own exact answer is there too; half of that width
was as good. "sBNN, narrow spike" is what chapter 4's objective does with a spike of a fifth of that. "SGHMC-SA, longer"
has four times the steps (written before it ran, after a reader's trial: a rank decided above that of "SGHMC-SA" with
rho = 0.9 says that a part of that method's place is its short chain). "Exact, Gaussian spike" (that of chapters 2 and
4) and "Exact, Laplace spike" (that of chapter 1) are the exact answers under these spikes, so that what the prior
changes and what the method errs can be told apart.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import Tensor

from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, Need, profiles, rows_of
from chapters.foundations.enumeration import Enumeration, SpikeSlabRegression, enumerate_models, spike_slab_regression
from chapters.foundations.regression import correlated_inputs
from chapters.foundations.selectors import EXACT, SELECTORS, Selection, schedules

NAME = "fnd-inclusion"
DESIGNS = {"orthogonal": None, "rho=0.5": 0.5, "rho=0.9": 0.9}
SIGNALS = (0.0, 0.0, 0.0, 0.0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.8)
ROWS = 100
_GIBBS = {"chains": 16, "sweeps": 600, "burn_in": 100}
SETTINGS: dict[str, dict[str, Any]] = {
    "Enumeration": {},
    "Prior": {},
    "One at a time": {},
    "Gibbs": _GIBBS,
    "Mean field": {"starts": 0},
    "Mean field, best start": {"starts": 20},
    "SVBNN": {"temperature": 0.5, "steps": 3000, "learning_rate": 0.03, "initial_scale": 0.1},
    "SVBNN, limit": {"temperature": 0.5},
    "SVBNN, cold limit": {"temperature": 0.01},
    "sBNN": {"spike_scale": 0.1, "steps": 1500, "learning_rate": 0.02, "initial_scale": 0.1},
    "sBNN, best start": {"spike_scale": 0.1, "starts": 20},
    "sBNN, narrow spike": {"spike_scale": 0.02, "steps": 1500, "learning_rate": 0.02, "initial_scale": 0.1},
    "SGHMC-SA": {"spike_scale": 0.05, "weights": [1.0, 100.0, 0.7], "learning_rate": 3e-4, "momentum": 0.9}
    | {"steps": 10_000},
    "SGHMC-SA, longer": {"spike_scale": 0.05, "weights": [1.0, 100.0, 0.7], "learning_rate": 3e-4, "momentum": 0.9}
    | {"steps": 40_000},
    "AVO": {"spike_scale": 0.1, "rows": ROWS, "steps": 4000, "learning_rate": 0.2},
    "SBP": {"steps": 4000, "learning_rate": 0.02},
    "|mean| / sd": {},
    "Exact, Gaussian spike": {"spike_scale": 0.1},
    "Exact, Laplace spike": {"laplace_scale": 0.05} | _GIBBS,
}


def problems(
    designs: str | Sequence[str], numbers: Sequence[int], first: int = 20_000
) -> tuple[SpikeSlabRegression, Tensor]:
    """A stack of problems, designs varying slowest, and their true weights (problems, p).

    Args:
        designs: one or several keys of `DESIGNS`.
        numbers: of the replicates.
        first: where the seeds begin.
    """
    designs = [designs] if isinstance(designs, str) else designs
    x, y, weights = [], [], []
    for design, number in product(designs, numbers):
        generator = torch.Generator().manual_seed(first + number)
        correlation = DESIGNS[design]
        shape = (ROWS, len(SIGNALS))
        x.append(correlated_inputs(shape, correlation or 0.0, generator, orthogonal=correlation is None))
        order = torch.randperm(len(SIGNALS), generator=generator)
        signs = 2.0 * torch.randint(2, (len(SIGNALS),), generator=generator) - 1.0
        weights.append(torch.tensor(SIGNALS, dtype=torch.float64)[order] * signs)
        y.append(x[-1] @ weights[-1] + torch.randn(ROWS, generator=generator, dtype=torch.float64))
    return spike_slab_regression(torch.stack(x), torch.stack(y)), torch.stack(weights)


def run_cell(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None, products: Sequence[dict[str, Any]] = ()
) -> CellResult:
    """One method on all problems, beside the sum over all models."""
    designs, settings = cell.params["designs"], {k: v for k, v in cell.params.items() if k != "designs"}
    stack, _ = problems(designs, cell.replicates)
    generator = torch.Generator().manual_seed(21_000 + cell.replicates[0])
    selection = SELECTORS[cell.method](stack, settings, generator)
    values = measures(selection, enumerate_models(stack))
    for under_own_spike in products:
        values["inclusion_error_own"] = (selection.score - under_own_spike["inclusion"]).abs().mean(dim=-1)
    return CellResult(
        rows_of(cell, values, designs), {"scores": selection.score.float().numpy()}, {"inclusion": selection.score}
    )


def measures(selection: Selection, exact: Enumeration) -> dict[str, Tensor]:
    """One value a problem: errors of probabilities, agreement of ranks and of chosen models, moments of the weights."""
    values = {}
    if selection.is_probability:
        error = selection.score - exact.inclusion
        values["inclusion_error"] = error.abs().mean(dim=-1)
        values["inclusion_error_largest"] = error.abs().amax(dim=-1)
        values["inclusion_bias"] = error.mean(dim=-1)
    if (selection.score.amax(dim=-1) > selection.score.amin(dim=-1)).all():
        values["rank_agreement"] = rank_agreement(selection.score, exact.inclusion)
    same = selection.selected == exact.median_model
    values["median_model"] = 100.0 * same.all(dim=-1).double()
    values["inputs_as_exact"] = 100.0 * same.double().mean(dim=-1)
    if selection.mean is not None:
        values["weight_mean_error"] = ((selection.mean - exact.mean) / exact.scale).square().mean(dim=-1).sqrt()
        values["weight_sd_ratio"] = (selection.scale / exact.scale).log().mean(dim=-1).exp()
    return values


def rank_agreement(first: Tensor, second: Tensor) -> Tensor:
    """Spearman's correlation over the last axis; entries that are equal share their mean rank."""
    ranks = []
    for value in (first, second):
        below = (value[..., None, :] < value[..., :, None]).double().sum(dim=-1)
        not_above = (value[..., None, :] <= value[..., :, None]).double().sum(dim=-1)
        rank = 0.5 * (below + not_above)
        ranks.append(rank - rank.mean(dim=-1, keepdim=True))
    return (ranks[0] * ranks[1]).sum(dim=-1) / (ranks[0].norm(dim=-1) * ranks[1].norm(dim=-1))


def _cells(designs: Sequence[str], count: int, changes: dict[str, Any]) -> list[Cell]:
    own = {}
    for method, params in SETTINGS.items():
        changed = {name: value for name, value in changes.items() if name in params}
        own[method] = Cell("all designs", method, tuple(range(count)), {"designs": list(designs)} | params | changed)
    needs = {method: (Need(NAME, own[exact]),) for method, exact in EXACT.items()}
    return [replace(cell, needs=needs.get(method, ())) for method, cell in own.items()]


EXPERIMENTS = [
    Experiment(
        name=NAME,
        summary="Inclusion probabilities of every method beside the exact ones, in regression with 10 inputs",
        profiles=profiles(
            _cells,
            smoke=(["orthogonal", "rho=0.9"], 2, {"steps": 40, "chains": 4, "sweeps": 20, "burn_in": 5, "starts": 1}),
            book=(list(DESIGNS), 20, {}),
        ),
        run_cell=run_cell,
        tiny={"steps": 10, "chains": 2, "sweeps": 8, "burn_in": 2, "starts": 1, "replicates": 2},
        schedules=schedules,
        precision="float64",
        unavailable={"paper": "not run: no paper has this experiment, and the book profile is whole"},
        value=3.0,
    )
]
