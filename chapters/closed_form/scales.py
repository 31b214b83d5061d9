"""What the penalty alone does to the scales and the means of a stored network, beside what the training did."""

from __future__ import annotations

import math

import numpy as np
import torch

from bnnlib import functional as bF
from bnnlib.train.fit import cosine
from book import lab
from chapters.closed_form.experiments.networks import network


def drift(name: str, setting: str, method: str = "sBNN") -> tuple[float, float] | None:
    """Growth of the scale of a weight in the spike over a training by SGD, in percent, in two ways.

    Args:
        name: of an experiment on images, with momentum, a cosine schedule and uniform shares of the penalty.
        setting, method: of the network.

    Returns:
        What the penalty does to sigma alone, to first order: the sum of the steps of equation (sbnn-gradient) in
        log sigma, eta omega (1 - kappa sigma^2) / n at the first sigma, eta with the factor of the momentum.
        How far the root mean square r of the middle weight lies above the first sigma, by the stored p* and equation
        (sbnn-log-odds): the mean over runs.
        None where nothing beyond the smoke profile is stored.
    """
    if (found := _settings(name, setting, method)) is None:
        return None
    params, candidate, prior = found
    first = candidate["initial_scale"]
    moved = [
        _root_mean_square(float(np.interp(0.5, *np.asarray(table, dtype=float).T[::-1])), prior) / first - 1
        for key, table in lab.stored_arrays(name).items()
        if (key[0], key[1], key[3]) == (setting, method, "inclusion_cdf")
    ]
    return 100 * _pushed(params, candidate, prior), 100 * float(np.mean(moved))


def left_by_penalty(name: str, setting: str, method: str = "sBNN") -> tuple[float, float] | None:
    """Of the random weights before any training, the percentage beyond the threshold, and what the penalty leaves.

    A network that is pre-trained begins the training with the penalty elsewhere: this says what would be in the slab
    if no data had moved a weight. The penalty alone draws a mean to zero at the rate of equation (sbnn-gradient), so
    that after the whole training the means above a border are still in the slab.

    Args:
        name, setting, method: as for `drift`.

    Returns:
        Shares of all weights beyond equation (sbnn-threshold) first and, by the penalty alone, last; None where nothing
        beyond the smoke profile is stored.
    """
    if (found := _settings(name, setting, method)) is None:
        return None
    params, candidate, prior = found
    start = network(params, "deterministic", 80_000)
    size = torch.cat([p.detach().abs().flatten() for one in start for p in weights_of(one)])
    grid = torch.logspace(-4, 0, 20_001, dtype=torch.float64)
    second = grid**2 + candidate["initial_scale"] ** 2
    beyond = bF.inclusion_log_odds(second, prior) > 0
    time = torch.cumulative_trapezoid(1 / bF.expected_precision(second, prior), grid.log())
    border = grid[1:][time - time[beyond[1:]][0] > _dose(params, candidate)][0]
    first, last = (100 * float((size > least).double().mean()) for least in (grid[beyond][0], border))
    return first, last


def weights_of(layer: torch.nn.Module) -> list[torch.nn.Parameter]:
    """Weight and bias of a linear or convolutional layer; nothing of another one."""
    return list(layer.parameters()) if isinstance(layer, (torch.nn.Linear, torch.nn.Conv2d)) else []


def _settings(name: str, setting: str, method: str) -> tuple[dict, dict, bF.MixturePrior] | None:
    """Parameters of a stored cell, those of the candidate that it chose, and its prior."""
    if not len(lab.stored_values(name, setting, method, "error_test")):
        return None
    stored = lab.load_result(name)
    params = next(
        one["cell"]["params"]
        for one in stored["cells"]
        if (one["cell"]["setting"], one["cell"]["method"]) == (setting, method)
    )
    chosen = {row["setting"] for row in stored["rows"] if row["method"] == method and "chosen" in row.get("note", "")}
    (candidate,) = [
        one
        for one in params["candidates"]
        if len(params["candidates"]) == 1 or any(f"log_tau0={one['log_tau0']:g}," in where for where in chosen)
    ]
    prior = bF.mixture_prior(math.exp(candidate["log_tau1"]), math.exp(candidate["log_tau0"]), candidate["pi"])
    return params, candidate, prior


def _dose(params: dict, candidate: dict) -> float:
    """Sum of all steps, with the factor of the momentum and the shares of the penalty; with M batches of B rows an
    epoch, M / n is 1 / B."""
    epochs, warm_up = params["epochs"], params["warm_up"]
    shares = [cosine(epochs)(epoch) * min(1.0, (epoch + 0.02) / warm_up) for epoch in range(epochs)]
    rate = params["learning_rate"] / (1 - params["momentum"])
    return rate * candidate["kl_scale"] * sum(shares) / params["batch_size"]


def _pushed(params: dict, candidate: dict, prior: bF.MixturePrior) -> float:
    """The change of log sigma."""
    second = torch.tensor(candidate["initial_scale"] ** 2, dtype=torch.float64)
    return _dose(params, candidate) * (1 - float(bF.expected_precision(second, prior) * second))


def _root_mean_square(p: float, prior: bF.MixturePrior) -> float:
    """r of a weight with inclusion probability p, equation (sbnn-log-odds) solved for it."""
    low, high = bF.inclusion_log_odds(torch.tensor([0.0, 1.0], dtype=torch.float64), prior).tolist()
    return math.sqrt((math.log(p / (1 - p)) - low) / (high - low))
