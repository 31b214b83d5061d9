"""What Experiments 1-4 of Saha, Liu and Liang (2024), section 4.1, share: data, networks, trainings and measures.

The paper states n, the 20-10 hidden units and the functions. The rest is ours: ReLU, a Gaussian likelihood with learned
noise, targets standardized by the training rows, the exact ELBO (weight 1 / n on the KL), prior pi = 0.5, Adam at
0.02 with batches of 400 that decays over the last 30 % of 300 epochs (500 in the profile `paper`), an initial posterior
scale of 0.0025. `sbnn-priors` stores what the two prior settings and the dropout rate were chosen by.
All errors are in units of the training targets' variance: 1 is what predicting their mean costs.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bnnlib.functional import path_importance
from bnnlib.replicates import (
    GaussianLikelihood,
    Layout,
    StackedDeterministic,
    StackedGaussianSpikeSlab,
    StackedMLP,
    fit_stacked,
)
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, Experiment
from book.lab.probes import first
from chapters.closed_form.dropout import StackedDropout
from chapters.shared import simulated
from chapters.shared.stages import Stages

NUM_SAMPLES = 2_000
TRAIN_SHARE = 0.8  # of Experiments 3 and 4, and of the choice of priors
HIDDEN = (20, 10)
NUM_DRAWS = 30
# log tau_1, log tau_0 of the paper's own experiments (sections 4.2 to 4.4): the candidates where p* is to be read
PUBLISHED_PRIORS = ((1.0, -6.0), (0.0, -6.0), (0.5, -6.5), (-0.98, -5.02), (0.0, -5.0), (-1.0, -3.0))
# Where p* is to be read (Experiments 1 and 2): of these the highest ELBO on data sets that nothing else uses.
READ_PRIOR = (-1.0, -3.0)
# So close that r = 0 gives p* = 0.38 and an unseen weight has one home: what agreement with the truth it buys.
ONE_HOME_PRIOR = (-1.0, -1.5)
# Where the network is to predict (Experiments 3 and 4): the lowest error on held-out rows.
PREDICT_PRIOR = (0.0, -2.0)
PAPER_PRIOR = PUBLISHED_PRIORS[0]  # what the paper uses on UCI data, for comparison
DROPOUT = (0.2, True)  # rate, and whether inputs drop too: the lowest error on held-out rows
DECAY_FROM, LAST_RATE = 0.7, 0.02

# a real cell on data sets of 100 rows and ten inputs
TINY = {"replicates": 2, "epochs": 2, "num_samples": 100, "num_inputs": lambda size: None if size is None else 10}
TINY |= {"cases": lambda cases: [[2, 0.2], [2, 0.9]][: len(cases)], "grid": first(3), "folds": 2}
TRAINING = {"epochs": 300, "batch_size": 400, "learning_rate": 0.02}


class Data(NamedTuple):
    """Data sets of one size, stacked: rows first for training, replicates first for the rows that are predicted."""

    x: Tensor  # (n, R, p)
    y: Tensor  # (n, R, 1), standardized
    test_x: Tensor  # (R, m, p); m may be 0
    test_y: Tensor  # (R, m, 1), in the same units
    effects: Tensor  # (R, p), beta_j Z_j

    def to(self, device: torch.device) -> Data:
        return Data(*(part.to(device) for part in self))

    def repeat(self, times: int) -> Data:
        """The data sets again and again, one copy for each setting of a grid: the setting varies slowest."""
        x, y, test_x, test_y, effects = self
        return Data(
            x.repeat(1, times, 1),
            y.repeat(1, times, 1),
            test_x.repeat(times, 1, 1),
            test_y.repeat(times, 1, 1),
            effects.repeat(times, 1),
        )


def stack(sets: list[tuple[Tensor, Tensor, Tensor]], train: int) -> Data:
    """Stack (x, y, effects); the first `train` rows of each are for training and give the mean and scale of y."""
    x, y = (torch.stack([one[k] for one in sets], dim=1) for k in (0, 1))
    y = (y - y[:train].mean(dim=0)) / y[:train].std(dim=0)
    held_out = (part[train:].transpose(0, 1).contiguous() for part in (x, y))
    return Data(x[:train], y[:train], *held_out, torch.stack([one[2] for one in sets]))


def graded_set(replicate: int, num_samples: int, num_inputs: int, alpha: float, **options) -> tuple:
    """(x, y, effects) of Experiments 2-4; a replicate's inputs and noise are the same in every setting of one D."""
    generator = torch.Generator().manual_seed(40_000 + replicate)
    x, y, _, effects = simulated.graded_regression(num_samples, num_inputs, alpha, generator, **options)
    return x, y, effects


