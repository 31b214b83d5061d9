"""What the penalty alone does to the scales of a stored network, beside what the training did."""

import math

import numpy as np
import torch

from bnnlib import functional as bF
from bnnlib.train.fit import cosine
from book import lab


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
