"""How fast the posterior comes to the truth as n grows: Theorem 4.1 on two teachers that the network can be.

Written down before the runs. For n = 250 to 8,000 the network of Simulation I is trained with lambda_opt, which knows
nothing of the teacher, and the squared Hellinger distance (svbnn-hellinger) is averaged over draws of the posterior and
new inputs. With the teacher's own number of weights s the approximation error is 0, and the theorem's bound falls as
epsilon_n^2, (svbnn-epsilon) with kappa = 1; `slope_rate` is the slope of the logarithm of the distance on that of the
bound, over all n. Steps of training are as many for every n, those of Simulation I (A) as published.

The theorem is about the minimum of the objective. So the same training also starts at the teacher itself, with the
inclusion probabilities and scales of any other start: it shows what lies near the truth, whether or not training from
the published start finds it.

What an outcome means:

1. The slope of the published start is above 1, its interval over data sets too: the claim holds on this teacher.
2. It is below 1, and that from the teacher above it: there are posteriors that contract at the rate, and training does
   not find them. The claim about the method fails there, and the theorem does not.
3. Both are below 1: these n are too few for the rate, or the minimum does not contract. They cannot tell which.

Read after the runs: it is outcome 1 on the sparse teacher, but from n = 4,000 on the distance falls from neither start.
Is it the gates, some of which stay closed in a few of a thousand draws where the teacher needs them, or the weights?
So the sparse teacher has a third kind of training, from the usual start of means, with the teacher's gates held open
and all others closed, and the objective that each ends at. Written down before those runs, both differences paired:

4. From 4,000 to 8,000 the distance falls with held gates: the gates stop it. It does not: the weights' training does.
5. Held gates end at a lower objective at n = 8,000: training does not find the minimum, which the theorem is about.
   At a higher one: it finds something better than the truth's own gates, which then is no minimum either.

Read after those: at 8,000 held gates end 212 nats lower, so that training does not find the minimum, and at a quarter
of the distance. From 4,000 to 8,000 it falls by 0.00013 +- 0.00011, which is undecided: by the rule the gates alone do
not stop it. They hold it up at every n.

The dense teacher's s is so large that its bound is above 1 at all of these n, which no distance can be: of that teacher
only the slope says something. Simulation II cannot measure a rate: its network is the same at every n and cannot be its
function.
"""

import itertools
import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from bnnlib import functional as bF
from bnnlib.replicates import Layout, StackedMLP, StackedSpikeSlab, fit_stacked
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.shared.stages import Stages
from chapters.spike_slab.experiments.coverage import FIXED, LEARNING_RATE, PRIOR_SCALE, teacher
from chapters.spike_slab.experiments.simulations import NUM_INTERVAL_DRAWS, NUM_INTERVAL_POINTS, PROBLEMS
from chapters.spike_slab.formulas import variational_error_rate

TEACHERS = {"dense": "1a", "sparse": "1b"}
START, AT_TEACHER, HELD = "SVBNN", "SVBNN, from the teacher", "SVBNN, the teacher's gates held"
CLOSED = 15.0  # log-odds of a held gate: one in three million draws differs


def sparse_teacher(sizes: tuple[int, ...]) -> Tensor:
    """Parameters of `simulated.sparse_teacher_function` as a network's, (1, parameters) in the order of `Layout`."""
    weights = [torch.zeros(fan_out, fan_in) for fan_in, fan_out in itertools.pairwise(sizes)]
    weights[0][:3, :5] = torch.tensor([[3.0, -2, 0, 0, 0], [0, 0, 4, 2, 0], [0, 0, 0, 0, 3]])
    weights[1][:2, :3] = torch.tensor([[2.0, -2, 0], [0, 2, 2]])
    weights[2][0, :2] = torch.tensor([4.0, 3])
    return torch.cat([part for weight in weights for part in (weight.flatten(), torch.zeros(len(weight)))])[None]


def teacher_of(setting: str) -> Tensor:
    """The true parameters, (1, parameters)."""
    return teacher(FIXED) if setting == "dense" else sparse_teacher(PROBLEMS["1b"].sizes)


def squared_rate(sizes: tuple[int, ...], num_active: int, num_data: int) -> float:
    """epsilon_n^2, (svbnn-epsilon) at its limit kappa = 1, of `num_active` weights; dimensionless."""
    return variational_error_rate(num_data, sizes[0], len(sizes) - 2, sizes[1], num_active) * math.log(num_data)


