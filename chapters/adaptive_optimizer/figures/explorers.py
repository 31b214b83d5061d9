"""The explorer of the chapter: two penalties and the number of observations, and what becomes of three groups."""

import math
from functools import cache

import numpy as np

from bnnlib.functional import group_threshold
from book.display.control import Control
from book.display.explorer import Explorer, curves
from book.display.picture import Line, Panel, Picture, Points, Rule

# root mean square of a group in the data without a penalty: the effect, and its error in standard errors
GROUPS = {"strong": (0.5, 0.0), "weak": (0.12, 0.0), "none": (0.0, 1.5)}
EPOCHS, WARM_UP, START, RATE = 40, 12, 0.02, 0.12
_SIZES = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000)
_SPIKES = (0.01, 0.02, 0.04, 0.07, 0.1, 0.2, 0.4, 0.7, 1.0, 2.0, 4.0, 7.0)
_SLABS = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 2e-4, 4e-4, 7e-4, 1e-3, 2e-3, 4e-3, 7e-3)
_ENDS = np.array([_SIZES[0], _SIZES[-1]], dtype=float)  # straight lines on logarithmic axes
_LOW = 1e-8  # the bottom of the axes of mean squares


def aim(group: str, num_data: int) -> float:
    """Root mean square at which a group rests without a penalty."""
    effect, errors = GROUPS[group]
    return math.hypot(effect, errors / math.sqrt(num_data))


@cache
def training(group: str, num_data: int, spike: float, slab: float) -> tuple[np.ndarray, int | None, bool]:
    """Mean square of a group by epoch in an orthogonal design with curvature 1, from the rule (avo-threshold).

    Args:
        group: of `GROUPS`.
        num_data: N.
        spike, slab: the two decays.

    Returns:
        The path with NaN once the group is removed, the epoch of its removal or None, and whether it ended in the slab.
    """
    rest = aim(group, num_data)
    soft = group_threshold(spike, slab, num_data)
    weight, decay, path = START, slab, []
    for epoch in range(EPOCHS):
        if epoch >= WARM_UP:
            if weight**2 < soft / 10:
                return np.array(path + [np.nan] * (EPOCHS - epoch)), epoch, False
            decay = spike if weight**2 < soft else slab
        path.append(weight**2)
        # the flow of an epoch, exact, so that a large decay is stable
        weight += (rest / (1 + decay) - weight) * -math.expm1(-RATE * (1 + decay))
    return np.array(path), None, weight**2 >= soft


def picture(num_data: int, spike: float, slab: float) -> Picture:
    """The threshold over N with the groups' mean squares, and the groups' paths with what removes them.

    Args:
        num_data: N.
        spike, slab: the two decays.
    """
    soft = group_threshold(spike, slab, num_data)
    errors = GROUPS["none"][1]
    over = [
        Line(_ENDS, soft * num_data / _ENDS, "threshold", "ink", dash=1),
        Line(_ENDS, errors**2 / _ENDS, "no effect", 2),
        Rule(x=num_data),
        Points([num_data] * len(GROUPS), [aim(name, num_data) ** 2 for name in GROUPS], "groups", "ink", marker=0),
    ]
    paths, gone = [Rule(y=soft, dash=1), Rule(y=soft / 10, dash=3), Rule(x=WARM_UP, look="gray")], []
    for look, name in enumerate(GROUPS):
        path, removed, _ = training(name, num_data, spike, slab)
        paths.append(Line(np.arange(EPOCHS), path, name, look))
        if removed is not None:
            gone.append((removed - 1, path[removed - 1]))
    paths.append(Points(*np.reshape(gone, (-1, 2)).T, look="ink", marker=6, size=11))
    return Picture(
        [
            Panel("threshold", over, "N", "mean square", (90, 550_000), (_LOW, 10), xlog=True, ylog=True),
            Panel("training", paths, "epoch", "mean square", (0, EPOCHS), (_LOW, 10), ylog=True),
        ],
        f"soft threshold {soft:.2g}, hard threshold {soft / 10:.2g}\n{_ends(num_data, spike, slab)}",
    )


def _ends(num_data: int, spike: float, slab: float) -> str:
    """What became of each group."""
    ends = []
    for name in GROUPS:
        _, removed, kept = training(name, num_data, spike, slab)
        ends.append(f"{name}: {'slab' if kept else 'spike'}" if removed is None else f"{name}: removed at {removed}")
    return "; ".join(ends)


def in_words(num_data: int, spike: float, slab: float) -> str:
    """The alternative text of `picture`."""
    soft = group_threshold(spike, slab, num_data)
    return (
        f"With {num_data:,} observations and decays {spike:g} and {slab:g} the threshold is {soft:.2g}. "
        f"After {EPOCHS} epochs, {_ends(num_data, spike, slab)}."
    )


def threshold_explorer() -> Explorer:
    """Knobs for the number of observations and the two decays."""
    controls = {
        "num_data": Control("Observations N", _SIZES, 1000, format=","),
        "spike": Control("Decay of the spike", _SPIKES, 1.0, format="g"),
        "slab": Control("Decay of the slab", _SLABS, 1e-3, format="g"),
    }
    return curves(picture, controls, title="Which inputs survive?", alt=in_words)
