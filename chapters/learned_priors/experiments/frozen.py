"""Is it the learning, or the start of the prior that is not learned?

Written down before the run. In `aeb-slab`, `aeb-regression` and `aeb-logistic` the chain without learning ("SGLD",
w_k = 0) keeps the precisions that the published code starts from, kappa0 = kappa1 = 1. That is hardly a prior: the
precisions that belong to the start of the inclusion probabilities, rho = 1/2, are kappa0 = 1 / (2 v0), 50 at v0 = 0.01,
by equation (aeb-precisions). A reader found in a few chains of the linear regression that so started, and as little
learned, the prior errs about as much as SGLD-SA. Here both frozen priors run beside SGLD-SA, on the data sets of
`aeb-slab` (four starts each, the mean of their errors) and of `aeb-logistic` (one), with the same starts, random
numbers and lengths.

What an outcome means, in each of three settings, for the test error of the regression and the accuracy of the logistic
one:

1. SGLD-SA is decided (paired t) to be ahead of the frozen rho = 1/2, by at least half of what it is ahead of the frozen
   kappa = 1: the learning does most of it.
2. Decided to be ahead, by less: the start does most of it, the learning something.
3. Neither: of the learning nothing is decided there.

Table 1 of the paper has the start kappa = 1 alone as well. Another reader's chains of 30,000 steps at the kappa of rho
= 1/2 erred less than the stored SGLD-EM on all data sets of the sharp spike, and no more than SGLD-SA. Table 1's four
settings run here with both frozen priors, SGLD-SA and SGLD-EM side by side, on the data sets of `aeb-regression`, from
starts drawn anew but for SGLD-SA's, for 30,000 steps in place of 500,000. What an outcome means, written before the
run, in each setting for the test error, in pairs:

4. The frozen rho = 1/2 is decided to be behind SGLD-SA (or SGLD-EM): learning it so pays there.
5. Decided to be ahead: it costs there. Neither: of learning nothing is decided there.
"""

import torch
from torch import Tensor

from bnnlib import metrics
from bnnlib.functional import expected_precisions
from bnnlib.sampling import SGLD, SpikeSlabGaussianLaplacePrior
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.learned_priors.experiments import logistic, regression, slab
from chapters.learned_priors.experiments.regression import WEIGHTS, schedules, step_size

METHODS = ("SGLD-SA", "SGLD, kappa=1", "SGLD, rho=1/2")
SLAB_VARIANCE = 10.0
REGRESSION = "regression, v0=0.01"
TABLE, TABLE_METHODS = "Table 1", (*METHODS, "SGLD-EM")


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """All methods on one data set from the same starts with the same random numbers, as one batch of chains."""
    (replicate,), params = cell.replicates, cell.params
    regression, starts, iterations = cell.setting == REGRESSION, params["starts"], params["iterations"]
    data = slab.problem(replicate, params["num_inputs"]) if regression else logistic.problem(params, replicate)
    x, y, test_x, test_y = (part.to(device) for part in data)
    seeds = torch.Generator().manual_seed(83_000 + replicate)
    start = 0.1 * torch.randn(starts, x.shape[1], generator=seeds)
    beta = torch.nn.Parameter(start.repeat(len(METHODS), 1).to(device))
    beta.grad = torch.zeros_like(beta)
    learned = torch.arange(len(beta), device=device) < starts  # the chains of the first method
    scale = {"nu": 1.0, "lam": 1.0} if regression else {"nu": float(x.shape[1]), "lam": 2.0}
    prior = SpikeSlabGaussianLaplacePrior(
        {"beta": beta},
        spike_scale=params["spike_scale"],
        slab_variance=SLAB_VARIANCE,
        a=1.0,
        kappa=(1.0, 1.0),
        likelihood="regression" if regression else "classification",
        num_data=len(y) if regression else None,
        step_size=lambda k: WEIGHTS(k) * learned,
        batch_dims=1,
        **scale,
    )
    kappa0, kappa1 = expected_precisions(torch.tensor(0.5), params["spike_scale"], SLAB_VARIANCE)
    prior.kappa0["beta"][2 * starts :], prior.kappa1["beta"][2 * starts :] = kappa0, kappa1
    sampler = SGLD([beta], lr=1e-3, generator=torch.Generator(device).manual_seed(84_000 + replicate))
    mean, probability, draws = torch.zeros_like(beta, requires_grad=False), 0.0, []
    for k in range(1, iterations + 1):
        with torch.no_grad():
            output = beta @ x.t()
            residual = output - y if regression else output.sigmoid_().sub_(y)
            torch.mm(residual, x, out=beta.grad)
            if regression:
                beta.grad.div_(prior.sigma.square().unsqueeze(1))
        prior.add_gradient_()
        sampler.param_groups[0]["lr"] = step_size(k)
        sampler.step()
        prior.update(residual.square().sum(dim=1)) if regression else prior.update()
        if k % params["thin"] == 0 and k > params["burn_in"]:
            draws.append(beta.detach()[:, :3].clone())
            mean += beta.detach()
            probability = probability + (0.0 if regression else (beta.detach() @ test_x.t()).sigmoid_())
    low, high = metrics.central_interval(torch.stack(draws), dim=0)
    truth = torch.tensor(slab.COEFFICIENTS, device=device)
    values = {"covered": ((low <= truth) & (truth <= high)).sum(dim=1).float()}
    if regression:
        values["mse_test"] = (mean / len(draws) @ test_x.t() - test_y).square().mean(dim=1)
    else:
        hits = (probability / len(draws) > 0.5) == (test_y > 0.5)
        values["accuracy"] = 100.0 * hits.float().mean(dim=1)
    return CellResult([row for place in range(len(METHODS)) for row in _rows(cell, values, place)])