def squared_hellinger(draws: Tensor, truth: Tensor) -> Tensor:
    """d^2 of (svbnn-hellinger) for noise of variance 1, averaged over draws (S, R, m, 1) and inputs of truth (m, 1)."""
    return -torch.expm1(-(draws - truth).square() / 8).mean((0, 2, 3))


def slopes(x: list[float], y: Tensor) -> Tensor:
    """Of the least-squares lines through log y (len(x), R) on log x, (R,)."""
    centered = torch.tensor(x, dtype=torch.float64).log()
    centered -= centered.mean()
    return centered @ y.double().log() / centered.square().sum()


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """One training for each n, of all data sets side by side; those of a smaller n are the first rows of a larger."""
    params, stages, problem = cell.params, Stages(checkpoint), PROBLEMS[TEACHERS[cell.setting]]
    true = teacher_of(cell.setting)
    test_x, _, test_f = (part[:NUM_INTERVAL_POINTS].to(device) for part in problem.test_data())
    for count in params["counts"][len(stages.finished) :]:
        stages.finish(_trained(cell, count, true, test_x, test_f, device, stages))
    rows = []
    for count, values in zip(params["counts"], stages.finished, strict=True):
        rows += rows_of(cell, values, f"{cell.setting}, n={count:,}")
    bounds = [squared_rate(problem.sizes, int((true != 0).sum()), count) for count in params["counts"]]
    distances = torch.stack([values["hellinger"] for values in stages.finished])
    return CellResult(rows + rows_of(cell, {"slope_rate": slopes(bounds, distances)}))


def _trained(cell: Cell, count: int, true: Tensor, test_x: Tensor, test_f: Tensor, device, stages) -> dict[str, Any]:
    problem, first = PROBLEMS[TEACHERS[cell.setting]], cell.replicates[0]
    layout = Layout(problem.sizes, len(cell.replicates))
    start = layout.uniform(-0.6, 0.6, torch.Generator().manual_seed(20_000 + first))
    start = true.expand_as(start).clone() if cell.method == AT_TEACHER else start
    posterior = StackedSpikeSlab(layout, start, bF.inclusion_probability_for(problem.sizes, count), PRIOR_SCALE)
    if cell.method == HELD:
        posterior.weight_logit.data = torch.where(true != 0, CLOSED, -CLOSED).expand_as(start).clone()
        posterior.weight_logit.requires_grad_(False)
    model = StackedMLP(posterior, problem.activation).to(device)
    most = replace(problem, num_samples=cell.params["counts"][-1])
    x, y = (part[:count].to(device) for part in most.data(cell.replicates))
    fit_stacked(
        model,
        x,
        y,
        epochs=max(1, cell.params["steps"] // -(-count // problem.batch_size)),
        batch_size=problem.batch_size,
        learning_rate=LEARNING_RATE,
        generator=torch.Generator(device).manual_seed(33_000 + first),
        checkpoint=stages,
    )
    source = torch.Generator(device).manual_seed(34_000 + first)
    found = {"hellinger": squared_hellinger(model.predict(test_x, NUM_INTERVAL_DRAWS, source), test_f).cpu()}
    if cell.params.get("objective"):
        fit = model.predict(x.transpose(0, 1), NUM_INTERVAL_DRAWS, source)
        misfit = (fit - y.transpose(0, 1)).square().mean(0).sum((1, 2)) / 2
        found["objective"] = (misfit + posterior.kl_divergence()).detach().cpu()
    return found | {"sparsity": posterior.percent_active().cpu()}


def _cells(replicates: int, counts: list[int], steps: int) -> list[Cell]:
    params = {"counts": counts, "steps": steps}
    cells = [Cell("dense", method, tuple(range(replicates)), params) for method in (START, AT_TEACHER)]
    params = params | {"objective": True}
    return cells + [Cell("sparse", method, tuple(range(replicates)), params) for method in (START, AT_TEACHER, HELD)]


EXPERIMENTS = [
    Experiment(
        name="svbnn-contraction",
        summary="How fast SVBNN comes to the truth from 250 to 8,000 observations, beside the theorem's rate",
        profiles=profiles(_cells, smoke=(2, [60, 120], 20), book=(20, [250, 500, 1_000, 2_000, 4_000, 8_000], 30_000)),
        run_cell=run_cell,
        tiny={"replicates": 2, "counts": [40, 80], "steps": 20},
        budget=lambda cell: (cell.params["steps"], "iterations"),
        value=4.5,
    )
]
