"""Large-p-small-n regression of Deng, Zhang, Liang and Lin (2019), section 5.1: Table 1 and Figure 1.

One cell is one data set with all its chains as one batch: every method in each of the four settings. Settings are those
of the text, except that the gradient is taken over all 100 rows, as in the published code, from which the table's
numbers come; its artificial gradient noise of standard deviation 0.01 is a thousandth of the Langevin noise and is left
out. `SGLD-SA` takes the text's weights 10 (k + 1000)^-0.7, `SGLD-SA, w=0.1` the constant that the published code has in
effect. `SGLD` never updates the latent variables, `SGLD, no L1` is what the published code runs under that name: a
line break there ends the statement before the Laplace term. Coefficients are drawn once for a data set, for training
and test rows alike; the published code trains on one draw and tests on its mean.
"""

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor

from bnnlib import metrics
from bnnlib.sampling import SGLD, SpikeSlabGaussianLaplacePrior, polynomial
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.shared.simulated import correlated_regression

SETTINGS = ((0.01, 2.0), (0.1, 2.0), (0.01, 1.0), (0.1, 1.0))  # spike scale v0, initial sigma
METHODS = ("SGLD-SA", "SGLD-EM", "SGLD", "SGLD-SA, w=0.1", "SGLD, no L1")
MEANS, SPREAD = (3.0, 2.0, 1.0), 0.2  # of the three coefficients that are not zero
NUM_TRAIN, NUM_TEST = 100, 50
PUBLISHED: dict[str, Any] = {"a": 1.0, "nu": 1.0, "lam": 1.0, "kappa": (1.0, 1.0)}  # of the prior
WEIGHTS = polynomial(10.0, 1000.0, 0.7)  # of the stochastic approximation
FIGURE = "v0=0.1, sigma=1"  # the setting of Figure 1


def step_size(k: int) -> float:
    """Of the sampler at step k = 1, 2, ..."""
    return 1e-3 * k ** (-1.0 / 3.0)


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell, for its probe."""
    steps = range(1, cell.params["iterations"] + 1)
    return {"step size": (step_size, steps), "weight": (WEIGHTS, steps)}


def problem(replicate: int, num_inputs: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Training x, y, test x, y and the coefficients of one data set."""
    generator = torch.Generator().manual_seed(70_000 + replicate)
    coefficients = torch.zeros(num_inputs)
    coefficients[:3] = torch.tensor(MEANS) + SPREAD * torch.randn(3, generator=generator)
    train = correlated_regression(NUM_TRAIN, coefficients, generator)
    return *train, *correlated_regression(NUM_TEST, coefficients, generator), coefficients


def steps_of(
    beta: torch.nn.Parameter,
    data: tuple[Tensor, Tensor],
    prior: SpikeSlabGaussianLaplacePrior,
    sampler: torch.optim.Optimizer,
    number: int,
    rate: Callable[[int], float] | None = step_size,
) -> Iterator[tuple[int, Tensor]]:
    """Steps of chains (chains, p): k and, of where the step began, the residuals' squared sums for `prior.update`.

    `rate` gives the sampler's step size; None leaves the sampler's own.
    """
    x, y = data
    beta.grad = torch.zeros_like(beta)
    for k in range(1, number + 1):
        with torch.no_grad():
            residual = beta @ x.t() - y
            torch.mm(residual, x, out=beta.grad).div_(prior.sigma.square().unsqueeze(1))
        prior.add_gradient_()
        if rate is not None:
            sampler.param_groups[0]["lr"] = rate(k)
        sampler.step()
        yield k, residual.square().sum(dim=1)


def setting_name(spike_scale: float, sigma: float) -> str:
    """The setting as the tables name it."""
    return f"v0={spike_scale:g}, sigma={sigma:g}"


