"""What the stochastic approximation is for: does the slab of the prior outlive the start of the chain?

A smaller version of the regression of section 5.1: 100 rows, 200 inputs of which three matter, v0 = 0.01. One cell is
one data set with all its chains as one batch. The named methods are run as four chains from four starts; rows are of
the first, and split R-hat looks at all. Two runs remove what may cause the loss: "SGLD-EM, delta=1/2" holds delta, and
"SGLD-EM, sigma^2=3" holds sigma at the noise's own; "SGLD-SA, then EM" has EM take over in the middle. The grid of
first weights and exponents behind the explorer is one chain for each point, kept in arrays.

Holding sigma keeps the slab, and so does holding delta: neither says which of the latent variables has to be slow. The
cells "apart" take the same data sets, one chain a method, and move each latent variable at a speed of its own: slowly,
by the weights of SA, or at full speed, as EM. What an outcome means, written before they ran, for the share of the
twenty data sets on which the slab is kept:

1. sigma fast and the rest slow loses it as EM does, sigma slow and the rest fast keeps it: sigma is the cause.
2. Both keep it: it is lost where sigma and the rest are both fast, a race; no single one has to be slow.
3. Both lose it: what holding sigma showed was the knowledge of the noise, not the speed.

rho, kappa or delta slow alone says whether another single one is enough; sigma held for 100 steps at its start, then
all at full speed, whether the start alone decides.
"""

import math
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bnnlib.sampling import SGLD, SpikeSlabGaussianLaplacePrior, polynomial, split_r_hat
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.learned_priors.experiments.regression import PUBLISHED, step_size, steps_of
from chapters.shared.simulated import correlated_regression

SETTING = "200 inputs, v0=0.01"
METHODS = ("SGLD-SA", "SGLD-EM", "SGLD", "SGLD-EM, delta=1/2", "SGLD-EM, sigma^2=3", "SGLD-SA, then EM")
ZERO = "predict 0"
FIRST = (0.003, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.5, 1.0)  # w_1 of the grid
EXPONENTS = (0.0, 0.3, 0.7, 1.0)
OFFSET = 100.0  # B of the grid
APART, LATENT = f"{SETTING}, apart", ("rho", "kappa", "sigma", "inclusion")
SLOW = {  # of the cells "apart": which latent variables follow slowly
    "SGLD-SA": LATENT,
    "SGLD-EM": (),
    "sigma fast": ("rho", "kappa", "inclusion"),
    "sigma slow": ("sigma",),
    "rho slow": ("rho",),
    "kappa slow": ("kappa",),
    "delta slow": ("inclusion",),
    "sigma held at first": (),
}
HELD_FOR = 100  # steps of the last
COEFFICIENTS, NOISE = (3.0, 2.0, 1.0), math.sqrt(3.0)
STARTS = 4
TRACED = ("inclusion", "rho1", "beta1", "sigma")
POINTS = 50  # of a trace


