"""Pictures of stored results: inclusion probabilities of every method beside the exact ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from book import lab
from book.display.panels import missing
from book.display.style import INK, PALETTE, figure, panel_letters, style_context

DESIGNS = {"orthogonal": "orthogonal", "rho=0.9": "correlated"}
METHODS = {
    "Mean field": "mean field",
    "SVBNN": "relaxed gate",
    "sBNN": "closed form",
    "SGHMC-SA": "learned prior",
}


def stored_probabilities() -> Mapping[tuple[str, str], tuple[np.ndarray, np.ndarray]]:
    """{(design, method): (exact, said)} of all inputs of all problems of the experiment fnd-inclusion."""
    parts: dict = {}
    for (design, method, _, name), values in lab.stored_arrays("fnd-inclusion").items():
        parts.setdefault((design, method), {}).setdefault(name, []).append(np.ravel(values))
    return {key: tuple(np.concatenate(one[name]) for name in ("exact", "scores")) for key, one in parts.items()}


def inclusion(found: Mapping[tuple[str, str], tuple[np.ndarray, np.ndarray]] | None = None) -> Figure:
    """What the methods say over what is exact, one point an input: a row for each method, a column for each design.

    Args:
        found: by default `stored_probabilities`.
    """
    found = stored_probabilities() if found is None else found
    with style_context():
        fig, axes = figure(2, nrows=len(METHODS), height=2.2, sharex=True, sharey=True)
        for row, (method, words) in zip(axes, METHODS.items(), strict=True):
            for panel, (design, title) in zip(row, DESIGNS.items(), strict=True):
                panel.set(xlim=(-0.03, 1.03), ylim=(-0.05, 1.05), title=f"{words}, {title}")
                if (design, method) not in found:
                    missing(panel)
                    continue
                exact, said = found[design, method]
                panel.plot([0, 1], [0, 1], color=INK, lw=1, ls="--", marker="none")
                panel.plot(exact, said, "o", ms=4, alpha=0.45, color=PALETTE[0])
            row[0].set_ylabel("φ as said")
        for panel in axes[-1]:
            panel.set_xlabel("exact φ")
        panel_letters(axes)
    return fig
