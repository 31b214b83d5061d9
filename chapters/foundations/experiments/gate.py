"""One input whose exact inclusion probability is 0.935, and what chapter 3's relaxed gate says of it.

Mean field is exact here. "Straight-through" trains `SpikeSlabLinear` at two temperatures; "Limit" is where its gradient
is zero on average; "Exact expectation" trains the same parameters by the same optimizer and the exact objective, which
has no relaxed gate: the run without the cause. A cell has 50 runs that differ in their noise; the gate at 0.05 has two
such cells. The learning rate is that of fnd-inclusion.

Written before the second cell and the longer runs, after a reader's trial with another seed: means are compared as
log-odds, in which training moves, since the mean of probabilities that scatter lies below the probability of the mean
log-odds. "tau=0.05, longer" has four times the steps. If its mean log-odds are decided above those of the 100 runs,
steps were missing; if that is undecided, they were not.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.foundations import mean_field
from chapters.foundations.enumeration import SpikeSlabRegression, enumerate_models
from chapters.foundations.experiments.inclusion import SETTINGS
from chapters.foundations.selectors import relaxed_gate, schedules, train

EXACT, ROWS = 0.935, 100
TEMPERATURES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.01)
# steps; a cold gate's gradient is rare and large, and Adam goes slowly
TRAINED = {0.5: {"": 1500}, 0.05: {"": 8000, ", longer": 32_000}}
METHODS = ("Straight-through", "Limit", "Exact expectation")


def copies(count: int) -> SpikeSlabRegression:
    """The one-input problem `count` times, as a stack."""
    one = mean_field.single_input(EXACT, ROWS)
    return SpikeSlabRegression(
        one.gram.expand(count, 1, 1), one.cross.expand(count, 1).clone(), one.constant.expand(count)
    )


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """What the gate says after training, one run a replicate."""
    stack, params = copies(len(cell.replicates)), cell.params
    if cell.method == "Straight-through":
        generator = torch.Generator().manual_seed(22_000 + cell.replicates[0])
        inclusion = relaxed_gate(stack, params, generator).score
    elif cell.method == "Limit":
        inclusion = mean_field.relaxed_fixed_point(stack, params["temperature"]).inclusion
    else:
        inclusion = by_exact_expectation(stack, params)
    error = inclusion - enumerate_models(stack).inclusion
    values = {"inclusion": inclusion[:, 0], "inclusion_bias": error[:, 0]}
    return CellResult(rows_of(cell, values))


def by_exact_expectation(problem: SpikeSlabRegression, settings: dict[str, Any]) -> Tensor:
    """Inclusion probabilities of the paired family trained by Adam with the exact objective, shape (problems, p)."""
    start = torch.linalg.solve(problem.gram + torch.eye(problem.cross.shape[-1]).to(problem.gram), problem.cross)
    rho = torch.full_like(start, settings["initial_scale"]).expm1().log()
    parameters = torch.nn.ParameterList([start, rho, torch.zeros_like(start)])
    mean, rho, logit = parameters
    train(lambda: -mean_field.paired_elbo(problem, mean, F.softplus(rho), logit).sum(), parameters, settings)
    return logit.detach().sigmoid()


def _cells(temperatures: tuple[float, ...], count: int, **changes: int) -> list[Cell]:
    cells, numbers = [], tuple(range(count))
    trained = {k: v for k, v in SETTINGS["SVBNN"].items() if k != "temperature"}

    for temperature in temperatures:
        params = {"temperature": temperature}
        setting = f"tau={temperature:g}"
        cells.append(Cell(setting, "Limit", (0,), params))
        for name, steps in TRAINED.get(temperature, {}).items():
            own = params | trained | {"steps": steps} | changes
            cells.append(Cell(setting + name, "Straight-through", numbers, own))
        if temperature == 0.05:
            own = params | trained | {"steps": TRAINED[temperature][""]} | changes
            cells.append(Cell(setting, "Straight-through", tuple(count + number for number in numbers), own))
    return [*cells, Cell("no relaxation", "Exact expectation", (0,), trained | {"steps": 1500} | changes)]


EXPERIMENTS = [
    Experiment(
        name="fnd-gate",
        summary="One input with exact inclusion probability 0.935: what the relaxed gate says at several temperatures",
        profiles=profiles(_cells, smoke=lambda: _cells((0.5,), 2, steps=40), book=(TEMPERATURES, 50)),
        run_cell=run_cell,
        tiny={"steps": 10, "replicates": 2},
        schedules=schedules,
        precision="float64",
        unavailable={"paper": "not run: no paper has this experiment, and the book profile is whole"},
    )
]
