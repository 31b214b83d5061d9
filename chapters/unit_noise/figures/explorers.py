"""Explorer of the noise of Structured Bayesian Pruning: from mu and sigma to density, SNR, KL, kept or pruned."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
from matplotlib.figure import Figure

from bnnlib import functional as bF
from book.display.explorer import Control, Explorer, explore
from book.display.style import INK, PALETTE, figure, panel_letters, style_context
from chapters.unit_noise.figures.method import LOWER, UPPER, log_density, plane

KEPT, PRUNED, GRAY = PALETTE[0], PALETTE[1], PALETTE[6]
LEVELS = (0.1, 1.0, 4.0)  # of the divergence, in nats
_LABELS = -14.0  # mu at which their labels stand
# All explorers of a page share 300 kB.
NOISE_CONTROLS = {
    "location": Control(
        "μ", (-20.0, -15.0, -10.0, -6.0, -3.0, -2.0, -1.0, 0.0, 1.0, 3.0, 5.0), 0.0, (-20.0, -10.0, -3.0, 0.0, 1.0, 5.0)
    ),
    "log_scale": Control(
        "log σ",
        (-5.0, -4.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0),
        -5.0,
        (-5.0, -3.0, -1.0, 0.0, 1.0, 2.0, 3.0, 5.0),
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
        "snr": bF.truncated_log_normal_snr,
        "kl": bF.truncated_log_normal_kl,
        "mean": bF.truncated_log_normal_mean,
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
def _background() -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    x, y = np.linspace(-20, 5, 121), np.linspace(-6, 5, 111)
    return x, y, plane(x, y)


def noise(location: float, log_scale: float) -> Figure:
    """Density of log theta beside its prior, and where the unit lies in the plane of mu and log sigma.

    Args:
        location, log_scale: mu in [-20, 5] and log sigma in [-6, 5].

    Returns:
        Two panels with the same axes at every setting; the second has the line SNR = 1 and contours of the divergence.
    """
    found = noise_values(location, log_scale)
    kept = found["snr"] > 1
    color = KEPT if kept else PRUNED
    scale = math.exp(log_scale)
    # narrow noise needs points where it is: quantiles of it beside an even grid
    even = np.linspace(LOWER, UPPER, 401)
    v = np.unique(np.clip(np.r_[even, location + scale * np.linspace(-6, 6, 241), -np.geomspace(1e-6, 1, 121)], -20, 0))
    density = log_density(torch.as_tensor(np.clip(v, LOWER + 1e-9, UPPER - 1e-9)), location, scale).exp().numpy()
    with style_context():
        # axes that stay where they are make the frames smaller
        fig, (left, right) = figure(2, height=3.5, layout="none")
        fig.subplots_adjust(left=0.105, right=0.985, top=0.76, bottom=0.17, wspace=0.27)
        first = f"SNR = {found['snr']:.3g}, KL = {found['kl']:.2g} nats, E θ = {found['mean']:.2g}"
        fig.suptitle(f"{first}\nthe unit is {'kept' if kept else 'pruned'}", size="medium", y=0.985)
        left.axhline(1 / (UPPER - LOWER), color=INK, lw=1.4, ls="--", marker="none")
        left.text(LOWER + 0.4, 1.15 / (UPPER - LOWER), "prior", va="bottom")
        left.fill_between(v, _DENSITY[0], np.maximum(density, _DENSITY[0]), color=color, alpha=0.3, lw=0)
        left.plot(v, np.maximum(density, 0.5 * _DENSITY[0]), color=color, ls="-", marker="none")
        left.set(yscale="log", ylim=_DENSITY, xlim=(LOWER - 0.3, UPPER + 0.3), xlabel="log θ", title="density of log θ")
        left.minorticks_off()
        x, y, values = _background()
        right.contour(x, y, values["kl"], levels=LEVELS, colors=[GRAY], linewidths=1, linestyles="--")
        column = values["kl"][::-1, np.searchsorted(x, _LABELS)]  # from wide to narrow noise it only grows
        for level, height in zip(LEVELS, np.interp(LEVELS, column, y[::-1]), strict=True):
            ground = {"facecolor": "white", "edgecolor": "none", "pad": 1}
            right.text(_LABELS, height, f"{level:g}", ha="center", va="center", size="small", color=GRAY, bbox=ground)
        right.contour(x, y, values["snr"], levels=[1.0], colors=[INK], linewidths=2.2)
        right.plot([location], [log_scale], marker="o" if kept else "X", ms=11, color=color, mec="white", ls="none")
        right.text(-19.5, 4.2, "pruned", va="center")
        right.text(-19.5, -5.2, "kept", va="center")
        right.set(xlabel="μ", ylabel="log σ", title="SNR = 1 (solid), KL (dashed)", xlim=(-20.6, 5.6), ylim=(-6, 5.4))
        right.grid(visible=False)
        panel_letters([left, right])
    return fig


def noise_explorer(static: bool | None = None) -> Explorer:
    """Sliders for mu and log sigma: density, SNR, KL, kept or pruned.

    Args:
        static: as for `book.display.explore`.
    """
    return explore(noise, NOISE_CONTROLS, title="Is the unit kept?", alt=noise_in_words, dpi=90, static=static)
