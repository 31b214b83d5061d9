"""Pictures as numbers for the page: positions in 4,000ths of their axis, whatever is shared stored once.

A 4,000th is a tenth of a pixel on the widest panel. Sequences are stored as second differences, which for a smooth
curve are a few small integers that gzip packs to a fraction of a byte each.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from book.display.picture import Band, Bars, Item, Line, Panel, Picture, Points, Rule, Text, Values

UNIT = 4000
FAR = 250 * UNIT  # beyond this a position is off the panel in any case

# Markers around (0, 0) with radius 1, as relative paths; r is put in by `shape`.
_SHAPES = {
    "o": [("m", -1, 0), ("a", 1, 1, 0, 1, 0, 2, 0), ("a", 1, 1, 0, 1, 0, -2, 0)],
    "s": [("m", -0.9, -0.9), ("h", 1.8), ("v", 1.8), ("h", -1.8)],
    "^": [("m", -1, 0.85), ("l", 1, -1.85), ("l", 1, 1.85)],
    "D": [("m", -1.2, 0), ("l", 1.2, -1.2), ("l", 1.2, 1.2), ("l", -1.2, 1.2)],
    "v": [("m", -1, -0.85), ("l", 1, 1.85), ("l", 1, -1.85)],
    "P": [
        *(("m", -0.35, -1), ("h", 0.7), ("v", 0.65), ("h", 0.65), ("v", 0.7), ("h", -0.65)),
        *(("v", 0.65), ("h", -0.7), ("v", -0.65), ("h", -0.65), ("v", -0.7), ("h", 0.65)),
    ],
    "X": [
        *(("m", -1, -0.55), ("l", 0.45, -0.45), ("l", 0.55, 0.55), ("l", 0.55, -0.55), ("l", 0.45, 0.45)),
        *(("l", -0.55, 0.55), ("l", 0.55, 0.55), ("l", -0.45, 0.45), ("l", -0.55, -0.55), ("l", -0.55, 0.55)),
        *(("l", -0.45, -0.45), ("l", 0.55, -0.55)),
    ],
}
_DASHES = {"-": (), "--": (3.7, 1.6), "-.": (6.4, 1.6, 1, 1.6), ":": (1, 1.65)}  # matplotlib's, in line widths


def shape(marker: str, size: float) -> str:
    """The marker's outline around the current point, as the rest of an SVG path."""
    radius, path = size / 2, ""
    for command, *values in _SHAPES[marker]:
        scaled = [value if command == "a" and i in (2, 3, 4) else radius * value for i, value in enumerate(values)]
        path += command + " ".join(f"{value:.3g}" for value in scaled)
    return path + "z"


def dashes(style, width: float) -> str:
    """The line style as SVG's stroke-dasharray."""
    pattern = _DASHES[style] if isinstance(style, str) else style[1]
    return " ".join(f"{width * part:.3g}" for part in pattern)


def positions(values: Values, limits: tuple[float, float], log: bool) -> np.ndarray:
    """Places on the axis in units of 1/4,000 of its length from its least value; NaN where the axis has no place."""
    low, high = limits
    values = np.asarray(values, dtype=float)
    if log:
        values = np.where(values > 0, values, np.nan)
        values, low, high = np.log(values), np.log(low), np.log(high)
    places = np.where(np.isfinite(values), UNIT * (values - low) / (high - low), np.nan)
    return np.clip(np.round(places), -FAR, FAR)


class _Pool(dict):
    """What has been stored, by its JSON text; a second copy gets the number of the first."""

    def add(self, value) -> int:
        return self.setdefault(json.dumps(value, ensure_ascii=False), len(self))

    def values_in_order(self) -> list:
        return [json.loads(text) for text in self]


