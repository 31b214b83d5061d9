"""A picture as data: panels of lines, points, bars, bands and words that matplotlib and the page draw alike.

Coordinates are those of the panel's axes. A look is the number of a color of the palette (0 to 6), which also decides
line style and marker, or "ink" or "gray". Widths and sizes are CSS pixels.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from matplotlib.ticker import LogLocator, MaxNLocator

from book.display.style import INK, LINES, MARKERS, PALETTE

# The colors in light and in dark mode; tests/book/display/test_style.py measures both.
LOOKS = (*map(str, range(len(PALETTE))), "ink", "gray")
LIGHT = dict(zip(LOOKS, (*PALETTE, INK, "#6b6b6b"), strict=True))
_DARK = ("#4fa1cb", "#ff7e1e", "#3be0a0", "#f2f2f2", "#b762ff", "#a8703f", "#919f92", "#e6e6e6", "#a3a3a3")
DARK = dict(zip(LOOKS, _DARK, strict=True))

Values = Sequence[float] | np.ndarray


def _numbers(item, *fields: str) -> None:
    """Turn the fields into float arrays of one length; a single number is repeated."""
    arrays = [np.asarray(getattr(item, field), dtype=float) for field in fields]
    if any(one.ndim > 1 for one in arrays):
        shapes = {field: one.shape for field, one in zip(fields, arrays, strict=True)}
        raise ValueError(f"{type(item).__name__}: the coordinates have shapes {shapes}; give flat sequences of numbers")
    lengths = {one.size for one in arrays if one.ndim}
    if len(lengths) > 1:
        sizes = {field: one.size for field, one in zip(fields, arrays, strict=True)}
        raise ValueError(f"{type(item).__name__}: the coordinates have lengths {sizes}; give as many of each")
    length = lengths.pop() if lengths else 1
    for field, one in zip(fields, arrays, strict=True):
        object.__setattr__(item, field, np.broadcast_to(one, (length,)) if one.ndim == 0 else one)


class _Item:
    """What the items of a panel share: coordinates become float arrays of one length, and a look is one of `LOOKS`."""

    _coordinates: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if str(self.look) not in LOOKS:
            raise ValueError(f"{type(self).__name__}: look {self.look!r} is not known: use {', '.join(LOOKS)}")
        if self._coordinates:
            _numbers(self, *self._coordinates)

    def _own(self, chosen: int | None) -> int:
        """The number of the line style or marker: the chosen one, or the look's own."""
        return (int(self.look) if str(self.look).isdigit() else 0) if chosen is None else chosen


@dataclass(frozen=True, eq=False)
class Line(_Item):
    """A line through the points; NaN leaves a gap. `dash` numbers the line style, the look's own if omitted."""

    x: Values
    y: Values
    name: str = ""
    look: int | str = 0
    dash: int | None = None
    width: float = 2.4
    alpha: float = 1.0

    _coordinates = ("x", "y")

    style = property(lambda self: LINES[self._own(self.dash)], doc="The line style as matplotlib has it.")


@dataclass(frozen=True, eq=False)
class Points(_Item):
    """Markers at the points, outlines if hollow. `marker` numbers the shape, the look's own if omitted."""

    x: Values
    y: Values
    name: str = ""
    look: int | str = 0
    marker: int | None = None
    size: float = 8.0
    hollow: bool = False
    alpha: float = 1.0

    _coordinates = ("x", "y")

    shape = property(lambda self: MARKERS[self._own(self.marker)], doc="The marker as matplotlib has it.")


@dataclass(frozen=True, eq=False)
class Bars(_Item):
    """Upright bars to `height` from 0 or an axis' end; hollow ones are outlines, so that color is not the only sign."""

    x: Values
    height: Values
    name: str = ""
    look: int | str = 0
    width: float = 0.8
    hollow: bool = False

    _coordinates = ("x", "height")


@dataclass(frozen=True, eq=False)
class Band(_Item):
    """The area between `low` and `high`."""

    x: Values
    low: Values | float
    high: Values | float
    name: str = ""
    look: int | str = 0
    alpha: float = 0.22

    _coordinates = ("x", "low", "high")


@dataclass(frozen=True, eq=False)
class Rule(_Item):
    """A thin line across the whole panel: upright at `x`, or level at `y`; with neither, nothing but its name."""

    x: float | None = None
    y: float | None = None
    name: str = ""
    look: int | str = "ink"
    dash: int = 3
    width: float = 1.4

    def __post_init__(self) -> None:
        if self.x is not None and self.y is not None:
            raise ValueError(f"Rule: x={self.x} and y={self.y} are given; a rule stands at one of them")
        super().__post_init__()

    style = property(lambda self: LINES[self.dash], doc="The line style as matplotlib has it.")


