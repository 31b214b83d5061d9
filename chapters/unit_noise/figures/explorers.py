"""Explorers of the chapter: one unit's noise over mu and sigma, and what a unit earns against what precision costs."""

import math
from functools import cache

import numpy as np
import torch
from contourpy import contour_generator

from book.display.control import Control
from book.display.explorer import Explorer, curves
from book.display.picture import Band, Item, Line, Panel, Picture, Points, Rule, Text
from chapters.unit_noise import formulas
from chapters.unit_noise.figures.method import LOWER, UPPER, log_density, plane
from chapters.unit_noise.prices import RATIOS, best_ratio, bound, price_curve, two_optima

KEPT, PRUNED = 0, 1  # looks
LEVELS = (0.1, 1.0, 4.0)  # of the divergence, in nats
_LABELS = -14.0  # mu at which their labels stand
NOISE_CONTROLS = {
    "location": Control(
        "μ", (-20.0, -17.5, -15.0, -12.5, -10.0, -8.0, -6.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 3.0, 5.0), 0.0
    ),
    "log_scale": Control(
        "log σ", (-5.0, -4.0, -3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0), -5.0
    ),
}
_DENSITY = (1e-3, 300.0)


def noise_values(location: float, log_scale: float) -> dict[str, float]:
    """What a unit's noise amounts to, equations (sbp-snr), (sbp-kl) and (sbp-mean).

    Args:
        location, log_scale: mu and log sigma of log theta on [-20, 0].

    Returns:
        {"snr", "kl" in nats, "mean": E theta}.
    """
    settings = (torch.tensor([value], dtype=torch.float64) for value in (location, math.exp(log_scale)))
    mean, scale = settings
    functions = {
        "snr": formulas.truncated_log_normal_snr,
        "kl": formulas.truncated_log_normal_kl,
        "mean": formulas.truncated_log_normal_mean,
    }
    return {name: float(function(mean, scale)) for name, function in functions.items()}


def noise_in_words(location: float, log_scale: float) -> str:
    """The alternative text of `noise`."""
    found = noise_values(location, log_scale)
    fate = "kept" if found["snr"] > 1 else "pruned"
    return (
        f"With mu = {location:g} and log sigma = {log_scale:g} the signal-to-noise ratio is {found['snr']:.3g}, the "
        f"divergence {found['kl']:.2g} nats and E theta {found['mean']:.2g}: the unit is {fate}."
    )


@cache
def _background() -> list[Item]:
    """The lines SNR = 1 and of equal divergence over the plane of mu and log sigma, with their labels."""
    x, y = np.linspace(-20, 5, 121), np.linspace(-6, 5, 111)
    values = plane(x, y)

    def contour(name: str, level: float) -> tuple[np.ndarray, np.ndarray]:
        parts = contour_generator(x, y, values[name]).lines(level)
        # every fourth point is enough for lines that are nearly straight; NaN between them
        joined = [np.vstack([np.vstack([part[::4], part[-1:]]), [[np.nan, np.nan]]]) for part in parts]
        return tuple(np.vstack(joined).T)

    column = values["kl"][::-1, np.searchsorted(x, _LABELS)]  # from wide to narrow noise it only grows
    heights = np.interp(LEVELS, column, y[::-1])
    return [
        *(Line(*contour("kl", level), "KL in nats" if level == 1 else "", "gray", 1, 1.3) for level in LEVELS),
        *(Text(_LABELS, height, f"{level:g}", "middle", "gray") for level, height in zip(LEVELS, heights, strict=True)),
        Line(*contour("snr", 1.0), "SNR = 1", "ink"),
        Text(-19.5, 4.2, "pruned"),
        Text(-19.5, -5.2, "kept"),
    ]


def noise(location: float, log_scale: float) -> Picture:
    """Density of log theta beside its prior, and where the unit lies in the plane of mu and log sigma.

    Args:
        location, log_scale: mu in [-20, 5] and log sigma in [-6, 5].

    Returns:
        Two panels with the same axes at every setting; the second has the line SNR = 1 and contours of the divergence.
    """
    found = noise_values(location, log_scale)
    kept = found["snr"] > 1
    scale = math.exp(log_scale)
    # narrow noise needs points where it is: quantiles of it beside an even grid
    edge = -np.geomspace(1e-6, 1, 61) if location > -1 else np.zeros(1)
    v = np.unique(
        np.clip(np.r_[np.linspace(LOWER, UPPER, 81), location + scale * np.linspace(-6, 6, 61), edge], -20, 0)
    )
    density = log_density(torch.as_tensor(np.clip(v, LOWER + 1e-9, UPPER - 1e-9)), location, scale).exp().numpy()
    # an axis of logarithms has no place for what underflows
    density = np.maximum(density, 0.5 * _DENSITY[0])
    own, other = (v, density), ([], [])
    left = [
        *(
            item
            for look, name, (x, y) in (
                (KEPT, "kept", own if kept else other),
                (PRUNED, "pruned", other if kept else own),
            )
            for item in (Band(x, np.full(len(x), 0.5 * _DENSITY[0]), y, look=look), Line(x, y, name, look))
        ),
        Rule(y=1 / (UPPER - LOWER), name="prior", dash=1),
    ]
    look, marker = (KEPT, 0) if kept else (PRUNED, 6)
    right = [*_background(), Points([location], [log_scale], look=look, marker=marker, size=14)]
    return Picture(
        [
            Panel("density of log θ", left, "log θ", xlim=(LOWER - 0.3, UPPER + 0.3), ylim=_DENSITY, ylog=True),
            Panel("where the unit stands", right, "μ", "log σ", (-20.6, 5.6), (-6, 5.4)),
        ],
        f"SNR = {found['snr']:.3g}, KL = {found['kl']:.2g} nats, E θ = {found['mean']:.2g}\n"
        f"the unit is {'kept' if kept else 'pruned'}",
    )


