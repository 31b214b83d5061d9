"""Explorers: one picture with sliders that lives twice.

With a kernel, the sliders are ipywidgets and call the plot function. In the rendered page (environment variable
BNN_STATIC=1 while the notebook runs), the frames are computed beforehand and native sliders choose among them:
no kernel, no network, no library, and without JavaScript still a picture.
"""

from __future__ import annotations

import gzip
import html
import itertools
import os
import time
import traceback
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from book.display import frames as _frames
from book.display import page as _page

MAX_FRAMES = 120
MAX_GZIP_BYTES = 300_000
# Slower plots than this are redrawn when the slider is released, not while it moves.
SLOW_SECONDS = 0.25
LIVE_DPI = 192


@dataclass(frozen=True)
class Control:
    """One slider of an explorer.

    Args:
        label: what the reader sees beside the slider.
        values: the grid, at least two distinct values.
        default: where the slider starts; one of the values.
        static_values: the part of the grid that the rendered page offers (all of it when omitted); it must contain
            the default.
        format: how a value is written: a format specification such as ".0e", or a function value -> text.

    Raises:
        ValueError: for an empty label, fewer than two values, repeated values, or a default outside the grid.
    """

    label: str
    values: Iterable[Any]
    default: Any
    static_values: Iterable[Any] | None = None
    format: str | Callable[[Any], str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        static = self.values if self.static_values is None else tuple(self.static_values)
        object.__setattr__(self, "static_values", static)
        if not str(self.label).strip():
            raise ValueError("a control needs a label: the words that the reader sees beside the slider")
        for field, grid in (("values", self.values), ("static_values", static)):
            if len(grid) < 2:
                raise ValueError(f"control {self.label!r}: {field} has {len(grid)} entries, a slider needs at least 2")
            texts = [self.text(value) for value in grid]
            repeated = sorted({text for text in texts if texts.count(text) > 1})
            if repeated:
                raise ValueError(f"control {self.label!r}: {field} shows {repeated} more than once; change `format`")
            if self.default not in grid:
                raise ValueError(f"control {self.label!r}: default {self.default!r} is not among {field}: {texts}")
        missing = [self.text(value) for value in static if value not in self.values]
        if missing:
            raise ValueError(f"control {self.label!r}: static_values {missing} are not on the grid `values`")

    def text(self, value: Any) -> str:
        """The value as the reader sees it."""
        if callable(self.format):
            return str(self.format(value))
        if self.format is not None:
            return format(value, self.format)
        return f"{value:g}" if isinstance(value, float) else str(value)


def explore(
    plot: Callable[..., Any],
    controls: Mapping[str, Control | tuple],
    *,
    title: str,
    alt: str | Callable[..., str],
    dpi: float = 192,
    quality: int = 60,
    static: bool | None = None,
) -> Explorer:
    """Show `plot` with a slider for each control, live or as a static page.

    Args:
        plot: function of the controls' names that returns a matplotlib Figure of the same size each time.
        controls: {argument of plot: Control or (label, values, default)}.
        title: heading of the explorer.
        alt: what the picture shows, in words: a function of the controls, or a text to which their values are added.
        dpi: resolution of images and rasterized artists in the static frames, whose lines and text are vectors; 192
            is twice a desktop screen's.
        quality: WebP quality of those images, 1 to 100, where storing them without loss takes more bytes.
        static: True for frames, False for widgets; by default the environment variable BNN_STATIC decides.

    Returns:
        The explorer; in a notebook, leave it on the cell's last line.

    Raises:
        ValueError: for unusable controls, more than 120 static frames, more than 300 kB of them after gzip, a slider
            that never changes the picture, or frames of different sizes.
        TypeError: when `plot` does not return a Figure.
    """
    explorer = Explorer(plot, controls, title=title, alt=alt, dpi=dpi, quality=quality, static=static)
    if explorer.static:
        # Here an exception fails the cell; while IPython formats the output it would only be printed.
        explorer.to_html()
    return explorer


class Explorer:
    """A picture with sliders; make it with `explore`."""

    def __init__(self, plot, controls, *, title, alt, dpi=192, quality=60, static=None):
        if not controls:
            raise ValueError("controls is empty: give {argument: (label, values, default)}")
        if not 36 <= dpi <= 400:
            raise ValueError(f"dpi={dpi} is out of range: use 36 to 400")
        if not 1 <= quality <= 100:
            raise ValueError(f"quality={quality} is out of range: use 1 to 100")
        if not (callable(alt) or str(alt).strip()):
            raise ValueError("alt is empty: say in a sentence what the picture shows")
        self.plot, self.title, self.alt, self.dpi, self.quality = plot, title, alt, dpi, quality
        self.controls = {k: c if isinstance(c, Control) else Control(*c) for k, c in controls.items()}
        self.static = os.environ.get("BNN_STATIC", "") not in ("", "0") if static is None else static

    @property
    def defaults(self) -> dict[str, Any]:
        """The settings the explorer starts from."""
        return {name: control.default for name, control in self.controls.items()}

    def describe(self, settings: Mapping[str, Any]) -> str:
        """The alternative text of the picture at these settings."""
        if callable(self.alt):
            return str(self.alt(**settings))
        values = ", ".join(f"{c.label}: {c.text(settings[name])}" for name, c in self.controls.items())
        return f"{self.alt} ({values})"

    @cached_property
    def grid(self) -> list[dict[str, Any]]:
        """All settings of the static life; the last control runs fastest.

        Raises:
            ValueError: for more than 120 of them.
        """
        sizes = {control.label: len(control.static_values) for control in self.controls.values()}
        points = [
            dict(zip(self.controls, values, strict=True))
            for values in itertools.product(*(control.static_values for control in self.controls.values()))
        ]
        if len(points) > MAX_FRAMES:
            product = " x ".join(f"{label}: {size}" for label, size in sizes.items())
            raise ValueError(
                f"explorer {self.title!r} needs {len(points)} frames ({product}), at most {MAX_FRAMES} are allowed: "
                "give a Control fewer `static_values`; the live sliders keep the whole grid"
            )
        return points

    @cached_property
    def frames(self) -> tuple[list[_frames.Frame], list[int]]:
        """(distinct frames, number of the frame for each point of the grid); computed once. Frame 0 is the default's.

        Raises:
            ValueError: for frames of different sizes or a slider that changes nothing.
        """
        first = _frames.vector(self.plot, self.defaults, self.dpi, self.quality)
        known, index = {first: 0}, []
        for settings in self.grid:
            frame = first
            if settings != self.defaults:
                frame = _frames.vector(self.plot, settings, self.dpi, self.quality)
            if (frame.width, frame.height) != (first.width, first.height):
                raise ValueError(f"explorer {self.title!r}: the figure's size changes at {settings}; use one figsize")
            index.append(known.setdefault(frame, len(known)))
        self._refuse_dead_sliders(index)
        return list(known), index

    def _refuse_dead_sliders(self, index: list[int]) -> None:
        """A slider that moves while the figure stays tells the reader something false."""
        for name, control in self.controls.items():
            rows: dict[tuple, set[int]] = {}
            for settings, number in zip(self.grid, index, strict=True):
                rows.setdefault(tuple(v for k, v in settings.items() if k != name), set()).add(number)
            if all(len(numbers) == 1 for numbers in rows.values()):
                raise ValueError(f"explorer {self.title!r}: the slider {control.label!r} never changes the picture")

    @cached_property
    def _html(self) -> str:
        distinct, index = self.frames
        page = _page.render(self, distinct, index)
        size = len(gzip.compress(page.encode(), mtime=0))
        if size > MAX_GZIP_BYTES:
            raise ValueError(
                f"explorer {self.title!r} takes {size / 1000:.0f} kB after gzip ({len(distinct)} frames), a page may "
                f"take {MAX_GZIP_BYTES / 1000:.0f} kB: give fewer `static_values`, draw artists of thousands of points "
                "with `rasterized=True`, or lower `dpi` or `quality`"
            )
        return page

    def to_html(self) -> str:
        """The static life: one self-contained HTML fragment without ids or outside requests.

        Raises:
            ValueError: as `explore` says.
        """
        return self._html

    @property
    def gzip_bytes(self) -> int:
        """Size of the static life after gzip; all explorers of a page together may take 300 kB."""
        return len(gzip.compress(self.to_html().encode(), mtime=0))

    @cached_property
    def widget(self):
        """The live life: an ipywidgets box whose sliders call the plot function."""
        return _live(self)

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


def _live(explorer: Explorer):
    try:
        import ipywidgets
    except ImportError as error:
        raise ImportError("live explorers need ipywidgets: pip install 'bnnlib[book]', or set BNN_STATIC=1") from error

    picture = ipywidgets.HTML()
    sliders = {
        name: ipywidgets.SelectionSlider(
            options=[(control.text(value), value) for value in control.values],
            value=control.default,
            description=control.label,
            style={"description_width": "initial"},
            layout={"width": "auto", "max_width": "36em"},
        )
        for name, control in explorer.controls.items()
    }

    def redraw(_change=None) -> None:
        settings = {name: slider.value for name, slider in sliders.items()}
        try:
            frame = _frames.png(explorer.plot, settings, LIVE_DPI)
            alt = html.escape(explorer.describe(settings), quote=True)
        except Exception:
            # A widget callback's exception would vanish and the old picture would stay under the new values.
            picture.value = f'<pre role="alert" style="color:#b00020">{html.escape(traceback.format_exc())}</pre>'
            return
        picture.value = (
            f'<img alt="{alt}" width="{frame.width}" style="max-width:100%;height:auto;border-radius:.5rem" '
            f'src="data:{frame.mime};base64,{b64encode(frame.data).decode()}">'
        )

    started = time.perf_counter()
    redraw()
    for slider in sliders.values():
        slider.continuous_update = time.perf_counter() - started < SLOW_SECONDS
        slider.observe(redraw, names="value")
    heading = ipywidgets.HTML(f"<strong>{html.escape(explorer.title)}</strong>")
    return ipywidgets.VBox([heading, *sliders.values(), picture])
