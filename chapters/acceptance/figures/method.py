"""Pictures of the method: what is shared, the trade of a random walk, and what a learned proposal looks like."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from book.display.style import INK, PALETTE, figure, line_styles, panel_letters, style_context
from chapters.acceptance.targets import MODES, mode_centers


def walk(scales: Sequence[float], acceptance: Sequence[float], share: Sequence[float], independent: Sequence[float]):
    """Acceptance rate and effective draws of a random walk over its scale, beside an independent proposal.

    Args:
        scales: standard deviations of a step.
        acceptance: rates, one a scale.
        share: effective draws a draw, one a scale.
        independent: the two numbers of an independent proposal.
    """
    with style_context():
        fig, panel = figure(height=3.2)
        looks = line_styles(["acceptance rate", "effective draws per draw"])
        for values, point, (name, look) in zip((acceptance, share), independent, looks.items(), strict=True):
            panel.plot(scales, values, **look)
            label = f"independent: {name.split()[0]} {point:.2f}"
            panel.axhline(point, color=look["color"], lw=1.4, ls=(0, (1, 1 if name[0] == "a" else 3)), label=label)
        panel.set(xscale="log", xlabel="standard deviation of a step", ylabel="share", ylim=(0, 1.05))
        fig.legend(loc="outside lower center", ncols=2, fontsize="small")
    return fig


def learned(found: Mapping[str, np.ndarray], p: np.ndarray, grid: np.ndarray, captions: Mapping[str, str]) -> Figure:
    """What Gaussian each objective finds for a target on the line.

    Args:
        found: objective to density on the grid.
        p: density of the target.
        grid: points.
        captions: what stands in the legend for each objective.
    """
    with style_context():
        fig, panel = figure(height=3.2)
        panel.fill_between(grid, p, color=INK, alpha=0.15, lw=0, label="target")
        for name, look in line_styles(list(found), markers=False).items():
            panel.plot(grid, found[name], **look | {"label": captions[name]})
        panel.set(xlabel="x", ylabel="density", ylim=(0, None), xlim=(grid[0], grid[-1]))
        panel.legend(fontsize="small", loc="upper right")
    return fig


def ring(panel: Axes) -> None:
    """Mark the six centers."""
    x, y = mode_centers().numpy().T
    panel.plot(x, y, "+", color=PALETTE[1], ms=9, mew=1.6, ls="none", label=f"{MODES} centers")
    panel.set(xlim=(-8, 8), ylim=(-8, 8), aspect="equal", xlabel="$x_1$", ylabel="$x_2$")


def scatter(points: Mapping[str, np.ndarray]) -> Figure:
    """Points on the plane, a panel for each name, with the six centers."""
    with style_context():
        fig, axes = figure(len(points), height=2.9, squeeze=False)
        for panel, (name, xy) in zip(axes[0], points.items(), strict=True):
            panel.plot(*xy.T, ".", ms=2, alpha=0.4, color=PALETTE[0])
            ring(panel)
            panel.set_title(name)
            panel.grid(visible=False)
        panel_letters(axes[0])
    return fig