@dataclass(frozen=True, eq=False)
class Text(_Item):
    """Words at a place; `anchor` says which part of them stands there: start, middle or end."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    look: int | str = "ink"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.anchor not in ("start", "middle", "end"):
            raise ValueError(f"Text: anchor {self.anchor!r} is not known: use start, middle or end")


Item = Line | Points | Bars | Band | Rule | Text


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes.

    Args:
        title: the same at every stop; what changes belongs into the picture's heading.
        items: what is drawn, the last one on top.
        xlabel, ylabel: of the axes.
        xlim, ylim: (least, greatest) value; `span` finds them for arrays.
        xlog, ylog: True for logarithmic axes.
        xticks, yticks: values, or {value: text}; chosen by matplotlib's rules when omitted, none if empty.
        axes: False leaves out axes and ticks, for the drawing of a network.

    Raises:
        ValueError: for limits that no axis can have, or an item of another kind.
    """

    title: str
    items: Sequence[Item]
    xlabel: str = ""
    ylabel: str = ""
    xlim: tuple[float, float] = (0.0, 1.0)
    ylim: tuple[float, float] = (0.0, 1.0)
    xlog: bool = False
    ylog: bool = False
    xticks: Iterable[float] | Mapping[float, str] | None = None
    yticks: Iterable[float] | Mapping[float, str] | None = None
    axes: bool = True

    def __post_init__(self) -> None:
        for name, (low, high), log in (("xlim", self.xlim, self.xlog), ("ylim", self.ylim, self.ylog)):
            if not (np.isfinite([low, high]).all() and low < high and (low > 0 or not log)):
                positive = "positive, " if log else ""
                raise ValueError(
                    f"panel {self.title!r}: {name}={(low, high)}; give two finite, {positive}rising numbers"
                )
        for item in self.items:
            if not isinstance(item, Item):
                raise ValueError(f"panel {self.title!r}: {type(item).__name__} is not an item; use {Item}")

    def ticks(self, direction: str) -> dict[float, str]:
        """{value: text} of the ticks of "x" or "y" within the limits."""
        low, high = getattr(self, f"{direction}lim")
        log, given = getattr(self, f"{direction}log"), getattr(self, f"{direction}ticks")
        if not self.axes:
            return {}
        if isinstance(given, Mapping):
            return dict(given)
        if given is None and log:
            subs, most = ((1.0,), 6) if np.log10(high / low) > 2.5 else ((1.0, 2.0, 5.0), 9)
            given = LogLocator(subs=subs, numticks=most).tick_values(low, high)
        elif given is None:
            given = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        scale = np.log if log else float
        first, last = scale(low), scale(high)
        room = 1e-9 * (last - first)
        shown = (at for at in given if not log or at > 0)
        return {float(at): number(at) for at in shown if first - room <= scale(at) <= last + room}


@dataclass(frozen=True, eq=False)
class Picture:
    """Panels that move together, and lines above them that say what these settings amount to."""

    panels: Sequence[Panel]
    heading: str = ""


def number(value: float) -> str:
    """A number on an axis, as people write it: 0.01, 2,500, 10⁻⁴."""
    exponent = np.log10(abs(value)) if value else 0.0
    if abs(exponent) > 3.5 and abs(exponent - round(exponent)) < 1e-9:
        return "10" + str(round(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    if abs(exponent) > 5:
        return f"{value:.3g}".replace("e-0", "e-").replace("e+0", "e").replace("-", "−")
    # Twelve digits, not six: 0.30000000000000004 is 0.3, and 123,456 is not 123,000.
    return f"{round(float(value), 12):,.6g}".replace("-", "−")


def span(*values: Values, log: bool = False) -> tuple[float, float]:
    """Limits of an axis that shows all of these numbers with a margin; the same arrays give the same axis."""
    flat = np.concatenate([np.ravel(np.asarray(one, dtype=float)) for one in values])
    flat = flat[np.isfinite(flat) & ((flat > 0) | (not log))]
    low, high = (np.log(flat.min()), np.log(flat.max())) if log else (flat.min(), flat.max())
    room = 0.05 * (high - low) or 0.5
    ends = np.array([low - room, high + room])
    return tuple(float(end) for end in (np.exp(ends) if log else ends))