class _Chains:
    """All chains of a data set: weights (chains, p), their prior and sampler, and what is kept of their draws."""

    def __init__(self, params: dict, replicate: int, device: torch.device) -> None:
        self.params, num_inputs = params, params["num_inputs"]
        self.x, self.y, self.test_x, self.test_y, self.coefficients = (
            part.to(device) for part in problem(replicate, num_inputs)
        )
        self.chains = list(product(params["methods"], SETTINGS))
        count = len(self.chains)
        start = torch.Generator().manual_seed(71_000 + replicate)
        self.weight = torch.nn.Parameter((0.1 * torch.randn(count, num_inputs, generator=start)).to(device))
        self.weight.grad = torch.zeros_like(self.weight)
        decays = torch.tensor([float(method == "SGLD-SA") for method, _ in self.chains], device=device)
        fixed = {"SGLD-EM": 1.0, "SGLD-SA, w=0.1": 0.1}
        constants = torch.tensor([fixed.get(method, 0.0) for method, _ in self.chains], device=device)
        self.prior = SpikeSlabGaussianLaplacePrior(
            {"weight": self.weight},
            spike_scale=torch.tensor([v0 for _, (v0, _) in self.chains]),
            slab_variance=10.0,
            sigma=torch.tensor([sigma for _, (_, sigma) in self.chains]),
            **PUBLISHED,
            b="p",
            likelihood="regression",
            num_data=NUM_TRAIN,
            step_size=lambda k: torch.add(constants, decays, alpha=WEIGHTS(k)),
            batch_dims=1,
        )
        without = [index for index, (method, _) in enumerate(self.chains) if method == "SGLD, no L1"]
        self.prior.kappa0["weight"][without] = 0.0
        generator = torch.Generator(device).manual_seed(72_000 + replicate)
        self.sampler = SGLD([self.weight], lr=1e-3, generator=generator)
        self.sampler.check_every = 0  # a chain that diverges must not stop the others
        self.total = torch.zeros_like(self.weight, requires_grad=False)
        self.kept: list[Tensor] = []  # draws of the first three coefficients
        # buffers: fresh ones cost more than the arithmetic
        self.transposed, self.residual = self.x.t().contiguous(), self.y.new_empty(count, NUM_TRAIN)

    @torch.no_grad()
    def step(self, k: int) -> None:
        """Iteration k = 1, 2, ..."""
        torch.mm(self.weight, self.transposed, out=self.residual).sub_(self.y)
        torch.mm(self.residual, self.x, out=self.weight.grad).div_(self.prior.sigma.square().unsqueeze(1))
        self.prior.add_gradient_()
        self.sampler.param_groups[0]["lr"] = step_size(k)
        self.sampler.step()
        self.prior.update(self.residual.square().sum(dim=1))
        if k % self.params["thin"] == 0 and k > self.params["burn_in"]:
            self.total += self.weight
            self.kept.append(self.weight[:, :3].clone())

    def state_dict(self) -> dict:
        state = {"weight": self.weight.detach(), "total": self.total, "kept": list(self.kept)}
        return state | {"prior": self.prior.state_dict(), "sampler": self.sampler.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        with torch.no_grad():
            self.weight.copy_(state["weight"])
            self.total.copy_(state["total"])
        self.kept = [draw.to(self.weight.device) for draw in state["kept"]]
        self.prior.load_state_dict(state["prior"])
        self.sampler.load_state_dict(state["sampler"])

    def scores(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Metrics, one value a chain, and the arrays of Figure 1 by method."""
        mean, draws = self.total / len(self.kept), torch.stack(self.kept, dim=1)
        error, fit = mean @ self.test_x.t() - self.test_y, mean @ self.transposed
        low, high = metrics.central_interval(draws, dim=1)
        truth = self.coefficients[:3]
        inside = (low <= truth) & (truth <= high)
        values = {
            "mae_test": error.abs().mean(dim=1),
            "mse_test": error.square().mean(dim=1),
            "mse_train": (fit - self.y).square().mean(dim=1),
            "covered": inside.sum(dim=1),
            "sigma": self.prior.sigma,
            "included": (self.prior.rho["weight"] > 0.5).sum(dim=1),
        }
        for j in range(3):
            values[f"error_beta{j + 1}"] = mean[:, j] - truth[j]
            values[f"width_beta{j + 1}"] = high[:, j] - low[:, j]
        return values, {"mean": mean, "draws": draws, "fit": fit, "test": error + self.test_y}

    def exact_ridge(self) -> float:
        """Test MSE of the exact posterior mean behind `SGLD, no L1`, which is a ridge with kappa1 = 1."""
        x, y = self.x.double(), self.y.double()
        dual = torch.linalg.solve(x @ x.t() + torch.eye(len(x), dtype=x.dtype, device=x.device), y)
        return (self.test_x.double() @ (x.t() @ dual) - self.test_y).square().mean().item()


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Every method in every setting on one data set."""
    (replicate,), params = cell.replicates, cell.params
    chains, first = _Chains(params, replicate, device), 1
    state = checkpoint.load() if checkpoint else None
    if state:
        chains.load_state_dict(state["chains"])
        first = state["iteration"] + 1
    for k in range(first, params["iterations"] + 1):
        chains.step(k)
        if checkpoint and k % 1000 == 0 and checkpoint.due():
            checkpoint.save({"chains": chains.state_dict(), "iteration": k})
    values, kept = chains.scores()
    rows = []
    for index, (method, setting) in enumerate(chains.chains):
        found = {metric: column[index] for metric, column in values.items()}
        rows += rows_of(cell, found, setting_name(*setting), method)
    rows += [
        {**row, "metric": "mse_test_exact", "value": chains.exact_ridge()}
        for row in rows
        if row["metric"] == "mse_test" and row["method"] == "SGLD, no L1"
    ]
    return CellResult(rows, _arrays(chains, kept) if replicate == 0 else {})


def _arrays(chains: _Chains, kept: dict[str, Tensor]) -> dict:
    """What Figure 1 shows, at half precision and every fourth draw, since results are committed."""
    arrays = {"coefficients": chains.coefficients[:3], "test y": chains.test_y, "train y": chains.y}
    for index, (method, setting) in enumerate(chains.chains):
        if setting_name(*setting) == FIGURE:
            draws = kept["draws"][index]
            arrays[f"samples {method}"] = draws[:: max(1, math.ceil(len(draws) / 1000))].half()
            arrays[f"beta mean {method}"] = kept["mean"][index].half()
            arrays[f"fit train {method}"] = torch.stack([chains.y, kept["fit"][index]], dim=1).half()
            arrays[f"fit test {method}"] = torch.stack([chains.test_y, kept["test"][index]], dim=1).half()
    return {name: value.cpu().numpy() for name, value in arrays.items()}


def _cells(replicates: int, iterations: int, num_inputs: int, methods: tuple[str, ...]) -> list[Cell]:
    params = {"iterations": iterations, "burn_in": iterations // 5, "thin": max(1, iterations // 5000)}
    params |= {"num_inputs": num_inputs, "methods": list(methods)}
    return [Cell("all settings", "all methods", (replicate,), params) for replicate in range(replicates)]


EXPERIMENTS = [
    Experiment(
        name="aeb-regression",
        summary="Regression with 100 rows and 1000 inputs: SGLD with an SA, an EM and a fixed prior; Table 1, Figure 1",
        profiles=profiles(_cells, smoke=(1, 400, 50, METHODS[:3]), paper=(10, 500_000, 1000, METHODS)),
        run_cell=run_cell,
        schedules=schedules,
        tiny={"iterations": 400, "burn_in": 80, "thin": 1, "num_inputs": 50},
        budget=lambda cell: (cell.params["iterations"], "iterations"),
    )
]
