"""The explorers of the chapter: what p* says of a weight, and where a weight ends that nobody needs.

p* of a weight with root second moment r depends on r / tau_0, tau_1 / tau_0 and pi alone, so the first explorer
measures everything in spikes. Scales are given by natural logarithms, as in the paper's experiments.
"""

import math
from functools import cache

import numpy as np
import torch

from bnnlib import functional as bF
from book.display.control import Control
from book.display.explorer import Explorer, curves
from book.display.picture import Line, Panel, Picture, Points, Rule, Text
from book.display.style import PALETTE
from chapters.closed_form import formulas

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
# log(tau_1 / tau_0): from nearly alike (Remark 2) over the published pairs to absurdly wide slabs (Remark 3)
RATIOS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 9.0, 12.0, 16.0, 20.0, 25.0, 30.0)
PRIORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
CLOSE_RATIOS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 5.0)
ROWS = (0, 1, 2, 5, 10, 15, 20, 25, 30, 40, 60, 100)
EXAMPLE_SPIKE = 0.05  # tau_0 of the lesson's example, in which an unseen weight and its data are measured
_REACH = (0.1, 100.0)  # of r in spikes
_SIGMA = (0.005, 20.0)


def mixture(log_slab: float, log_spike: float, inclusion: float) -> bF.MixturePrior:
    """The prior of log tau_1, log tau_0 and pi."""
    return bF.mixture_prior(math.exp(log_slab), math.exp(log_spike), inclusion)


def inclusion_curve(r: np.ndarray, log_slab: float, log_spike: float, inclusion: float = 0.5) -> np.ndarray:
    """p* at a root second moment r = sqrt(mean^2 + scale^2), equation (sbnn-inclusion).

    Args:
        r: any shape.
        log_slab, log_spike, inclusion: log tau_1, log tau_0 and pi.
    """
    r = torch.as_tensor(np.asarray(r, dtype=float))
    return bF.closed_form_inclusion(r, 0.0, mixture(log_slab, log_spike, inclusion)).numpy()


def threshold(log_slab: float, log_spike: float, inclusion: float = 0.5) -> float | None:
    """Root second moment at which p* = 1/2, equation (sbnn-threshold); None where p* is above 1/2 even at r = 0.

    Args:
        log_slab, log_spike, inclusion: log tau_1, log tau_0 and pi.
    """
    where = formulas.inclusion_threshold(mixture(log_slab, log_spike, inclusion))
    return where if where > 0 else None


def published_names(ratio: float) -> list[str]:
    """The experiments of the paper with this log(tau_1 / tau_0), to the two digits of its table."""
    return [name for name, (slab, spike, _) in PUBLISHED.items() if abs(slab - spike - ratio) < 0.05]


@cache
def _thresholds(inclusion: float) -> np.ndarray:
    """r_1/2 in spikes over a grid of log(tau_1 / tau_0), NaN where there is none; shape (2, points)."""
    grid = np.linspace(0.05, RATIOS[-1] + 1, 120)
    return np.array([grid, [threshold(ratio, 0.0, inclusion) or np.nan for ratio in grid]])


def inclusion(ratio: float, inclusion: float = 0.5) -> Picture:
    """p* against the size of a weight in spikes, and the threshold against the width of the slab: Remarks 1 to 3.

    Args:
        ratio: log(tau_1 / tau_0), positive.
        inclusion: pi.
    """
    r = np.geomspace(*_REACH, 101)
    where, at_zero = threshold(ratio, 0.0, inclusion), float(inclusion_curve(0.0, ratio, 0.0, inclusion))
    share = [
        Rule(y=inclusion, dash=1),
        Text(85.0, inclusion + 0.05 if inclusion < 0.9 else inclusion - 0.09, "π", "end"),
        Rule(x=where) if where else Rule(x=_REACH[0]),
        Line(r, inclusion_curve(r, ratio, 0.0, inclusion), look="ink"),
    ]
    printed = sorted({round(slab - spike, 2) for slab, spike, _ in PUBLISHED.values()})
    height = [
        Line(*_thresholds(inclusion), "p* = 1/2", 0),
        Points(printed, [threshold(one, 0.0) for one in printed], "published pairs", 1, hollow=True),
        Points([ratio] if where else [], [where] if where else [], "here", "ink", size=12),
    ]
    found = f"p* = 1/2 at {where:.2g} spikes" if where else "p* > 1/2 for every weight"
    name = ", ".join(published_names(ratio)) if inclusion == 0.5 else ""
    return Picture(
        [
            Panel("p* of a weight", share, "r / τ₀", "", _REACH, (0, 1.03), xlog=True, yticks=(0, 0.5, 1)),
            Panel("where the slab begins", height, "log(τ₁ / τ₀)", "r / τ₀", (0, RATIOS[-1] + 1), (0, 9)),
        ],
        f"{found}; p* of a weight of size 0: {at_zero:.2g}\n{f'published: {name}' if name else 'not published'}",
    )