class _Store:
    def __init__(self):
        self.arrays, self.styles, self.items, self.panels, self.axes, self.headings = (_Pool() for _ in range(6))

    def array(self, places: np.ndarray) -> int:
        twice = np.diff(np.diff(places.astype(int), prepend=0), prepend=0)
        return self.arrays.add(twice.tolist())

    def axis(self, panel: Panel, direction: str) -> int:
        ticks = panel.ticks(direction)
        limits = (getattr(panel, f"{direction}lim"), getattr(panel, f"{direction}log"))
        return self.axes.add([positions(list(ticks), *limits).astype(int).tolist(), list(ticks.values())])

    def item(self, item: Item, panel: Panel) -> int:
        """[style, [numbers of arrays], further data]: how it looks is mostly shared, where it stands is not."""

        def x(values):
            return positions(values, panel.xlim, panel.xlog)

        def y(values):
            return positions(values, panel.ylim, panel.ylog)

        arrays, more = [], []
        if isinstance(item, Line | Points):
            arrays = [x(item.x), y(item.y)]
        elif isinstance(item, Band):
            arrays = [x(item.x), y(item.high), y(item.low)]
        elif isinstance(item, Bars):
            low = np.full_like(item.height, panel.ylim[0] if panel.ylog else 0.0)
            arrays = [x(item.x - item.width / 2), y(item.height), y(low), x(item.x + item.width / 2)]
        elif isinstance(item, Rule):
            arrays = [place([] if at is None else [at]) for place, at in ((x, item.x), (y, item.y))]
        else:
            arrays, more = [x([item.x]), y([item.y])], [item.text]
            if not np.isfinite(arrays).all():
                raise ValueError(f"panel {panel.title!r}: Text {item.text!r} stands at no place of the axes")
        known = np.isfinite([one for one in arrays if one.size] or [[]]).all(0)
        if isinstance(item, Line):
            edges = np.flatnonzero(np.diff(known.astype(int), prepend=0, append=0))
            more = [(edges[1::2] - edges[::2]).tolist()] if len(edges) > 2 else []
        numbers = [self.array(one[known] if one.size else one) for one in arrays]
        return self.items.add([self.styles.add(_style(item)), numbers, *more])

    def panel(self, panel: Panel) -> int:
        items = [self.item(item, panel) for item in panel.items]
        return self.panels.add([self.axis(panel, "x"), self.axis(panel, "y"), items])


def _style(item: Item) -> dict:
    found = {"kind": type(item).__name__.lower(), "look": str(item.look)}
    if isinstance(item, Line | Rule):
        found |= {"width": item.width, "dash": dashes(item.style, item.width)}
    elif isinstance(item, Points):
        found |= {"shape": shape(item.shape, item.size)}
    elif isinstance(item, Text):
        found |= {"anchor": item.anchor}
    if getattr(item, "alpha", 1.0) != 1.0:
        found["alpha"] = item.alpha
    if getattr(item, "hollow", False):
        found["hollow"] = 1
    return found


def _settle(values: list, references: Iterable[int]) -> tuple[list, list]:
    """(values that several refer to, what each reference becomes): the number of such a value, else the value itself.

    Numbers that count upwards would take more bytes than the values that they stand for.
    """
    uses, kept, found = Counter(references), [], []
    for number, value in enumerate(values):
        found.append(len(kept) if uses[number] > 1 else value)
        if uses[number] > 1:
            kept.append(value)
    return kept, found


def encode(pictures: Sequence[Picture]) -> dict:
    """What the page's script draws from.

    Returns:
        {"arrays", "styles", "items", "axes", "panels", "headings", "stops": [[heading, panel, ...] of each picture]}.
        A panel is [x axis, y axis, items], an item [style, arrays, further data]. Panels, items and arrays are given
        by their number if several share them, else in place; the others always by their number.
    """
    store = _Store()
    stops = [[store.headings.add(one.heading), *(store.panel(panel) for panel in one.panels)] for one in pictures]
    items, panels = store.items.values_in_order(), store.panels.values_in_order()
    arrays, found = _settle(store.arrays.values_in_order(), [number for item in items for number in item[1]])
    items = [[style, [found[number] for number in own], *more] for style, own, *more in items]
    items, found = _settle(items, [number for panel in panels for number in panel[2]])
    panels = [[xaxis, yaxis, [found[number] for number in own]] for xaxis, yaxis, own in panels]
    panels, found = _settle(panels, [number for stop in stops for number in stop[1:]])
    return {
        "arrays": arrays,
        "styles": store.styles.values_in_order(),
        "items": items,
        "axes": store.axes.values_in_order(),
        "panels": panels,
        "headings": store.headings.values_in_order(),
        "stops": [[heading, *(found[number] for number in own)] for heading, *own in stops],
    }