def sbnn(
    num_inputs: int, replicates: int, generator: torch.Generator, prior: tuple[float, float] | Tensor
) -> StackedMLP:
    """The sparse network of section 3; prior is (log tau_1, log tau_0), or (R, 2) with one for each replicate."""
    layout = Layout((num_inputs, *HIDDEN, 1), replicates)
    scales = torch.as_tensor(prior, dtype=torch.float64).reshape(-1, 2).exp()
    weight = layout.kaiming_uniform(generator)
    return StackedMLP(StackedGaussianSpikeSlab(layout, weight, scales[:, 0], scales[:, 1]))


def plain(
    num_inputs: int, replicates: int, generator: torch.Generator, dropout: tuple[float, bool] | None
) -> StackedMLP:
    """The networks NN (dropout is None) and NN-Dr (rate, whether inputs drop too)."""
    layout = Layout((num_inputs, *HIDDEN, 1), replicates)
    weight = layout.kaiming_uniform(generator)
    if dropout is None:
        return StackedMLP(StackedDeterministic(layout, weight))
    return StackedMLP(StackedDropout(layout, weight, dropout[0], inputs=dropout[1]))


class Trainings:
    """The trainings of one cell in their order; finished and half-finished ones lie in the cell's checkpoint.

    Args:
        checkpoint: of the cell, or None.
        device: where to train.
        seed: the k-th training draws its first weights and its noise by (seed, k), so it does not depend on whether
            the trainings before it were computed now or read.
    """

    def __init__(self, checkpoint: Checkpoint | None, device: torch.device, seed: int):
        self.stages, self.device, self.seed, self.count = Stages(checkpoint), device, seed, 0

    def fit(self, build, x: Tensor, y: Tensor, params: dict) -> tuple[StackedMLP, GaussianLikelihood]:
        """Train what build(inputs, R, generator) makes on x (n, R, p) and y (n, R, 1)."""
        k, self.count = self.count, self.count + 1
        # weights start from a CPU generator, so that a GPU run starts where a CPU run does
        start = torch.Generator().manual_seed(1_000 * self.seed + k)
        model, likelihood = build(x.shape[2], x.shape[1], start).to(self.device), GaussianLikelihood(x.shape[1])
        likelihood = likelihood.to(self.device)
        if k < len(self.stages.finished):
            model.load_state_dict(self.stages.finished[k]["model"])
            likelihood.load_state_dict(self.stages.finished[k]["likelihood"])
            return model.eval(), likelihood
        fit_stacked(
            model,
            x,
            y,
            **{name: params[name] for name in TRAINING},
            generator=torch.Generator(self.device).manual_seed(1_000 * self.seed + 500 + k),
            checkpoint=self.stages,
            loss=likelihood,
            schedule=partial(rate_at, epochs=params["epochs"]),
        )
        self.stages.finish(_state(model, likelihood))
        return model, likelihood


def _state(model: StackedMLP, likelihood: GaussianLikelihood) -> dict:
    # copies: the parameters go on changing while earlier trainings wait to be saved
    parts = {"model": model.state_dict(), "likelihood": likelihood.state_dict()}
    return {name: {key: value.detach().clone() for key, value in part.items()} for name, part in parts.items()}


