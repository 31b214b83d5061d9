"""The one look of all figures: readable on a phone, in dark mode, in print and without color vision.

Seaborn draws with the same matplotlib settings, so its plots follow the theme as well.
"""

import string
from collections.abc import Iterable, Sequence
from functools import partial

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation

# Each color has a contrast of at least 3 : 1 against the white card, and every pair stays apart under simulated
# protanopia, deuteranopia and tritanopia (tests/book/display/test_style.py computes both).
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#222222", "#941CEC", "#682C00", "#6A6B8A")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (2, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

INK = "#222222"
PANEL_WIDTH = {1: 5.1, 2: 6.8, 3: 8.6}  # a single panel fits a phone with words that can be read
FONT_SIZE = 12.0

RC = {
    "font.family": "DejaVu Sans",  # shipped with matplotlib, so a figure is the same on every machine
    "font.size": FONT_SIZE,
    **dict.fromkeys(("axes.titlesize", "axes.labelsize"), FONT_SIZE),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), FONT_SIZE - 1),
    "legend.fontsize": FONT_SIZE - 1.5,
    **dict.fromkeys(("figure.facecolor", "savefig.facecolor", "axes.facecolor"), "white"),
    "figure.dpi": 100,
    "figure.constrained_layout.use": True,
    "axes.prop_cycle": cycler(color=PALETTE) + cycler(linestyle=LINES) + cycler(marker=MARKERS),
    "axes.spines.top": False,
    "axes.spines.right": False,
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color"), INK),
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#D9D9D9",
    "grid.linewidth": 0.7,
    "lines.linewidth": 2.0,
    "lines.markersize": 6.0,
    "legend.frameon": True,
    "legend.framealpha": 0.85,
    "legend.edgecolor": "none",
    "legend.handlelength": 2.8,  # long enough to tell the line styles apart
    "image.cmap": "cividis",
    "svg.hashsalt": "bnnlib",  # without it the ids inside an SVG differ from run to run
    "svg.fonttype": "path",
}


# The book's theme for the length of a `with` block; the settings before it come back afterwards.
style_context = partial(mpl.rc_context, RC)


def figure(ncols: int = 1, nrows: int = 1, height: float = 3.4, **subplots) -> tuple[Figure, Axes | np.ndarray]:
    """A figure whose text stays readable when the page is as narrow as a phone.

    Args:
        ncols: panels side by side, 1 to 3; two is the most that a phone still shows well.
        nrows: rows of panels.
        height: height of one row in inches.
        subplots: further arguments of `matplotlib.pyplot.subplots`, e.g. `sharey=True`.

    Returns:
        (figure, axes): one Axes for a single panel, else an array of shape (ncols,), (nrows,) or (nrows, ncols).

    Raises:
        ValueError: for more than three columns.
    """
    if ncols not in PANEL_WIDTH:
        raise ValueError(f"ncols={ncols} is not possible: use 1, 2 or 3 columns and add rows with nrows=")
    with style_context():
        return plt.subplots(nrows, ncols, figsize=(PANEL_WIDTH[ncols], height * nrows), **subplots)


def line_styles(names: Sequence[str], markers: bool = True) -> dict[str, dict]:
    """Give each name its color, line style and marker, so that a method looks the same in every figure.

    Args:
        names: at most seven distinct names; their order decides.
        markers: False leaves the marker out, for curves that are dense in points.

    Returns:
        {name: keyword arguments of `Axes.plot`, label included}.

    Raises:
        ValueError: for repeated names or more names than there are distinct looks.
    """
    names = list(names)
    if len(set(names)) != len(names):
        raise ValueError(f"names has repeated entries: {names}; give each name once")
    if len(names) > len(PALETTE):
        raise ValueError(f"{len(names)} names given, {len(PALETTE)} can be told apart: split the figure into panels")
    return {
        name: {"label": name, "color": color, "linestyle": line, "marker": marker if markers else "none"}
        for name, color, line, marker in zip(names, PALETTE, LINES, MARKERS, strict=False)
    }


def sparse_markers(axes: Axes, number: int = 8) -> None:
    """Leave about `number` markers on each line of more than 40 points, shifted so that no two lines' coincide."""
    dense = [line for line in axes.get_lines() if len(line.get_xdata()) > 40 and line.get_marker() not in ("None", "")]
    for i, line in enumerate(dense):
        step = max(1, len(line.get_xdata()) // number)
        line.set_markevery((i * step // max(1, len(dense)), step))


def panel_letters(axes: Axes | Iterable[Axes]) -> None:
    """Write a bold letter before each panel's title, in reading order, so that the text can say "panel b"."""
    panels = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    for panel, letter in zip(panels, string.ascii_lowercase, strict=False):
        title = panel.get_title(loc="left")
        panel.set_title(rf"$\mathbf{{{letter}}}$  {title}".rstrip(), loc="left")


def stand_alone(axes: Axes | Iterable[Axes]) -> None:
    """Give panels that share an axis each its numbers and words: a phone shows a panel without its neighbors."""
    for panel in np.ravel(axes):
        panel.tick_params(labelleft=True, labelbottom=True)
        for axis, group in (("xaxis", panel.get_shared_x_axes()), ("yaxis", panel.get_shared_y_axes())):
            words = [getattr(one, axis).get_label_text() for one in group.get_siblings(panel)]
            getattr(panel, axis).set_label_text(next(filter(None, words), ""))


def annotate(
    axes: Axes, text: str, xy: tuple[float, float], offset: tuple[float, float] = (24.0, 24.0), **kwargs
) -> Annotation:
    """Point at `xy` (data coordinates) with a short text `offset` points away, on a white ground.

    Returns:
        The matplotlib annotation.
    """
    return axes.annotate(
        text,
        xy,
        xytext=offset,
        textcoords="offset points",
        arrowprops={"arrowstyle": "->", "color": INK, "lw": 1.2, "shrinkB": 4},
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5},
        ha=kwargs.pop("ha", "left" if offset[0] >= 0 else "right"),
        va=kwargs.pop("va", "center"),
        **kwargs,
    )
