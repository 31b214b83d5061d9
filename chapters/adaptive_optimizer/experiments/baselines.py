"""Other methods on the examples of Ke and Fan (2023), on the same data sets and for the same number of epochs.

group lasso   on the input columns of the network, by a proximal step behind each step at temperature 0 (a chain's noise
              lifts columns off 0 again) for half of the epochs; the columns that are 0 by then stay removed, and the
              others are trained on without the penalty
SVBNN         the spike-and-slab network of chapter 03, with its prior probability and step size
SA-EM         the adaptive prior of chapter 01 on the first layer under SGHMC, which cools down in the second half
lasso         of scikit-learn, linear; its strength by five-fold cross-validation, or on a fifth of the training rows

Strengths of the group lasso and widths of the spike of SA-EM are chosen on the last fifth of the training rows of the
first two data sets, by trainings of a tenth of the epochs.
"""

import time
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib.functional import inclusion_probability_for
from bnnlib.replicates import Layout, StackedMLP, StackedSpikeSlab, fit_stacked, gaussian_nll
from bnnlib.sampling import SGHMC, SpikeSlabGaussianLaplacePrior, polynomial
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, rows_of
from chapters.adaptive_optimizer.experiments import measures
from chapters.adaptive_optimizer.experiments import training as trainings
from chapters.adaptive_optimizer.experiments.training import Training, data_of, error_of, sizes_of, trace_epochs
from chapters.adaptive_optimizer.networks import mean_loss
from chapters.adaptive_optimizer.problems import BATCH_SIZE, PROBLEMS, cyclic_lr
from chapters.shared.stages import Stages
from chapters.shared.training import falling_late

