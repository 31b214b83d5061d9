"""Explorers of the closed-form inclusion probability: Remarks 1 and 2 in one, Lindley's paradox in the other.

Scales are given by their natural logarithms, as in the paper's experiments.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from bnnlib import functional as bF
from book.display.control import Control
from book.display.picture import Line, Panel, Picture, Points, Rule, Text
from book.display.style import PALETTE

SLAB, SPIKE = PALETTE[0], PALETTE[1]

# (log tau_1, log tau_0, pi) of Saha, Liu and Liang (2024), sections 4.2 to 4.4; Table 4 prints the scales themselves
PUBLISHED = {
    "UCI": (1.0, -6.0, 0.5),
    "MNIST, 400 units": (0.0, -6.0, 0.5),
    "MNIST, 800 units": (0.5, -6.5, 0.5),
    "MNIST, 1200 units": (-0.98, -5.02, 0.5),
    "LeNet-5 set 1 and VGG": (0.0, -5.0, 0.5),
    "LeNet-5 set 2": (-1.0, -3.0, 0.5),
}
# The spike at -1.1 is nearly as wide as the narrowest slab: Remark 2.
INCLUSION_CONTROLS = {
    "log_slab": Control("log τ₁ (slab)", (-1.0, -0.98, -0.8, -0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.5, 0.8, 1.0), 0.0),
    "log_spike": Control(
        "log τ₀ (spike)", (-6.5, -6.0, -5.5, -5.02, -5.0, -4.5, -4.0, -3.5, -3.0, -2.5, -2.0, -1.5, -1.1), -5.0
    ),
    "inclusion": Control("π (prior)", (0.01, 0.1, 0.25, 0.5, 0.75, 0.9), 0.5, (0.1, 0.5, 0.9), choice=True),
}
LINDLEY_CONTROLS = {
    "log_slab": Control(
        "log τ₁ (slab)", (-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.5, 8.0, 10.0, 12.0, 16.0, 20.0, 30.0), 0.0
    ),
    "log_spike": Control(
        "log τ₀ (spike)", (-7.0, -6.5, -6.0, -5.75, -5.5, -5.25, -5.0, -4.75, -4.5, -4.0, -3.5, -3.0), -5.0
    ),
}
LINDLEY_WEIGHTS = (0.01, 0.02, 0.03, 0.05)
_REACH = (1e-4, 10.0)  # of the root second moment in the first explorer


def _prior(log_slab: float, log_spike: float, inclusion: float) -> bF.MixturePrior:
    return bF.mixture_prior(math.exp(log_slab), math.exp(log_spike), inclusion)


def inclusion_curve(r: np.ndarray, log_slab: float, log_spike: float, inclusion: float = 0.5) -> np.ndarray:
    """p* at a root second moment r = sqrt(mean^2 + scale^2), equation (sbnn-inclusion).

    Args:
        r: any shape.
        log_slab, log_spike, inclusion: log tau_1, log tau_0 and pi.
    """
    r = torch.as_tensor(np.asarray(r, dtype=float))
    return bF.closed_form_inclusion(r, 0.0, _prior(log_slab, log_spike, inclusion)).numpy()


def threshold(log_slab: float, log_spike: float, inclusion: float = 0.5) -> float | None:
    """Root second moment at which p* = 1/2, equation (sbnn-threshold); None where p* is above 1/2 even at r = 0.

    Args:
        log_slab, log_spike, inclusion: log tau_1, log tau_0 and pi.
    """
    where = bF.inclusion_threshold(_prior(log_slab, log_spike, inclusion))
    return where if where > 0 else None


def published_name(log_slab: float, log_spike: float, inclusion: float = 0.5) -> str | None:
    """Name of the experiment of the paper with this prior, if there is one."""
    given = (log_slab, log_spike, inclusion)
    return next((name for name, prior in PUBLISHED.items() if np.allclose(prior, given)), None)


def inclusion_in_words(log_slab: float, log_spike: float, inclusion: float = 0.5) -> str:
    """The alternative text of `inclusion`."""
    where, name = threshold(log_slab, log_spike, inclusion), published_name(log_slab, log_spike, inclusion)
    at_zero = float(inclusion_curve(np.zeros(()), log_slab, log_spike, inclusion))
    cross = "is above one half everywhere" if where is None else f"crosses one half at r = {where:.2g}"
    return (
        f"{f'Published setting {name}. ' if name else ''}With log tau_1 = {log_slab:g}, log tau_0 = {log_spike:g} and "
        f"pi = {inclusion:g}, p* is {at_zero:.2g} at r = 0 and {cross}. The penalty follows the spike's parabola below "
        "that and the slab's beyond it."
    )


def penalty_curves(r: np.ndarray, log_slab: float, log_spike: float, inclusion: float = 0.5) -> dict[str, np.ndarray]:
    """What of the penalty depends on r, in nats: R + log sigma at p = p* (sbnn-profile), and at p = 1 and p = 0.

    Args:
        r: root second moments, positive.
        log_slab, log_spike, inclusion: log tau_1, log tau_0 and pi.

    Returns:
        {"at p*", "slab only (p = 1)", "spike only (p = 0)"}: arrays in r's shape.
    """
    half = torch.as_tensor(np.asarray(r, dtype=float)) / math.sqrt(2.0)  # mean = scale = half: a second moment of r^2
    prior = _prior(log_slab, log_spike, inclusion)
    one = torch.ones_like(half)
    curves = {
        "at p*": bF.spike_slab_profile_penalty(half, half, prior),
        "slab only (p = 1)": bF.spike_slab_penalty(half, half, one, prior),
        "spike only (p = 0)": bF.spike_slab_penalty(half, half, one - 1.0, prior),
    }
    return {name: (curve + half.log()).numpy() for name, curve in curves.items()}


def inclusion(log_slab: float, log_spike: float, inclusion: float = 0.5) -> Picture:
    """p* and the profile penalty against the root second moment of a weight: Remarks 1 and 2.

    Args:
        log_slab, log_spike, inclusion: log tau_1, log tau_0 and pi; the spike must be the narrower one.

    Returns:
        Two panels with the same axes at every setting. The second shows the part of R* that depends on r, below the
        two penalties of a weight that is only slab or only spike.
    """
    r = np.geomspace(*_REACH, 131)
    where, name = threshold(log_slab, log_spike, inclusion), published_name(log_slab, log_spike, inclusion)
    first = f"τ₁ = {math.exp(log_slab):.2g}, τ₀ = {math.exp(log_spike):.2g}: "
    first += "p* > 1/2 for every weight" if where is None else f"p* = 1/2 at r = {where:.2g}"
    cross = Rule(x=where)
    share = [
        Rule(y=inclusion, dash=1),
        cross,
        Line(r, inclusion_curve(r, log_slab, log_spike, inclusion), look="ink"),
        Text(7.0, inclusion + 0.05, "π", "end"),
    ]
    looks = (("ink", 0), (0, 1), (1, 2))
    height = [
        cross,
        *(
            Line(r, curve, label, look, dash)
            for (label, curve), (look, dash) in zip(
                penalty_curves(r, log_slab, log_spike, inclusion).items(), looks, strict=True
            )
        ),
    ]
    across = {"xlabel": "r = √(m² + σ²)", "xlim": _REACH, "xlog": True}
    return Picture(
        [
            Panel("inclusion probability p*", share, ylim=(0, 1.03), yticks=(0, 0.5, 1), **across),
            Panel("penalty R* + log σ", height, ylabel="nats", ylim=(-6.5, 6.5), **across),
        ],
        f"{first}\n{f'published setting: {name}' if name else 'not a published setting'}",
    )


def widest_slab(r: float, log_spike: float, inclusion: float = 0.5) -> float | None:
    """log tau_1 beyond which p* of a weight falls below 1/2: Lindley's paradox, Remark 3; None if it is below already.

    Args:
        r: root second moment of the weight.
        log_spike, inclusion: log tau_0 and pi.
    """
    second = torch.tensor(float(r) ** 2, dtype=torch.float64)

    def log_odds(log_slab: float) -> float:
        return float(bF.inclusion_log_odds(second, _prior(log_slab, log_spike, inclusion)))

    # p* rises with the slab until tau_1 = r and falls from there on, without bound
    low = max(math.log(r), log_spike + 1e-9)
    if log_odds(low) <= 0:
        return None
    step = 1.0
    while log_odds(low + step) > 0:
        low, step = low + step, 2 * step
    high = low + step
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if log_odds(middle) > 0 else (low, middle)
    return high


def lindley_in_words(log_slab: float, log_spike: float) -> str:
    """The alternative text of `lindley`."""
    values = inclusion_curve(np.array(LINDLEY_WEIGHTS), log_slab, log_spike)
    said = ", ".join(
        f"{value:.2g} for a weight of {weight:g}" for weight, value in zip(LINDLEY_WEIGHTS, values, strict=True)
    )
    return f"With log tau_1 = {log_slab:g} and log tau_0 = {log_spike:g}, p* is {said}."


def lindley(log_slab: float, log_spike: float) -> Picture:
    """Remark 3: the same weights under ever wider slabs, with pi = 1/2.

    Args:
        log_slab, log_spike: log tau_1 and log tau_0; the spike must be the narrower one.

    Returns:
        Two panels with the same axes at every setting: p* against the weight, and p* of four weights against the slab.
    """
    r, slabs, weights = np.linspace(0, 0.08, 97), np.linspace(-1, 30, 94), np.array(LINDLEY_WEIGHTS)
    curves = np.stack([inclusion_curve(weights, slab, log_spike) for slab in slabs], axis=1)
    here = inclusion_curve(weights, log_slab, log_spike)
    left = [Line(r, inclusion_curve(r, log_slab, log_spike), look="ink")]
    right: list = [Rule(x=log_slab)]
    for look, (weight, value, curve) in enumerate(zip(weights, here, curves, strict=True)):
        left.append(Points([weight], [value], f"r = {weight:g}", look, size=11))
        right += [Line(slabs, curve, f"r = {weight:g}", look), Points([log_slab], [value], "", look, size=11)]
    height = {"ylim": (-0.03, 1.03), "yticks": (0, 0.5, 1)}
    return Picture(
        [
            Panel("p* of a weight", left, "r = √(m² + σ²)", xlim=(0, 0.08), xticks=(0, 0.02, 0.04, 0.06), **height),
            Panel("p* as the slab widens", right, "log τ₁", xlim=(-1.5, 31), **height),
        ],
        f"τ₁ = {math.exp(log_slab):.2g}, τ₀ = {math.exp(log_spike):.2g}: "
        f"{sum(here > 0.5)} of {len(weights)} weights are included",
    )