def run_table(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """The chains of `aeb-regression`, shorter, in its four settings on one data set."""
    (replicate,), params = cell.replicates, cell.params
    run = regression._Chains(params, replicate, device)
    fair = [place for place, (method, _) in enumerate(run.chains) if method == "SGLD, rho=1/2"]
    spike_scale = run.prior.spike_scale[fair].unsqueeze(1)
    kappa0, kappa1 = expected_precisions(torch.tensor(0.5), spike_scale, SLAB_VARIANCE)
    run.prior.kappa0["weight"][fair], run.prior.kappa1["weight"][fair] = kappa0, kappa1
    for k in range(1, params["iterations"] + 1):
        run.step(k)
    scores, _ = run.scores()
    values = {name: scores[name] for name in ("mse_test", "mae_test", "covered", "included", "sigma")}
    rows = []
    for place, (method, setting) in enumerate(run.chains):
        where = f"{TABLE}, {regression.setting_name(*setting)}"
        rows += rows_of(cell, {name: float(one[place]) for name, one in values.items()}, where, method)
    return CellResult(rows)


def _rows(cell: Cell, values: dict[str, Tensor], place: int) -> list[dict]:
    """The mean over the starts of one method's chains."""
    starts = cell.params["starts"]
    means = {name: float(one[place * starts : (place + 1) * starts].mean()) for name, one in values.items()}
    return rows_of(cell, means, method=METHODS[place])


def _cells(regressions: int, logistics: int, iterations: tuple[int, ...], num_inputs: int, rows: int) -> list[Cell]:
    short, long, middle = iterations
    one = {"iterations": short, "burn_in": short // 2, "thin": 1, "starts": slab.STARTS, "num_inputs": num_inputs}
    one |= {"spike_scale": 0.01}
    cells = [Cell(REGRESSION, "all methods", (replicate,), one) for replicate in range(regressions)]
    other = {"iterations": long, "burn_in": long // 5, "thin": max(1, long // 1000), "starts": 1}
    other |= {"num_inputs": 5 * num_inputs // 2, "num_train": rows, "num_test": 5 * rows}
    for spike_scale in logistic.SPIKE_SCALES:
        params, name = other | {"spike_scale": spike_scale}, f"logistic, v0={spike_scale:g}"
        cells += [Cell(name, "all methods", (replicate,), params) for replicate in range(logistics)]
    table = {"iterations": middle, "burn_in": middle // 5, "thin": max(1, middle // 5000)}
    table |= {"num_inputs": 5 * num_inputs, "methods": list(TABLE_METHODS)}
    return cells + [Cell(TABLE, "all settings", (replicate,), table) for replicate in range(logistics)]


EXPERIMENTS = [
    Experiment(
        name="aeb-frozen",
        summary="Regressions with SGLD-SA and two priors that never learn: the code's start, and that of rho = 1/2",
        profiles=profiles(_cells, smoke=(1, 1, (40, 60, 60), 20, 40), book=(20, 10, (4000, 50_000, 30_000), 200, 200)),
        run_cell=run_cell,
        methods={"all settings": run_table},
        tiny={"iterations": 60, "burn_in": 20, "thin": 1, "starts": 2}
        | {"num_inputs": 20, "num_train": 40, "num_test": 50},
        schedules=schedules,
        budget=lambda cell: (cell.params["iterations"], "iterations"),
        value=5.0,
    )
]