TUNED_ON, HELD_OUT = 2, 0.2  # data sets, and the share of their training rows that judges a setting
MOMENTUM = 0.9  # of SA-EM's sampler, as in chapter 01
WEIGHTS = polynomial(10.0, 1000.0, 0.7)  # of SA-EM's stochastic approximation


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell, for its probe."""
    if cell.method in ("SVBNN", "lasso"):
        return {}
    found = trainings.schedules(cell)
    if cell.method == "SA-EM":
        (_, steps), epochs = found["step size"], cell.params["epochs"]
        found["temperature"] = (partial(falling_late, steps=epochs), range(epochs))
        found["weight"] = (WEIGHTS, range(1, len(steps) + 1))
    return found


class SAEM(Training):
    """SGHMC under the spike-and-slab Gaussian-Laplace prior on the first layer, which learns it on the way."""

    def __init__(self, params: dict[str, Any], data: dict[str, Tensor], device: torch.device, seed: int) -> None:
        super().__init__(params, data, device, seed)
        value = params["spike_scale"]
        self.learned = SpikeSlabGaussianLaplacePrior(
            {"inputs": self.model.weights[0]},
            spike_scale=torch.tensor(value) if isinstance(value, list) else value,
            slab_variance=1.0,
            step_size=WEIGHTS,
            update=("rho", "kappa", "inclusion"),
            batch_dims=1,
        )
        self.optimizer = SGHMC(self.model.parameters(), 1.0, MOMENTUM, generator=self.generator)
        self.optimizer.check_every = 0

    def _start_epoch(self) -> None:
        """Nothing is removed on the way."""

    def _epoch(self) -> None:
        order = torch.randperm(self.rows, generator=self.generator, device=self.device)
        group, epochs = self.optimizer.param_groups[0], self.params["epochs"]
        group["temperature"] = falling_late(self.epoch, epochs)
        # of a Gaussian likelihood with variance 1 the energy is half of the squared errors
        factor = self.rows * (1.0 if self.problem.classify else 0.5)
        for batch, rows in enumerate(order.split(BATCH_SIZE)):
            x, y = self.columns.batch(rows)
            lr = cyclic_lr(self.params["lr"], self.epoch, batch, epochs, self.num_batches)
            # as long a step as the other optimizer's at its first scale of 1 / 2 and momentum of 0.1
            group["lr"] = 0.5 * lr / 0.9 * (1.0 - MOMENTUM) / factor
            # velocities stay in units of a step, as the other optimizer's momentum, whose schedule this is
            group.pop("velocity_of", None)
            energy = factor * mean_loss(self.model(x), y, self.problem.classify).sum()
            self.optimizer.zero_grad()
            energy.backward()
            self.learned.add_gradient_()
            self.optimizer.step()
            self.learned.update()

    def inputs(self) -> Tensor:
        """Inputs with a weight that more likely is of the slab than of the spike."""
        return (self.learned.rho["inputs"] > 0.5).any(dim=1)

    def zeros(self) -> Tensor:
        """Percent of all parameters that are of the spike; they are small, not 0."""
        sizes = sizes_of(self.params)
        total = sum((a + 1) * b for a, b in pairwise(sizes))
        return 100.0 * (self.learned.rho["inputs"] <= 0.5).double().sum(dim=(1, 2)) / total

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"learned": self.learned.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.learned.load_state_dict(state["learned"])


def run_tuned(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """Group lasso or SA-EM: choose the setting, then train on all rows."""
    kind, name = (Training, "strength") if cell.method == "group lasso" else (SAEM, "spike_scale")
    params, stages = cell.params, Stages(checkpoint)
    if not stages.finished:
        stages.finish(_choose(kind, name, params, cell.replicates[:TUNED_ON], device))
    data, chosen = data_of(params, cell.replicates), stages.finished[0]
    training = kind(params | {name: chosen[name]}, data, device, cell.replicates[0]).run(stages)
    scores = {
        **measures.scores(training.problem, training.outputs(training.test_x).cpu(), data),
        **measures.selection(training.problem, training.inputs().cpu()),
        "zeros": training.zeros().cpu(),
        "minutes_training": (training.seconds + chosen["seconds"]) / 60.0,
        training.fit_name(): training.fit(),
        f"{name}_chosen": chosen[name],
    }
    return CellResult(rows_of(cell, scores), measures.traces(cell, training.trace))


def _choose(kind: type[Training], name: str, params: dict, replicates: tuple[int, ...], device) -> dict[str, Any]:
    """The value of the grid with the lowest mean error on held-out rows; all values are one stack."""
    data, grid, started = data_of(params, replicates), params["grid"], time.perf_counter()
    cut = round((1.0 - HELD_OUT) * params["num_train"])
    parts = {
        "x": data["x"][:cut].repeat(1, len(grid), 1),
        "y": data["y"][:cut].repeat(1, len(grid)),
        "test_x": data["x"][cut:].permute(1, 2, 0).repeat(len(grid), 1, 1),
        "test_y": data["y"][cut:].t().repeat(len(grid), 1),
    }
    tried = [value for value in grid for _ in replicates]
    short = {"epochs": params["tuning_epochs"], "num_train": cut, name: tried}
    training = kind(params | short, parts, device, 500 + replicates[0]).run()
    error = error_of(training.outputs(training.test_x), training.test_y, training.problem)
    # a network that has diverged is worse than any other
    means = error.nan_to_num(nan=torch.inf).view(len(grid), -1).mean(dim=1)
    return {name: grid[int(means.argmin())], "seconds": time.perf_counter() - started}


def run_svbnn(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """The spike-and-slab network of chapter 03, by Adam on its evidence bound."""
    params, problem, seed = cell.params, PROBLEMS[cell.params["problem"]], cell.replicates[0]
    data, count = data_of(params, cell.replicates), len(cell.replicates)
    layout = Layout(sizes_of(params), count)
    start = layout.kaiming_uniform(torch.Generator().manual_seed(140_000 + seed))
    probability = inclusion_probability_for(layout.sizes, params["num_train"])
    posterior = StackedSpikeSlab(layout, start, probability, params["prior_scale"])
    model, trace = StackedMLP(posterior).to(device), []
    generator = torch.Generator(device).manual_seed(150_000 + seed)
    test_x = data["test_x"].transpose(1, 2).to(device)
    measured, begun = set(trace_epochs(params["epochs"])), time.perf_counter()

    def predict(draws: int) -> Tensor:
        noise = torch.Generator(device).manual_seed(160_000 + seed)  # of its own, so that looking changes nothing
        return model.predict(test_x, draws, noise).mean(dim=0)[..., 0].cpu()

    def measure(_, epoch: int, __) -> None:
        if epoch + 1 in measured:
            error = error_of(predict(1), data["test_y"], problem)
            inactive = 100.0 - posterior.active().double().mean(dim=1).mul(100.0)
            trace.append(torch.stack([torch.full_like(error, epoch + 1), error, inactive.cpu().to(error)]))
            model.train()

    fit_stacked(
        model,
        data["x"].to(device),
        data["y"].unsqueeze(2).to(device),
        epochs=params["epochs"],
        batch_size=BATCH_SIZE,
        learning_rate=params["learning_rate"],
        generator=generator,
        loss=_cross_entropy if problem.classify else gaussian_nll,
        after_epoch=measure,
        checkpoint=_WithTrace(checkpoint, trace) if checkpoint else None,
    )
    active, _ = posterior.layout.layers(posterior.active())[0]
    scores = {
        **measures.scores(problem, predict(params["draws"]), data),
        **measures.selection(problem, active.any(dim=1).cpu()),
        "zeros": (100.0 - 100.0 * posterior.active().double().mean(dim=1)).cpu(),
        "minutes_training": (time.perf_counter() - begun) / 60.0,
    }
    return CellResult(rows_of(cell, scores), measures.traces(cell, trace))


class _WithTrace:
    """A checkpoint that holds a trace beside what `fit_stacked` saves."""

    def __init__(self, checkpoint: Checkpoint, trace: list[Tensor]) -> None:
        self.checkpoint, self.trace, self.due = checkpoint, trace, checkpoint.due

    def load(self) -> dict[str, Any] | None:
        state = self.checkpoint.load()
        if state:
            self.trace[:] = state["trace"]
        return state

    def save(self, state: dict[str, Any]) -> None:
        self.checkpoint.save(state | {"trace": list(self.trace)})


def _cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(output, target, reduction="sum") / target.shape[1]


def run_lasso(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """The linear lasso, and what predicting the mean (or the commoner class) costs, a data set at a time."""
    rows = []
    for replicate in cell.replicates:
        data, begun = data_of(cell.params, (replicate,)), time.perf_counter()
        problem, (x, y) = PROBLEMS[cell.params["problem"]], (data["x"][:, 0].numpy(), data["y"][:, 0].numpy())
        linear, chosen = _logistic(x, y, cell.params) if problem.classify else _linear(x, y, cell.params)
        seconds = time.perf_counter() - begun
        output = data["test_x"][0].t().double() @ torch.tensor(linear[0]) + linear[1]
        values = measures.scores(problem, output[None].float(), data)
        values |= measures.selection(problem, torch.tensor(linear[0] != 0)[None])
        values |= {"zeros": 100.0 * float((linear[0] == 0).mean()), "minutes_training": seconds / 60.0}
        rows += _alone(cell, values | {"strength_chosen": chosen}, replicate)
        mean = float(y.mean())
        guess = torch.full_like(output, torch.logit(torch.tensor(mean)) if problem.classify else mean)[None].float()
        rows += _alone(cell, measures.scores(problem, guess, data), replicate, "mean")
    return CellResult(rows)


def _alone(cell: Cell, values: dict[str, Any], replicate: int, method: str = "") -> list[dict[str, Any]]:
    return rows_of(cell, {name: float(value) for name, value in values.items()}, "", method, replicate)


def _linear(x, y, params: dict) -> tuple[tuple, float]:
    from sklearn.linear_model import LassoCV

    fitted = LassoCV(cv=5, alphas=params["alphas"], selection="cyclic").fit(x.astype("float64"), y.astype("float64"))
    return (fitted.coef_, float(fitted.intercept_)), float(fitted.alpha_)


def _logistic(x, y, params: dict) -> tuple[tuple, float]:
    """The strength of the best held-out likelihood, then a fit to all rows; C multiplies a sum of losses."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    def fit(rows, strength: float):
        settings = {"solver": "liblinear", "l1_ratio": 1.0, "C": 1.0 / (len(x[rows]) * strength), "random_state": 0}
        return LogisticRegression(**settings).fit(x[rows], y[rows])

    cut = round((1.0 - HELD_OUT) * len(x))
    scores = {s: log_loss(y[cut:], fit(slice(cut), s).predict_proba(x[cut:])) for s in params["strengths"]}
    best = min(scores, key=scores.__getitem__)
    fitted = fit(slice(None), best)
    return (fitted.coef_[0].astype("float64"), float(fitted.intercept_[0])), best