def rate(done: float) -> float:
    """The learning rate after a share of the epochs, relative to the first: constant, then linear to LAST_RATE."""
    return 1.0 if done < DECAY_FROM else max(LAST_RATE, (1.0 - done) / (1.0 - DECAY_FROM))


def rate_at(epoch: int, epochs: int) -> float:
    """`rate` at an epoch."""
    return rate(epoch / epochs)


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell, for its probe; the linear model and what keeps all or nothing do not train."""
    if "epochs" not in cell.params:
        return {}
    epochs = cell.params["epochs"]
    return {"learning rate": (partial(rate_at, epochs=epochs), range(epochs))}


experiment = partial(Experiment, tiny=TINY, schedules=schedules)


def importance(model: StackedMLP) -> Tensor:
    """psi of every input, shape (R, p)."""
    layers = model.posterior.layout.layers(model.posterior.inclusion_probability.double())
    return path_importance([weight for weight, _ in layers])


def keep_top(score: Tensor, share: float) -> Tensor:
    """Indices (R, k) of the inputs with the highest scores, best first; k is the share of them, at least one."""
    return score.topk(max(1, round(share * score.shape[1])), dim=1).indices


def columns(data: Data, kept: Tensor) -> Data:
    """The data with the kept inputs only; kept (R, k)."""
    return data._replace(
        x=data.x.gather(2, kept.expand(len(data.x), *kept.shape)),
        test_x=data.test_x.gather(2, kept.unsqueeze(1).expand(-1, data.test_x.shape[1], -1)),
    )


def selection_accuracy(kept: Tensor, effects: Tensor) -> Tensor:
    """Percent of the inputs for which "kept" agrees with "active", (sbnn-selection); kept (R, k), effects (R, p)."""
    chosen = torch.zeros_like(effects, dtype=torch.bool).scatter_(1, kept, True)
    return 100.0 * (chosen == (effects != 0)).double().mean(dim=1)


@torch.no_grad()
def mse(model: StackedMLP, x: Tensor, y: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Mean squared error (R,) of the mean of NUM_DRAWS draws, or of the mean weights where there is no generator."""
    prediction = model.predict(x, NUM_DRAWS, generator).mean(dim=0) if generator else model.mean_forward(x)
    return (prediction - y).square().mean(dim=(1, 2))


@torch.no_grad()
def held_out(model: StackedMLP, likelihood: GaussianLikelihood, data: Data, generator) -> dict[str, Tensor]:
    """What settings are chosen by: the ELBO on the training rows in nats a row, and two scores on held-out rows."""
    variance = likelihood.scale().square()[:, None, None]

    def log_likelihood(draws: Tensor, y: Tensor) -> Tensor:
        return -0.5 * ((draws - y).square() / variance + torch.log(2.0 * math.pi * variance))

    x, y = data.x.transpose(0, 1), data.y.transpose(0, 1)
    fit = log_likelihood(model.predict(x, NUM_DRAWS, generator), y).mean(dim=0).sum(dim=(1, 2))
    test = model.predict(data.test_x, NUM_DRAWS, generator)
    density = torch.logsumexp(log_likelihood(test, data.test_y), dim=0) - math.log(NUM_DRAWS)
    return {
        "elbo": (fit - model.posterior.kl_divergence()) / len(data.x),
        "nll_validation": -density.mean(dim=(1, 2)),
        "mse_validation": (test.mean(dim=0) - data.test_y).square().mean(dim=(1, 2)),
    }


def correlation(a: Tensor, b: Tensor) -> Tensor:
    """Pearson correlation along the last dimension; NaN where one is constant."""
    a, b = (part.double() - part.double().mean(dim=-1, keepdim=True) for part in (a, b))
    return (a * b).sum(dim=-1) / (a.norm(dim=-1) * b.norm(dim=-1))


def ranks(values: Tensor) -> Tensor:
    """Ranks along the last dimension, 0 for the smallest; psi and phi have no ties in practice."""
    return values.argsort(dim=-1).argsort(dim=-1).double()
