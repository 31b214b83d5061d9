"""What pictures of results share: an empty panel, an axis of errors, a method's curve beside the published one."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter


def missing(panel: Axes, empty: bool = True) -> None:
    """Write "not run" into a panel; an empty one loses its ticks, which would mean nothing.

    Args:
        panel: to write into.
        empty: False if it shows published values, which words inside the panel would hide.
    """
    if not empty:
        panel.text(1, 1.015, "ours: not run", transform=panel.transAxes, ha="right", va="bottom", size="small")
        return
    panel.text(0.5, 0.5, "not run", transform=panel.transAxes, ha="center", va="center", size="large")
    panel.tick_params(which="both", left=False, bottom=False, labelleft=False, labelbottom=False)
    panel.grid(visible=False)


def legend_below(fig: Figure, panels: Axes | np.ndarray, **look) -> None:
    """One legend of all panels below them, each name once; none where nothing has a name."""
    known = {}
    for panel in np.ravel(panels):
        known |= dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    if known:
        fig.legend(known.values(), known.keys(), loc="outside lower center", **look)


def log_axis(panel: Axes) -> None:
    """A logarithmic vertical axis with plain numbers, also where it spans less than a factor of ten."""
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
    panel.yaxis.set_major_formatter("{x:g}")
    panel.yaxis.set_minor_formatter(NullFormatter())


def draw(panel: Axes, columns: np.ndarray, look: Mapping) -> bool:
    """One method's curve with its standard errors, published values as open markers; True if there is one of ours."""
    place, ours, error, published = columns.T
    known = np.isfinite(ours)
    if known.any():
        panel.errorbar(place[known], ours[known], np.nan_to_num(error[known]), capsize=2, **look)
    printed = np.isfinite(published)
    if printed.any():
        open_marker = {"linestyle": "none", "mfc": "white", "ms": 8, "label": "_published", "zorder": 1}
        panel.plot(place[printed], published[printed], **look | open_marker)
    return bool(known.any())


def replicate_points(
    panel: Axes, values: np.ndarray, place: float, color: str, *, upright: bool = False, width: float = 0.09, **look
) -> None:
    """Single replicates as small translucent points, spread a little around their place; the same each time.

    Values that are not finite are left out. They run along the vertical axis where `upright`; `width` is that of the
    spread to each side in units of `place`, and `look` goes to seaborn's `stripplot`.
    """
    import seaborn as sns  # here: its import takes two seconds, and most chapters draw no replicates

    values = np.asarray(values, dtype=float)
    values = values[np.isfinite(values)]
    if not len(values):
        return
    places, axes = np.full(len(values), place), ("x", "y") if upright else ("y", "x")
    points = dict(zip(axes, (places, values), strict=True))
    look = {"size": 3.5, "alpha": 0.35, "linewidth": 0, "zorder": 2} | look
    state = np.random.get_state()  # seaborn's jitter comes from NumPy's global generator
    np.random.seed(len(values))
    try:
        sns.stripplot(
            **points, orient=axes[0], native_scale=True, jitter=width, color=color, legend=False, ax=panel, **look
        )
    finally:
        np.random.set_state(state)
