"""Seconds of training until the loss on held-out rows falls to a given value, beside the deterministic network's.

`python -m benchmarks.time_to_answer [--json] [--tasks mnist simulation-2 concrete] [--seeds 3]`

Every network of a task has the same shape, batches, learning rate and, but for the sampler, PyTorch's Adam (fused); the
layers have their defaults. The loss is the mean negative log-likelihood in nats for labels, and the mean squared error
of the mean prediction for numbers, in units of the training targets' variance. It is taken on held-out rows after each
epoch, with 16 draws of the weights, or with the sampler's state at hand. The targets stand in `TASKS`, and were set
where the deterministic network arrives. Times are of the processor, with one thread, and of training alone: looks
at the held-out rows are not counted. `seconds` is the median over seeds that arrive; a run ends there, or after the
task's epochs, and `least` is the median of the smallest losses by then.

`SparseRegressor` with its defaults, on the table alone, is a whole fit, from raw numbers to the posterior, by its own
stopping rule.
"""

import math
import statistics
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks import command, tables
from bnnlib import datasets
from bnnlib import nn as bnn
from bnnlib.estimators import SparseRegressor
from bnnlib.functional import inclusion_probability_for
from bnnlib.models import mlp
from bnnlib.sampling import SGHMC
from bnnlib.train import Callback, Run, fit, sample
from chapters.shared import simulated

DRAWS = 16
Rows = tuple[Tensor, Tensor]


class Task(NamedTuple):
    """What is to be learned, and how far."""

    sizes: tuple[int, ...]
    load: Callable[[int], tuple[Rows, Rows]]  # of a seed: rows for training, and held-out ones
    target: float
    epochs: int
    batch: int
    rate: float  # Adam's learning rate
    sgd: float  # of the mean loss, for the sampler


def _mnist(seed: int) -> tuple[Rows, Rows]:
    found = datasets.load("mnist", download=False)
    return tuple((x.flatten(1), y) for x, y in ((found.train_x, found.train_y), (found.test_x, found.test_y)))


def _simulation(seed: int) -> tuple[Rows, Rows]:
    generator = torch.Generator().manual_seed(seed)
    return _in_units(*(simulated.simulation_two(rows, generator)[:2] for rows in (3000, 1000)))


def _concrete(seed: int) -> tuple[Rows, Rows]:
    split = tables.load("concrete", seed)
    pairs = zip(split.scaled(), (split.y, split.test_y), strict=True)
    return _in_units(*((torch.from_numpy(x).float(), torch.from_numpy(y).float()[:, None]) for x, y in pairs))


def _in_units(train: Rows, held_out: Rows) -> tuple[Rows, Rows]:
    std, mean = torch.std_mean(train[1])
    return (train[0], (train[1] - mean) / std), (held_out[0], (held_out[1] - mean) / std)


TASKS = {
    "mnist": Task((784, 300, 100, 10), _mnist, 0.10, 10, 128, 1e-3, 0.1),
    "simulation-2": Task((200, 7, 7, 7, 1), _simulation, 0.25, 100, 128, 5e-3, 0.05),
    "concrete": Task((8, 50, 1), _concrete, 0.15, 100, 32, 5e-3, 0.05),
}
LAYERS: dict[str, Callable[[tuple[int, ...], int], Callable[[int, int], nn.Module]]] = {
    "deterministic": lambda sizes, n: nn.Linear,
    "gaussian": lambda sizes, n: bnn.GaussianLinear,
    "gaussian-local": lambda sizes, n: lambda a, b: bnn.GaussianLinear(a, b, estimator="local"),
    "gaussian-spike-slab": lambda sizes, n: (
        lambda a, b: bnn.GaussianSpikeSlabLinear(
            a, b, slab_scale=1.0, spike_scale=math.exp(-6.0), prior_inclusion_probability=0.1
        )
    ),
    "spike-slab": lambda sizes, n: (
        lambda a, b: bnn.SpikeSlabLinear(a, b, prior_inclusion_probability=inclusion_probability_for(sizes, n))
    ),
    "sghmc": lambda sizes, n: nn.Linear,
}