def inclusion_in_words(ratio: float, inclusion: float = 0.5) -> str:
    """The alternative text of `inclusion`."""
    where = threshold(ratio, 0.0, inclusion)
    at_zero = float(inclusion_curve(0.0, ratio, 0.0, inclusion))
    cross = "is above one half everywhere" if where is None else f"crosses one half at {where:.2g} spike widths"
    return (
        f"With log(tau_1 / tau_0) = {ratio:g} and pi = {inclusion:g}, p* rises from {at_zero:.2g} at r = 0 to one and "
        f"{cross}. The second panel shows that place against the width of the slab: nearly a square root."
    )


def inclusion_explorer() -> Explorer:
    """Knobs for the width of the slab and the prior probability."""
    controls = {
        "ratio": Control("log(τ₁ / τ₀)", RATIOS, 5.0, format="g"),
        "inclusion": Control("π", PRIORS, 0.5, format="g"),
    }
    return curves(inclusion, controls, title="When is a weight included?", alt=inclusion_in_words)


def bowl(sigma: np.ndarray, ratio: float, rows: float, spike: float = EXAMPLE_SPIKE) -> np.ndarray:
    """What a weight with mean 0 pays for its scale, in nats: R* (sbnn-profile) and half of rows times sigma^2.

    Args:
        sigma: posterior scales, positive.
        ratio: log(tau_1 / tau_0); pi is 1/2.
        rows: how many rows of data see the weight, each with precision 1; all of them say 0.
        spike: tau_0.
    """
    s = torch.as_tensor(np.asarray(sigma, dtype=float))
    prior = mixture(ratio + math.log(spike), math.log(spike), 0.5)
    return (bF.spike_slab_profile_penalty(torch.zeros_like(s), s, prior) + 0.5 * rows * s.square()).numpy()


@cache
def homes(ratio: float, rows: float, spike: float = EXAMPLE_SPIKE) -> tuple[list[float], list[float]]:
    """Scales at which `bowl` has a minimum, and at which it has a maximum between two of them.

    Args:
        ratio, rows, spike: as for `bowl`.
    """
    sigma = np.geomspace(_SIGMA[0], 2 * _SIGMA[1], 4001)
    slope = np.sign(np.diff(bowl(sigma, ratio, rows, spike)))
    turns = np.flatnonzero(slope[1:] != slope[:-1])
    low = [float(sigma[k + 1]) for k in turns if slope[k] < 0]
    return low, [float(sigma[k + 1]) for k in turns if slope[k] > 0]


def unseen(ratio: float, rows: int) -> Picture:
    """The price of a weight's scale when the data do not need it, and where gradient descent ends from every start.

    Args:
        ratio: log(tau_1 / tau_0) with tau_0 = 0.05.
        rows: of data that see the weight and say that it is 0.
    """
    sigma = np.geomspace(*_SIGMA, 101)
    low, high = homes(ratio, rows)
    least = min(bowl(np.array(low), ratio, rows))
    price = [
        Line(sigma, bowl(sigma, ratio, rows) - least, look="ink"),
        Points(low, bowl(np.array(low), ratio, rows) - least, "home", 0, size=11),
        Points(high, bowl(np.array(high), ratio, rows) - least if high else [], "border", 1, size=9, hollow=True),
    ]
    edges = [_SIGMA[0], *high, _SIGMA[1]]
    ends = [
        value
        for left, right, home in zip(edges[:-1], edges[1:], low, strict=True)
        for value in ((left, home), (right, home), (np.nan, np.nan))
    ]
    log_spike = math.log(EXAMPLE_SPIKE)
    shares = ", ".join(f"{float(inclusion_curve(s, ratio + log_spike, log_spike)):.2g}" for s in low)
    count = "two homes" if len(low) == 2 else "one home"
    scales = ", ".join(f"{s:.2g}" for s in low)
    across = {"xlim": _SIGMA, "xlog": True}
    return Picture(
        [
            Panel("price of a scale", price, "σ", "nats above the least", ylim=(0, 6), **across),
            Panel(
                "where it ends",
                [Line(*np.array(ends).T, look="ink")],
                "σ at the start",
                "σ at the end",
                ylim=(0.01, 10.0),
                ylog=True,
                **across,
            ),
        ],
        f"{count}: σ = {scales}\np* there: {shares}",
    )


def unseen_in_words(ratio: float, rows: int) -> str:
    """The alternative text of `unseen`."""
    low, high = homes(ratio, rows)
    if len(low) == 1:
        return f"With log(tau_1 / tau_0) = {ratio:g} and {rows} rows every start ends at sigma = {low[0]:.2g}."
    return (
        f"With log(tau_1 / tau_0) = {ratio:g} and {rows} rows the price has two minima, at sigma = {low[0]:.2g} and "
        f"{low[1]:.2g}; a start above {high[0]:.2g} ends at the second."
    )


def unseen_explorer() -> Explorer:
    """Knobs for the width of the slab and for the rows that say that the weight is zero."""
    controls = {
        "ratio": Control("log(τ₁ / τ₀)", CLOSE_RATIOS, 3.0, format="g"),
        "rows": Control("Rows", ROWS, 0),
    }
    return curves(unseen, controls, title="Where does an unneeded weight end?", alt=unseen_in_words)
