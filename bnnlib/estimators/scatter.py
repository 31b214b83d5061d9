"""Noise whose size depends on the inputs: learned from rows held out, by a sparse network of its own.

The squared errors of rows that a model was not trained on tell where it is noisy, without the model's own fit to them.
Training rows then count in inverse proportion to their noise variance, as in feasible generalized least squares
(Carroll and Ruppert, 1988, Transformation and Weighting in Regression, chapter 2).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from bnnlib.estimators.folds import Folds, Held, better
from bnnlib.estimators.search import held_outputs
from bnnlib.estimators.settings import USUAL_RATE, WIDTHS, probabilities_to_try
from bnnlib.estimators.variational import Variational
from bnnlib.functional import path_inclusion
from bnnlib.replicates import Layout

_MOST = 2_000  # held-out rows that are learned from
_DRAWS = 50
_LEVELS = torch.linspace(-2.0, 2.0, 401, dtype=torch.float64)  # of the log of a constant factor
_BEYOND = math.log(2.0)  # by how much the log factor of a new row may leave the range of the rows learned from
_LEAST = 1e-6  # variance of an error, in units of the constant noise's


class Errors(NamedTuple):
    """Of rows held out, in the units of the scaled target."""

    x: np.ndarray  # scaled inputs (n, p)
    square: np.ndarray  # squared errors (n,)
    function: np.ndarray  # variance of the regression function (n,)
    noise: np.ndarray  # variance of the noise that was predicted, a constant of each fold (n,)
    weights: np.ndarray

    def target(self) -> Tensor:
        """(n, 4), float64, variances in units of the noise's."""
        unit = np.array([self.noise.mean()] * 3 + [1.0])
        return torch.from_numpy(np.stack(self[1:], axis=1) / unit)


class OfErrors(nn.Module):
    """-log N(error; 0, function + noise * exp(2 g)) up to a constant, where g is the output.

    Shapes:
        output (R, batch, 1), target (R, batch, 4) or (batch, 4), as `Errors.target` gives it.
    """

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return (target[..., 3] * _nll(output[..., 0], target)).sum() / output.shape[1]


def _nll(g: Tensor, target: Tensor) -> Tensor:
    square, function, noise, _ = target.unbind(-1)
    variance = (function + noise * torch.exp(2.0 * g)).clamp_min(_LEAST)
    return 0.5 * (square / variance + variance.log())


class Scatter:
    """The factor by which the noise's standard deviation varies with the inputs, from a network of its logarithm.

    `low` and `high` are its range over the rows learned from, `unit` is the factor that counts as 1, and `spread` the
    root mean square of the factors of the training rows, in that unit.
    """

    def __init__(self, network: Variational, low: float, high: float, unit: float = 1.0, spread: float = 1.0) -> None:
        self.network, self.low, self.high, self.unit, self.spread = network, low, high, unit, spread

    def weighed(self, x: np.ndarray, weights: np.ndarray, seed: int) -> np.ndarray:
        """Weights (n,) of the training rows in inverse proportion to the squared factor, with the sum they had.

        The unit is from now on that of the noise which such weights leave.
        """
        squared = 1.0 / self.precision(x, seed)
        self.unit = math.sqrt(weights.sum() / (weights / squared).sum())
        self.spread = math.sqrt(float(np.average(squared, weights=weights))) / self.unit
        return weights / squared * self.unit**2

    def kept(self) -> dict[str, Any]:
        """What `Scatter.of` makes it from again."""
        sizes = list(self.network.stack.posterior.layout.sizes)
        numbers = {name: getattr(self, name) for name in ("low", "high", "unit", "spread")}
        return numbers | {
            "sizes": sizes,
            "replicates": self.network.stack.replicates,
            "state": self.network.state_dict(),
        }

    @classmethod
    def of(cls, saved: dict[str, Any], activation: str) -> Scatter:
        """From what `kept` gave."""
        saved = dict(saved)
        layout = Layout(saved.pop("sizes"), saved.pop("replicates"))
        network = noise_network(layout, activation, 0.5, 0)
        network.load_state_dict(saved.pop("state"))
        return cls(network, **saved)

    def factors(self, x: np.ndarray, count: int, seed: int) -> Tensor:
        """Draws of the factor at scaled rows, (draws, rows), float64."""
        with torch.no_grad():
            every, _ = held_outputs(self.network, torch.from_numpy(x).float(), seed, count)
        g = every[..., 0].double().flatten(0, 1)
        return g.clamp(self.low - _BEYOND, self.high + _BEYOND).exp() / self.unit

    def precision(self, x: np.ndarray, seed: int) -> np.ndarray:
        """Inverse of the mean squared factor at scaled rows, (rows,)."""
        return 1.0 / self.factors(x, _DRAWS, seed).square().mean(dim=0).numpy()

    def inclusion(self) -> np.ndarray:
        """Of each input, that a path joins it to the log factor, averaged over the networks."""
        return path_inclusion(self.network.inclusion()).mean(dim=0).numpy()