def problem(replicate: int, num_inputs: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training x, y and test x, y of one data set."""
    coefficients = torch.zeros(num_inputs)
    coefficients[:3] = torch.tensor(COEFFICIENTS)
    generator = torch.Generator().manual_seed(75_000 + replicate)
    train = correlated_regression(100, coefficients, generator)
    return *train, *correlated_regression(1000, coefficients, generator)


def traced_steps(steps: int) -> np.ndarray:
    """Steps at which a trace has a point, evenly spaced on a logarithmic axis."""
    return np.unique(np.geomspace(1, steps, POINTS).astype(int))


class _Weights:
    """w_k of all chains: those of the named methods, each from several starts, then those of the grid."""

    def __init__(self, steps: int, device: torch.device) -> None:
        names = np.repeat(METHODS, STARTS)
        self.falling = torch.tensor([name.startswith("SGLD-SA") for name in names], device=device)
        self.late = torch.tensor(names == "SGLD-SA, then EM", device=device)
        self.full = torch.tensor([name.startswith("SGLD-EM") for name in names], device=device).float()
        self.first, self.exponent = torch.tensor(list(product(FIRST, EXPONENTS)), device=device).T
        self.middle, self.published = steps // 2, polynomial(10.0, 1000.0, 0.7)

    def __call__(self, k: int) -> Tensor:
        named = torch.where(self.falling, torch.full_like(self.full, self.published(k)), self.full)
        if k > self.middle:
            named = torch.where(self.late, torch.ones_like(named), named)
        return torch.cat([named, self.first * ((OFFSET + 1.0) / (OFFSET + k)) ** self.exponent])


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell, for its probe."""
    steps = range(1, cell.params["steps"] + 1)
    return {"step size": (step_size, steps), "weights": (_Weights(len(steps), torch.device("cpu")), steps)}


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Every method and every point of the grid on one data set."""
    (replicate,), steps, num_inputs = cell.replicates, cell.params["steps"], cell.params["num_inputs"]
    x, y, test_x, test_y = (part.to(device) for part in problem(replicate, num_inputs))
    weights, named = _Weights(steps, device), len(METHODS) * STARTS
    start = 0.1 * torch.randn(STARTS, num_inputs, generator=torch.Generator().manual_seed(76_000 + replicate))
    grid = start[:1].expand(len(FIRST) * len(EXPONENTS), -1)
    beta = torch.nn.Parameter(torch.cat([start.repeat(len(METHODS), 1), grid]).to(device))
    prior = SpikeSlabGaussianLaplacePrior(
        {"beta": beta},
        spike_scale=0.01,
        slab_variance=10.0,
        **PUBLISHED,
        likelihood="regression",
        num_data=len(y),
        step_size=weights,
        batch_dims=1,
    )
    sampler = SGLD([beta], lr=1e-3, generator=torch.Generator(device).manual_seed(77_000 + replicate))
    held = {
        name: slice(STARTS * METHODS.index(name), STARTS * (METHODS.index(name) + 1))
        for name in ("SGLD-EM, delta=1/2", "SGLD-EM, sigma^2=3")
    }
    mean, draws, traces, traced = torch.zeros_like(beta, requires_grad=False), [], [], set(traced_steps(steps))
    for k, squares in steps_of(beta, (x, y), prior, sampler, steps):
        prior.update(squares)
        prior.inclusion["beta"][held["SGLD-EM, delta=1/2"]] = 0.5
        prior.sigma[held["SGLD-EM, sigma^2=3"]] = NOISE
        if k > steps // 2:
            mean += beta.detach()
            draws.append(beta.detach()[:named, :3].clone())
        if k in traced:
            now = (prior.inclusion["beta"], prior.rho["beta"][:, 0], beta.detach()[:, 0], prior.sigma)
            traces.append(torch.stack(now))
    error = (mean / len(draws) @ test_x.t() - test_y).square().mean(dim=1)
    included = (prior.rho["beta"] > 0.5).sum(dim=1)
    kept = 100.0 * (included > 0)  # of the slab: with w_k < 1 a lost delta is tiny, not zero
    chains = torch.stack(draws, dim=1).unflatten(0, (len(METHODS), STARTS))
    values = {"mse_test": error, "kept": kept, "included": included, "sigma": prior.sigma}
    rows = []
    for place, method in enumerate(METHODS):
        one = {metric: column[STARTS * place] for metric, column in values.items()}
        rows += rows_of(cell, one | {"r_hat": split_r_hat(chains[place]).max()}, method=method)
    rows += rows_of(cell, {"mse_test": test_y.square().mean()}, method=ZERO)
    return CellResult(rows, _arrays(torch.stack(traces, dim=-1), error[named:], kept[named:], replicate))


def run_apart(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """A chain for each set of slow latent variables on one data set."""
    (replicate,), steps, num_inputs = cell.replicates, cell.params["steps"], cell.params["num_inputs"]
    x, y, test_x, test_y = (part.to(device) for part in problem(replicate, num_inputs))
    start = 0.1 * torch.randn(1, num_inputs, generator=torch.Generator().manual_seed(85_000 + replicate))
    beta = torch.nn.Parameter(start.repeat(len(SLOW), 1).to(device))
    more = PUBLISHED | {"likelihood": "regression", "num_data": len(y), "batch_dims": 1}
    prior = SpikeSlabGaussianLaplacePrior({"beta": beta}, spike_scale=0.01, slab_variance=10.0, **more)
    slow = {name: torch.tensor([name in names for names in SLOW.values()], device=device) for name in LATENT}
    held = torch.tensor([name == "sigma held at first" for name in SLOW], device=device)
    published, full, mean = polynomial(10.0, 1000.0, 0.7), torch.ones(len(SLOW), device=device), torch.zeros_like(start)
    sampler = SGLD([beta], lr=1e-3, generator=torch.Generator(device).manual_seed(86_000 + replicate))
    for k, squares in steps_of(beta, (x, y), prior, sampler, steps):
        for name in LATENT:  # one at a time, in the order of one common update
            weights = full.where(~slow[name], published(k))
            stands = name == "sigma" and k <= HELD_FOR
            prior.learned, prior.step_size = (name,), weights * ~held if stands else weights
            prior.update(squares)
        if k > steps // 2:
            mean = mean + beta.detach() / (steps - steps // 2)
    kept = 100.0 * ((prior.rho["beta"] > 0.5).sum(dim=1) > 0)
    error = (mean @ test_x.t() - test_y).square().mean(dim=1)
    ends = {"kept": kept, "mse_test": error, "sigma": prior.sigma}
    rows = []
    for place, name in enumerate(SLOW):
        rows += rows_of(cell, {metric: float(column[place]) for metric, column in ends.items()}, method=name)
    return CellResult(rows)


def _arrays(traces: Tensor, error: Tensor, kept: Tensor, replicate: int) -> dict[str, np.ndarray]:
    """Traces (4 quantities, points) of each method's first chain; of the grid its ends and, once, traces."""
    named = len(METHODS) * STARTS
    arrays = {f"trace {method}": traces[:, STARTS * place] for place, method in enumerate(METHODS[:3])}
    shape = (len(FIRST), len(EXPONENTS))
    arrays |= {"grid mse": error.reshape(shape), "grid kept": kept.reshape(shape)}
    if replicate == 0:
        arrays["grid traces"] = traces[:, named:].unflatten(1, shape)
    return {name: value.cpu().half().numpy() for name, value in arrays.items()}


def _cells(replicates: int, steps: int, num_inputs: int) -> list[Cell]:
    params, kinds = {"steps": steps, "num_inputs": num_inputs}, ((SETTING, "all methods"), (APART, "one at a time"))
    return [Cell(*kind, (replicate,), params) for kind in kinds for replicate in range(replicates)]


EXPERIMENTS = [
    Experiment(
        name="aeb-slab",
        summary="Which chains keep their slab: SA, EM and a fixed prior, with runs that remove the cause of the loss",
        profiles=profiles(_cells, smoke=(2, 60, 20), book=(20, 4000, 200)),
        run_cell=run_cell,
        methods={"one at a time": run_apart},
        tiny={"steps": 60, "num_inputs": 20},
        schedules=schedules,
        budget=lambda cell: (cell.params["steps"], "iterations"),
        value=5.0,
    )
]