def noise_explorer() -> Explorer:
    """Sliders for mu and log sigma: density, SNR, KL, kept or pruned."""
    return curves(noise, NOISE_CONTROLS, title="Is the unit kept?", alt=noise_in_words)


TRADE_CONTROLS = {
    "t": Control("t-statistic", (0.0, 0.5, 1.0, 1.5, 2.0, 2.25, 2.5, 2.75, 3.0, 3.5, 4.0, 4.5, 5.0), 3.0, format=".2f"),
    "weight": Control("weight κ", (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0), 1.0, format="g"),
}
_TS = np.linspace(0.0, 5.2, 105)


def trade_values(t: float, weight: float) -> dict[str, float]:
    """{"snr": the best ratio of this unit, "bound": what it adds there, in nats}; arguments as for `trade`."""
    return {"snr": float(best_ratio(t, weight)), "bound": float(bound(t, weight).max())}


def trade_in_words(t: float, weight: float) -> str:
    """The alternative text of `trade`."""
    found = trade_values(t, weight)
    fate = "kept" if found["snr"] > 1 else "pruned"
    return (
        f"With a t-statistic of {t:g} and weight {weight:g} the bound is largest at a ratio of {found['snr']:.2f}, "
        f"where the unit adds {found['bound']:.2f} nats: it is {fate}."
    )


def _best_line(weight: float) -> tuple[np.ndarray, np.ndarray]:
    """The best ratio over t, with a gap where it jumps."""
    ratio = best_ratio(_TS, weight)
    jump = np.flatnonzero((ratio[1:] > 1) & (ratio[:-1] < 1)) + 1
    return np.insert(_TS, jump, np.nan), np.insert(ratio, jump, np.nan)


def trade(t: float, weight: float) -> Picture:
    """What one unit earns and pays over its signal-to-noise ratio, and the best ratio over the t-statistic.

    Args:
        t: t-statistic of the unit; its gain is t^2 / 2 nats, equation (sbp-gain).
        weight: kappa of the divergence, equation (sbp-scaling).
    """
    found = trade_values(t, weight)
    earned, paid = 0.5 * t**2 * RATIOS**2 / (1 + RATIOS**2), weight * price_curve()
    fold = np.sqrt(2 * weight * np.array(two_optima()))  # t-statistics between which the start decides
    left = [
        Rule(y=0),
        Line(RATIOS, earned, "earned", 2),
        Line(RATIOS, -paid, "paid", 1),
        Line(RATIOS, earned - paid, "sum", 0),
        Points([found["snr"]], [found["bound"]], "best", 0, size=11),
        Rule(x=1.0, name="threshold", dash=1),
    ]
    right = [
        Line(*_best_line(1.0), "κ = 1", "gray", 1, 1.4),
        Line(*_best_line(weight), "this κ", 0),
        Points([t], [found["snr"]], look=0, size=11),
        Rule(y=1.0, dash=1),
        Rule(x=fold[0], name="two optima between", look="gray", dash=2),
        Rule(x=fold[1], look="gray", dash=2),
    ]
    return Picture(
        [
            Panel("one unit", left, "SNR", "nats", (1 / 3, 60), (-6, 13), xlog=True),
            Panel("the best ratio", right, "t-statistic", "SNR", (0, 5.2), (0.3, 10), ylog=True),
        ],
        f"best SNR = {found['snr']:.2f}, bound {found['bound']:+.2f} nats\n"
        f"the unit is {'kept' if found['snr'] > 1 else 'pruned'}",
    )


def trade_explorer() -> Explorer:
    """Knobs for a unit's t-statistic and the weight of the divergence."""
    return curves(trade, TRADE_CONTROLS, title="What does a unit earn?", alt=trade_in_words)
