"""A picture drawn by matplotlib: for the live explorer, for print, and where a page runs no scripts."""

import math

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from book.display.picture import LIGHT, Band, Bars, Item, Line, Panel, Picture, Points, Rule
from book.display.style import PANEL_WIDTH, panel_letters, style_context

POINT = 0.75  # points in a CSS pixel
LIGHT_GROUND = "white"
_ANCHOR = {"start": "left", "middle": "center", "end": "right"}


def names(panel: Panel) -> list[Item]:
    """The items that the legend names, each name once."""
    found: dict[str, Item] = {}
    for item in panel.items:
        if name := getattr(item, "name", ""):
            found.setdefault(name, item)
    return list(found.values())


def _legend_columns(named: list[Item]) -> int:
    return 2 if max((len(item.name) for item in named), default=0) < 12 else 1


def draw(picture: Picture) -> Figure:
    """The picture as a figure whose size depends on the number of panels and names alone."""
    count = len(picture.panels)
    columns = min(2, count)
    rows = math.ceil(count / columns)
    legends = max(math.ceil(len(named) / _legend_columns(named)) for named in map(names, picture.panels))
    height = 2.75 if columns == 2 else 3.3
    size = (PANEL_WIDTH[columns], rows * (height + 0.2 * legends) + 0.25 * (1 + picture.heading.count("\n")))
    with style_context():
        fig, axes = plt.subplots(rows, columns, figsize=size, squeeze=False)
        for axis, panel in zip(axes.flat, picture.panels, strict=False):
            _panel(axis, panel)
        for unused in axes.flat[count:]:
            unused.remove()
        if count > 1:
            panel_letters(axes.flat[:count])
        if picture.heading:
            fig.suptitle(picture.heading, size="medium")
    return fig


def _panel(axes: Axes, panel: Panel) -> None:
    axes.set_xscale("log" if panel.xlog else "linear")
    axes.set_yscale("log" if panel.ylog else "linear")
    for item in panel.items:
        _item(axes, item, panel)
    axes.set(xlim=panel.xlim, ylim=panel.ylim, title=panel.title, xlabel=panel.xlabel, ylabel=panel.ylabel)
    for direction in "xy":
        ticks = panel.ticks(direction)
        axis = getattr(axes, f"{direction}axis")
        axis.set_ticks(list(ticks), list(ticks.values()))
        axis.set_ticks([], minor=True)
    if not panel.axes:
        axes.set_axis_off()
    if named := names(panel):
        handles = {handle.get_label(): handle for handle in axes.get_legend_handles_labels()[0]}
        below = axes.transAxes + ScaledTranslation(0, -38 / 72, axes.figure.dpi_scale_trans)
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": below}
        axes.legend(
            [handles[item.name] for item in named], [item.name for item in named], ncols=_legend_columns(named), **place
        )


def _item(axes: Axes, item: Item, panel: Panel) -> None:
    color, name = LIGHT[str(item.look)], getattr(item, "name", "") or "_"
    if isinstance(item, Line):
        look = {"ls": item.style, "lw": POINT * item.width, "alpha": item.alpha, "marker": "none"}
        axes.plot(item.x, item.y, color=color, label=name, **look)
    elif isinstance(item, Points):
        size, face = POINT * item.size, LIGHT_GROUND if item.hollow else color
        look = {"marker": item.shape, "ms": size, "mfc": face, "mec": color, "mew": 1.2 * POINT, "alpha": item.alpha}
        axes.plot(item.x, item.y, ls="none", label=name, color=color, **look)
    elif isinstance(item, Bars):
        face = "none" if item.hollow else color
        look = {"facecolor": face, "edgecolor": color, "linewidth": 1.5 * POINT if item.hollow else 0, "label": name}
        base = panel.ylim[0] if panel.ylog else 0.0
        axes.bar(item.x, item.height - base, item.width, base, **look)
    elif isinstance(item, Band):
        axes.fill_between(item.x, item.low, item.high, color=color, alpha=item.alpha, lw=0, label=name)
    elif isinstance(item, Rule):
        look = {"color": color, "ls": item.style, "lw": POINT * item.width, "marker": "none"}
        if item.x is None and item.y is None:
            axes.plot([], [], label=name, **look)
        else:
            (axes.axhline if item.x is None else axes.axvline)(item.y if item.x is None else item.x, label=name, **look)
    else:
        ground = {"facecolor": LIGHT_GROUND, "edgecolor": "none", "alpha": 0.8, "pad": 1}
        place = {"ha": _ANCHOR[item.anchor], "va": "center", "clip_on": True}
        axes.text(item.x, item.y, item.text, color=color, size="small", bbox=ground, **place)