def noise_network(layout: Layout, activation: str, probability: Any, seed: int) -> Variational:
    """Untrained networks of the log factor."""
    generator = torch.Generator().manual_seed(seed)
    return Variational("spike_slab", layout, OfErrors(), activation, USUAL_RATE, probability, 1.0, generator)


def learn(estimator: Any, errors: Errors) -> tuple[Scatter | None, np.ndarray]:
    """Compare constant noise, a linear log factor and networks on folds of the errors, and fit the one that wins.

    Returns:
        None where nothing is better than constant noise by more than a standard error; and the squared factor at the
        rows, from networks that have not seen them (n,).
    """
    seed, (rows, inputs) = estimator.seed_, errors.x.shape
    if rows < 2:
        return None, np.ones(rows)  # nothing is left to judge by
    some = np.sort(np.random.default_rng(seed).permutation(rows)[:_MOST])
    x, target = torch.from_numpy(errors.x[some]).float(), errors.target()[some]
    folds = Folds.divide(len(some), None, 1, seed)
    tested, weights = folds.test.ravel(), target[folds.test.ravel(), 3].numpy()
    levels = [
        _LEVELS[(target[part, 3] * _nll(_LEVELS[:, None], target[part])).sum(dim=1).argmin()] for part in folds.train
    ]
    level = torch.stack(levels).repeat_interleave(folds.test.shape[1])
    plain = best = Held(_nll(level, target[tested]).numpy(), weights)
    chosen: tuple[tuple[int, ...], float, Tensor] | None = None
    probabilities = probabilities_to_try((inputs, *WIDTHS, 1), len(some))
    for hidden in ((), WIDTHS):
        sizes = (inputs, *hidden, 1)
        for probability, g in zip(
            probabilities, _tried(estimator, x, target, sizes, probabilities, folds), strict=True
        ):
            likelihood = torch.logsumexp(-_nll(g, target[tested]), dim=0) - math.log(len(g))
            held = Held(-likelihood.numpy(), weights)
            if held.loss() < best.loss() and better(held, plain):
                best, chosen = held, (sizes, probability, g)
    if chosen is None:
        return None, np.ones(rows)  # predictions keep the noise that they have
    sizes, probability, g = chosen
    network = noise_network(Layout(sizes, estimator._count("n_replicates")), estimator.activation, probability, seed)
    batch, epochs = estimator._count("batch_size"), estimator._epochs(len(some))
    network.train_on(x, target.float(), epochs, batch, len(some), False, True)
    scatter = Scatter(network, -math.inf, math.inf)
    logs = scatter.factors(errors.x[some], _DRAWS, seed).log().mean(dim=0)
    scatter = Scatter(network, float(logs.min()), float(logs.max()))
    squared = 1.0 / scatter.precision(errors.x, seed)
    squared[some[tested]] = torch.exp(2.0 * g).mean(dim=0).numpy()
    return scatter, squared


def _tried(
    estimator: Any, x: Tensor, target: Tensor, sizes: tuple[int, ...], probabilities: list[float], folds: Folds
) -> list[Tensor]:
    """Log factors of the held-out rows of all folds, (draws, rows), under each lambda; one stack of networks."""
    number = len(probabilities)
    layout = Layout(sizes, number * folds.number)
    network = noise_network(layout, estimator.activation, np.repeat(probabilities, folds.number), estimator.seed_)

    def stacked(values: Tensor, which: np.ndarray) -> Tensor:
        return torch.stack([values[part] for part in which], dim=1).repeat(1, number, 1)

    rows, batch = folds.train.shape[1], estimator._count("batch_size")
    own = stacked(x, folds.train), stacked(target.float(), folds.train)
    network.train_on(*own, estimator._epochs(rows, searching=True), batch, rows, False, True)
    with torch.no_grad():
        outputs, _ = held_outputs(network, stacked(x, folds.test).transpose(0, 1), estimator.seed_)
    every = outputs[..., 0].double().unflatten(1, (number, folds.number))
    return [part.flatten(1) for part in every.unbind(1)]
