"""Explorers: one picture with knobs that lives twice.

With a kernel, the knobs are ipywidgets and call the function that draws. In the rendered page (environment variable
BNN_STATIC=1 while the notebook runs), every stop is computed beforehand and native controls choose among them: no
kernel, no network, and without JavaScript still a picture. A stop is a whole vector picture (`explore`), or numbers
that the page draws itself (`curves`): sharp, in the colors of the theme, and small enough for many more stops.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from matplotlib.figure import Figure

from book.display import draw, live, page
from book.display import frames as _frames
from book.display.control import Control, Knobs
from book.display.data import encode
from book.display.picture import Picture


class Explorer(Knobs):
    """A picture with knobs; make it with `explore` or `curves`."""

    max_gzip_bytes: int

    def __init__(self, controls, *, title, alt, static=None):
        super().__init__(controls, title=title, alt=alt)
        self.static = os.environ.get("BNN_STATIC", "") not in ("", "0") if static is None else static

    def figure(self, **settings) -> Figure:
        """The picture at these settings, drawn by matplotlib."""
        raise NotImplementedError

    def _page(self) -> str:
        raise NotImplementedError

    @cached_property
    def _html(self) -> str:
        page = self._page()
        size = len(gzip.compress(page.encode(), mtime=0))
        if size > self.max_gzip_bytes:
            raise ValueError(
                f"explorer {self.title!r} takes {size / 1000:.0f} kB after gzip at {len(self.grid)} stops, a page may "
                f"take {self.max_gzip_bytes / 1000:.0f} kB: {self.advice}"
            )
        return page

    def to_html(self) -> str:
        """The static life: one self-contained HTML fragment without ids or outside requests.

        Raises:
            ValueError: as `explore` and `curves` say.
        """
        return self._html

    @property
    def gzip_bytes(self) -> int:
        """Size of the static life after gzip."""
        return len(gzip.compress(self.to_html().encode(), mtime=0))

    @cached_property
    def widget(self):
        """The live life: an ipywidgets box whose knobs draw the picture anew."""
        return live.box(self, self.figure)

    def __repr__(self) -> str:
        lines = [f"Explorer: {self.title}"]
        for control in self.controls.values():
            grid = control.static_values if self.static else control.values
            lines.append(
                f"  {control.label}: {control.text(grid[0])} to {control.text(grid[-1])} "
                f"({len(grid)} values), now {control.text(control.default)}"
            )
        return "\n".join([*lines, f"  {self.describe(self.defaults)}"])

    def _repr_mimebundle_(self, include=None, exclude=None):
        if self.static:
            return {"text/plain": repr(self), "text/html": self.to_html()}
        bundle = self.widget._repr_mimebundle_()
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**data, "text/plain": repr(self)}, metadata


class FramesExplorer(Explorer):
    """One whole vector picture for each stop; make it with `explore`."""

    max_stops = 120
    max_gzip_bytes = 500_000
    advice = (
        "give fewer `static_values`, draw artists of thousands of points with `rasterized=True`, or send data with "
        "`book.display.curves`"
    )

    def __init__(self, plot, controls, *, title, alt, static=None):
        super().__init__(controls, title=title, alt=alt, static=static)
        self.plot = plot

    def figure(self, **settings) -> Figure:
        """The picture at these settings, drawn by matplotlib."""
        return self.plot(**settings)

    @cached_property
    def frames(self) -> tuple[list[_frames.Frame], list[int]]:
        """(distinct frames, number of the frame for each point of the grid); computed once. Frame 0 is the default's.

        Raises:
            ValueError: for frames of different sizes or a knob that changes nothing.
        """
        first = _frames.vector(self.plot, self.defaults)
        known, index = {first: 0}, []
        for settings in self.grid:
            frame = first if settings == self.defaults else _frames.vector(self.plot, settings)
            if (frame.width, frame.height) != (first.width, first.height):
                raise ValueError(f"explorer {self.title!r}: the figure's size changes at {settings}; use one figsize")
            index.append(known.setdefault(frame, len(known)))
        self._refuse_dead_knobs(index)
        return list(known), index

    def _page(self) -> str:
        return page.frames_page(self, *self.frames)


class CurvesExplorer(Explorer):
    """Numbers for each stop, drawn in the page; make it with `curves`."""

    max_stops = 2000
    max_gzip_bytes = 100_000
    advice = "give fewer `static_values`, fewer points on a curve, or items that do not change with every knob"

    def __init__(self, compute, controls, *, title, alt, static=None):
        super().__init__(controls, title=title, alt=alt, static=static)
        self.compute = compute

    def picture(self, **settings) -> Picture:
        """The picture at these settings, as data.

        Raises:
            TypeError: when `compute` does not return a Picture.
        """
        found = self.compute(**settings)
        if not isinstance(found, Picture):
            raise TypeError(f"compute returned {type(found).__name__}, a Picture is needed: Picture([Panel(...), ...])")
        return found

    def figure(self, **settings) -> Figure:
        """The picture at these settings, drawn by matplotlib."""
        return draw.draw(self.picture(**settings))

    @cached_property
    def pictures(self) -> list[Picture]:
        """The picture of each point of the grid; computed once.

        Raises:
            ValueError: for titles, labels or names that change from stop to stop.
        """
        pictures = [self.picture(**settings) for settings in self.grid]
        words = [[(p.title, p.xlabel, p.ylabel, _legend(p)) for p in picture.panels] for picture in pictures]
        for settings, found in zip(self.grid, words, strict=True):
            if found != words[0]:
                raise ValueError(
                    f"explorer {self.title!r}: panels, titles, labels or names change at {settings}, and the page "
                    f"would jump: {found} there, {words[0]} at first; say what changes in the Picture's heading or in "
                    "a Text, and give an item that is gone empty coordinates"
                )
        return pictures

    def _page(self) -> str:
        data = encode(self.pictures)
        self._refuse_dead_knobs([json.dumps(stop) for stop in data["stops"]])
        return page.data_page(self, _frames.vector(self.figure, self.defaults, words="none"), self.pictures, data)


def _legend(panel) -> list[tuple]:
    return [(type(item).__name__, item.name, item.look) for item in draw.names(panel)]


def explore(
    plot: Callable[..., Any],
    controls: Mapping[str, Control | tuple],
    *,
    title: str,
    alt: str | Callable[..., str],
    static: bool | None = None,
) -> Explorer:
    """Show `plot` with a knob for each control, live or as a static page of vector pictures.

    For lines, points and bars use `curves`, which sends numbers and therefore has room for many more stops.

    Args:
        plot: function of the controls' names that returns a matplotlib Figure of the same size each time.
        controls: {argument of plot: Control or (label, values, default)}.
        title: heading of the explorer.
        alt: what the picture shows, in words: a function of the controls, or a text to which their values are added.
        static: True for the page, False for widgets; by default the environment variable BNN_STATIC decides.

    Returns:
        The explorer; in a notebook, leave it on the cell's last line.

    Raises:
        ValueError: for unusable controls, more than 120 stops, more than 500 kB of them after gzip, a knob that never
            changes the picture, or frames of different sizes.
        TypeError: when `plot` does not return a Figure.
    """
    return _checked(FramesExplorer(plot, controls, title=title, alt=alt, static=static))


def curves(
    compute: Callable[..., Picture],
    controls: Mapping[str, Control | tuple],
    *,
    title: str,
    alt: str | Callable[..., str],
    static: bool | None = None,
) -> Explorer:
    """Show the numbers of `compute` with a knob for each control, live or drawn by the page itself.

    Args:
        compute: function of the controls' names that returns a `book.display.Picture` with the same panels, titles,
            labels and names each time.
        controls, title, alt, static: as for `explore`.

    Returns:
        The explorer; in a notebook, leave it on the cell's last line.

    Raises:
        ValueError: for unusable controls, more than 2,000 stops, more than 100 kB of them after gzip, a knob that
            never changes the picture, or panels that differ in more than what is drawn.
        TypeError: when `compute` does not return a Picture.
    """
    return _checked(CurvesExplorer(compute, controls, title=title, alt=alt, static=static))


def _checked(explorer: Explorer) -> Explorer:
    if explorer.static:
        # Here an exception fails the cell; while IPython formats the output it would only be printed.
        explorer.to_html()
    return explorer
