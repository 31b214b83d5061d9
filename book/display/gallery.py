"""A gallery of failures: what each way to go wrong looks like."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.path import Path

from book.display.style import figure, line_styles, panel_letters, sparse_markers, style_context


def covered(panel: Axes) -> bool:
    """Whether the legend of a drawn panel lies over one of its curves."""
    box = panel.get_legend().get_window_extent().padded(4)  # room for markers
    for line in panel.get_lines():
        places = panel.transData.transform(line.get_xydata())
        path = Path(places[np.isfinite(places).all(axis=1)])
        if len(path.vertices) and path.intersects_bbox(box, filled=False):
            return True
    return False


def make_room(panels: Sequence[Axes]) -> None:
    """Raise the tops of axes until each legend finds a place off the curves; done to a figure at last."""
    limits = [panel.get_ylim() for panel in panels]
    for share in (0.2, 0.4, 0.7, 1.0, 1.3):
        panels[0].figure.draw_without_rendering()
        crowded = [(panel, *ends) for panel, ends in zip(panels, limits, strict=True) if covered(panel)]
        for panel, low, high in crowded:
            panel.set_ylim(low, high + share * (high - low))
        if not crowded:
            return


def failures(panels: Sequence[tuple[str, str, str, Mapping[str, tuple[np.ndarray, np.ndarray]]]]) -> Figure:
    """A gallery: one small panel for each way to go wrong, two in a row.

    Args:
        panels: (title, x label, y label, {curve: (x, y)}) of each panel; NaN values leave a gap.
    """
    with style_context():
        fig, axes = figure(2, nrows=math.ceil(len(panels) / 2), height=2.5, squeeze=False)
        for panel, (title, xlabel, ylabel, curves) in zip(axes.flat, panels, strict=False):
            for (_, look), (x, y) in zip(line_styles(list(curves)).items(), curves.values(), strict=True):
                panel.plot(x, y, **look)
            panel.set(title=title, xlabel=xlabel, ylabel=ylabel)
            sparse_markers(panel, 5)
            panel.legend(loc="best", fontsize="small")  # unnamed, it warns where a machine is slow
        for unused in axes.flat[len(panels) :]:
            unused.remove()
        panel_letters(axes.flat[: len(panels)])
        make_room(axes.flat[: len(panels)])
    return fig
