"""From rows of `bnnlib.store.compare` to curves: what the pictures of results of the third paper share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from bnnlib import store

Rows = Sequence[Mapping]


def compared(name: str, rows: Rows | None) -> Rows:
    """The rows given, or those of the store."""
    return store.compare(name) if rows is None else rows


def cell(rows: Rows, setting: str, method: str, metric: str) -> tuple[float, float, float]:
    """(our mean, its standard error, published); NaN for what does not exist, and for ours at the smoke profile."""
    for row in rows:
        if (row["setting"], row["method"], row["metric"]) == (setting, method, metric):
            ours = (None, None) if row["profile"] == "smoke" else (row["mean"], row["se"])
            return tuple(np.nan if value is None else float(value) for value in (*ours, row["published"]))
    return np.nan, np.nan, np.nan


def series(rows: Rows, settings: Mapping[float, str], method: str, metric: str) -> np.ndarray:
    """Columns (place, our mean, its standard error, published) of one metric over the settings, shape (settings, 4)."""
    found = [(place, *cell(rows, setting, method, metric)) for place, setting in sorted(settings.items())]
    return np.array(found, dtype=float).reshape(-1, 4)


def settings_over(rows: Rows, pattern: str) -> dict[float, str]:
    """{number: setting} of all settings that the pattern matches as a whole; its first group is the number."""
    matches = [(re.fullmatch(pattern, row["setting"]), row["setting"]) for row in rows]
    return dict(sorted((float(match[1]), setting) for match, setting in matches if match))


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
