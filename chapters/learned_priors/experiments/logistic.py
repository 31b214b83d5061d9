"""Sparse logistic regression: our own design in the place of appendix C of Deng et al. (2019), which has no code.

200 rows, 500 correlated inputs of which three matter, labels drawn from the logistic model. The hierarchy and the
methods are those of the linear regression, all chains of a data set one batch; sigma's prior has nu = p and lam = 2,
which keeps sigma near 1: with nu = lam = 1 the hundreds of weights in the spike would drive it, and with it every scale
of the prior, towards 0.
"""

from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib import metrics
from bnnlib.sampling import SGLD, SpikeSlabGaussianLaplacePrior, polynomial
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.learned_priors.experiments.regression import step_size
from chapters.learned_priors.formulas import constant
from chapters.shared.simulated import correlated_regression

COEFFICIENTS = (3.0, 2.0, 1.0)
WEIGHTS = {"SGLD-SA": polynomial(10.0, 1000.0, 0.7), "SGLD-EM": constant(1.0), "SGLD": constant(0.0)}
SPIKE_SCALES = (0.01, 0.1)


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell, for its probe."""
    steps = range(1, cell.params["iterations"] + 1)
    return {"step size": (step_size, steps)} | {f"weight of {name}": (one, steps) for name, one in WEIGHTS.items()}


def problem(params: dict, replicate: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training x (n, p), labels (n,) in {0, 1} and the same for the test rows."""
    coefficients = torch.zeros(params["num_inputs"])
    coefficients[:3] = torch.tensor(COEFFICIENTS)
    generator, parts = torch.Generator().manual_seed(80_000 + replicate), []
    for rows in (params["num_train"], params["num_test"]):
        x, logit = correlated_regression(rows, coefficients, generator, noise_variance=0.0)
        parts += [x, torch.bernoulli(logit.sigmoid(), generator=generator)]
    return tuple(parts)


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Every method at both spike scales on one data set, one chain each."""
    (replicate,), params = cell.replicates, cell.params
    x, y, test_x, test_y = (part.to(device) for part in problem(params, replicate))
    chains = list(product(WEIGHTS, SPIKE_SCALES))
    start = torch.Generator().manual_seed(81_000 + replicate)
    weight = torch.nn.Parameter((0.1 * torch.randn(len(chains), x.shape[1], generator=start)).to(device))
    weight.grad = torch.zeros_like(weight)
    prior = SpikeSlabGaussianLaplacePrior(
        {"weight": weight},
        spike_scale=torch.tensor([spike_scale for _, spike_scale in chains]),
        slab_variance=10.0,
        a=1.0,
        nu=float(x.shape[1]),
        lam=2.0,
        kappa=(1.0, 1.0),
        step_size=lambda k: torch.tensor([WEIGHTS[method](k) for method, _ in chains], device=device),
        batch_dims=1,
    )
    sampler = SGLD([weight], lr=1e-3, generator=torch.Generator(device).manual_seed(82_000 + replicate))
    mean, probability = torch.zeros_like(weight, requires_grad=False), weight.new_zeros(len(chains), len(test_y))
    draws: list[Tensor] = []
    for k in range(1, params["iterations"] + 1):
        with torch.no_grad():
            torch.mm((weight @ x.t()).sigmoid_().sub_(y), x, out=weight.grad)
        prior.add_gradient_()
        sampler.param_groups[0]["lr"] = step_size(k)
        sampler.step()
        prior.update()
        if k % params["thin"] == 0 and k > params["iterations"] // 5:
            draws.append(weight.detach()[:, :3].clone())
            mean += weight.detach()
            probability += (weight.detach() @ test_x.t()).sigmoid_()
    values = _values(prior, mean / len(draws), probability / len(draws), torch.stack(draws, dim=1), test_y)
    rows = []
    for index, (method, spike_scale) in enumerate(chains):
        found = {metric: column[index] for metric, column in values.items()}
        rows += rows_of(cell, found, f"v0={spike_scale:g}", method)
    return CellResult(rows)


def _values(
    prior: SpikeSlabGaussianLaplacePrior, mean: Tensor, probability: Tensor, draws: Tensor, test_y: Tensor
) -> dict[str, Tensor]:
    """Metrics, one value a chain."""
    truth = torch.tensor(COEFFICIENTS, device=mean.device)
    low, high = metrics.central_interval(draws, dim=1)
    selected = prior.rho["weight"] > 0.5
    relevant = torch.arange(selected.shape[1], device=mean.device) < 3
    hits = (probability > 0.5) == (test_y > 0.5)
    values = {
        "accuracy": 100.0 * hits.float().mean(dim=1),
        "nll": F.binary_cross_entropy(probability, test_y.expand_as(probability), reduction="none").mean(dim=1),
        "covered": ((low <= truth) & (truth <= high)).sum(dim=1),
        "fnr": metrics.false_negative_rate(selected, relevant, dim=1),
        "fpr": metrics.false_positive_rate(selected, relevant, dim=1),
        "sigma": prior.sigma,
    }
    return values | {f"beta{j + 1}": mean[:, j] for j in range(3)}


def _cells(replicates: int, iterations: int, num_inputs: int, num_train: int, num_test: int) -> list[Cell]:
    params = {"iterations": iterations, "thin": max(1, iterations // 1000), "num_inputs": num_inputs}
    params |= {"num_train": num_train, "num_test": num_test}
    return [Cell("all settings", "all methods", (replicate,), params) for replicate in range(replicates)]


EXPERIMENTS = [
    Experiment(
        name="aeb-logistic",
        summary="Logistic regression with 200 rows and 500 inputs, three of which matter: SA, EM and a fixed prior",
        profiles=profiles(_cells, smoke=(2, 300, 40, 60, 50), paper=(10, 50_000, 500, 200, 1000)),
        run_cell=run_cell,
        schedules=schedules,
        tiny={"iterations": 300, "thin": 1, "num_inputs": 40, "num_train": 60, "num_test": 50},
    )
]
