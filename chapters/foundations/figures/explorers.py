"""The explorer of the chapter: a posterior that grows with its data, observation by observation."""

from functools import cache
from typing import NamedTuple

import numpy as np
import torch

from book.display.control import Control
from book.display.explorer import Explorer, curves
from book.display.picture import Band, Bars, Line, Panel, Picture, Points
from chapters.foundations.enumeration import enumerate_models, spike_slab_regression
from chapters.foundations.example import TRUTH, example_data
from chapters.foundations.figures.method import ellipse
from chapters.foundations.mean_field import coordinate_ascent
from chapters.foundations.regression import linear_posterior, mean_field_gaussian

MOST = 24
COUNTS = tuple(range(MOST + 1))
CORRELATIONS = (0.0, 0.5, 0.9, 0.99)
_X = np.linspace(-2.5, 2.5, 41)


class Known(NamedTuple):
    """What the first observations say: exact mean and covariance, and the spreads and inclusion probabilities of both.

    Args:
        mean, covariance: of the exact posterior, (3,) and (3, 3).
        scale, alone: standard deviations, exact and by mean field, (3,).
        phi, field: inclusion probabilities, exact and by mean field, (3,).
    """

    mean: np.ndarray
    covariance: np.ndarray
    scale: np.ndarray
    alone: np.ndarray
    phi: np.ndarray
    field: np.ndarray


@cache
def data(correlation: float) -> tuple[torch.Tensor, torch.Tensor]:
    """All observations that the explorer adds one by one; the same noise at every correlation."""
    return example_data(MOST, correlation, torch.Generator().manual_seed(0))


@cache
def known(count: int, correlation: float) -> Known:
    """The posterior given the first observations; prior and noise have variance 1, a coin shows heads every other time.

    Args:
        count: of observations, 0 to 24.
        correlation: of the first two inputs.
    """
    x, y = (values[:count] for values in data(correlation))
    exact, problem = linear_posterior(x, y), spike_slab_regression(x, y)
    found = (
        exact.mean, exact.covariance, exact.scale, mean_field_gaussian(exact).scale,
        enumerate_models(problem).inclusion, coordinate_ascent(problem).inclusion,
    )  # fmt: skip
    return Known(*(value.numpy() for value in found))


def growing(count: int, correlation: float) -> Picture:
    """Weights, predictions, inclusion probabilities and spreads after the first observations.

    Args:
        count: of observations, 0 to 24.
        correlation: of the first two inputs.
    """
    now, along = known(count, correlation), [known(k, correlation) for k in COUNTS]
    weights = [
        Line(*ellipse(now.mean[:2], now.covariance[:2, :2]), "exact", 0),
        Line(*ellipse(now.mean[:2], np.diag(now.alone[:2] ** 2)), "mean field", 1),
        Points([TRUTH[0]], [TRUTH[1]], "truth", "ink", marker=3, size=9),
    ]
    x, y = (values.numpy() for values in data(correlation))
    way = np.array([1.0, correlation, 0.0])  # the second input where it is expected to be
    middle, spread = _X * (now.mean @ way), np.abs(_X) * np.sqrt(way @ now.covariance @ way)
    noisy = 2 * np.sqrt(spread**2 + 1.0)
    band = [
        Band(_X, middle - noisy, middle + noisy, "with noise", 0, 0.13),
        Band(_X, middle - 2 * spread, middle + 2 * spread, "of the mean", 0, 0.4),
        Line(_X, middle, look=0),
        Points(x[:count, 0], y[:count], look=1, size=7),
    ]
    coins = [
        Bars([1, 2, 3], now.phi, "exact", 0, width=0.6),
        Points([1, 2, 3], now.field, "mean field", 1, size=9),
    ]
    exact, alone = (np.array([getattr(one, name)[0] for one in along]) for name in ("scale", "alone"))
    spreads = [
        Line(COUNTS, exact, "exact", 0),
        Line(COUNTS, alone, "mean field", 1),
        Points([count, count], [exact[count], alone[count]], look="ink", size=8),
    ]
    said = [", ".join(f"{v:.2f}" for v in values).replace("-", "−") for values in (now.mean, now.phi)]
    return Picture(
        [
            Panel("two weights", weights, "θ₁", "θ₂", (-2.2, 2.8), (-2.2, 2.8)),
            Panel("prediction", band, "x₁", "y", (-2.5, 2.5), (-6, 6)),
            Panel("inclusion", coins, "input", "φ", (0.4, 3.6), (0, 1.05), xticks=(1, 2, 3)),
            Panel("spread of θ₁", spreads, "observations", "sd", (0, MOST), (0, 1.1)),
        ],
        f"{count} observations: θ = ({said[0]}), φ = ({said[1]})\n"
        f"sd of θ₁: {now.scale[0]:.2f}, by mean field {now.alone[0]:.2f}",
    )


def growing_in_words(count: int, correlation: float) -> str:
    """The alternative text of `growing`."""
    now = known(count, correlation)
    means, phi, field = ("{:.2f}, {:.2f} and {:.2f}".format(*values) for values in (now.mean, now.phi, now.field))
    return (
        f"After {count} observations with inputs correlated {correlation:g}: posterior means {means}; inclusion "
        f"probabilities {phi}, by mean field {field}; standard deviation of the first weight {now.scale[0]:.2f}, by "
        f"mean field {now.alone[0]:.2f}."
    )


def growing_explorer() -> Explorer:
    """Knobs for the number of observations and for the correlation of two inputs."""
    controls = {
        "count": Control("Observations", COUNTS, 12, format="d"),
        "correlation": Control("Correlation", CORRELATIONS, 0.9, choice=True),
    }
    return curves(growing, controls, title="What does one more observation teach?", alt=growing_in_words)