@torch.no_grad()
def loss_of(model: nn.Module, rows: Rows) -> float:
    """On held-out rows, by the mean over draws where the model has a posterior."""
    x, y = rows
    random = any(isinstance(module, bnn.BayesianLayer) for module in model.modules())
    draws = bnn.predict(model, x, DRAWS) if random else model(x)[None]
    if y.is_floating_point():
        return F.mse_loss(draws.mean(0), y).item()
    return F.nll_loss(torch.logsumexp(draws.log_softmax(-1), 0) - math.log(len(draws)), y).item()


class Until(Callback):
    """Ends a run at a loss on held-out rows, and counts the processor's time between the looks."""

    def __init__(self, rows: Rows, target: float) -> None:
        self.rows, self.target, self.least, self.seconds = rows, target, math.inf, 0.0
        self.started = time.process_time()

    def on_epoch(self, run: Run) -> None:
        self.seconds += time.process_time() - self.started
        self.least = min(self.least, loss_of(run.model, self.rows))
        if self.least <= self.target:
            run.stop(f"the loss is {self.least:.3g}")
        self.started = time.process_time()


def one(task: Task, layer: str, seed: int) -> tuple[float | None, float]:
    """(seconds to the target or None, least loss) of one network."""
    train, held_out = task.load(seed)
    count = len(train[0])
    torch.manual_seed(seed)
    model, until = mlp(task.sizes, layer=LAYERS[layer](task.sizes, count)), Until(held_out, task.target)
    loss = F.mse_loss if train[1].is_floating_point() else F.cross_entropy
    settings = {"epochs": task.epochs, "batch_size": task.batch, "callbacks": [until], "loss": loss}
    if layer == "sghmc":
        sampler = SGHMC(model.parameters(), task.sgd / count, weight_decay=1.0, keyed=True)
        sample(model, train, sampler=sampler, **settings)
    else:
        adam = torch.optim.Adam(model.parameters(), task.rate, fused=True)
        fit(model, train, optimizer=adam, **settings)
    return until.seconds if until.least <= task.target else None, until.least


def estimator(name: str, seed: int) -> tuple[float, float]:
    """(seconds of a whole fit, loss on held-out rows) of `SparseRegressor` with its defaults."""
    (x, y), (held_x, held_y) = TASKS[name].load(seed)
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SparseRegressor(random_state=seed).fit(x.numpy(), y[:, 0].numpy())
    seconds = time.process_time() - started
    mean = torch.as_tensor(model.predict(held_x.numpy())).float()
    return seconds, F.mse_loss(mean, held_y[:, 0]).item()


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = command.parser("time_to_answer", __doc__)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS), help="what is learned")
    parser.add_argument("--layers", nargs="+", default=list(LAYERS), choices=list(LAYERS), help="networks")
    parser.add_argument("--seeds", type=int, default=3, help="networks of each kind, of MNIST one")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    say, rows = command.progress(options), []
    for name in options.tasks:
        task, regression = TASKS[name], name != "mnist"
        for layer in [*options.layers, *["estimator"] * (name == "concrete")]:
            seeds = range(options.seeds if regression and layer != "estimator" else 1)
            ran = [estimator(name, s) if layer == "estimator" else one(task, layer, s) for s in seeds]
            times = [seconds for seconds, _ in ran if seconds is not None]
            row = {"task": name, "layer": layer, "target": task.target, "runs": len(ran), "arrived": len(times)}
            row |= {"seconds": round(statistics.median(times), 2) if times else None}
            row |= {"least": round(statistics.median(least for _, least in ran), 4)}
            rows.append(row)
            print(row, file=say, flush=True)
    return command.done(rows, options)


if __name__ == "__main__":
    main()
