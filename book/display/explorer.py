"""Explorers: one picture with knobs that lives twice.

With a kernel, the knobs are ipywidgets and call the function that computes. In the rendered page (environment variable
BNN_STATIC=1 while the notebook runs), every stop is computed beforehand and native controls choose among them: no
kernel, no network, and without JavaScript still a picture. A stop is numbers that the page draws itself: sharp, in the
colors of the theme, and small enough for many stops.
"""

import gzip
import html
import itertools
import json
import os
import time
import traceback
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from matplotlib.figure import Figure

from book.display import draw, frames, page
from book.display.control import Control
from book.display.data import encode
from book.display.picture import Panel, Picture

# Slower pictures than this are redrawn when the slider is released, not while it moves.
SLOW_SECONDS = 0.25


class Explorer:
    """The numbers of `compute` with a knob for each control, live or drawn by the page itself; on a cell's last line.

    Args:
        compute: function of the controls' names that returns a `book.display.Picture` with the same panels, titles,
            labels and names each time.
        controls: {argument of compute: Control or (label, values, default)}.
        title: heading of the explorer.
        alt: what the picture shows, in words: a function of the controls, or a text to which their values are added.
        static: True for the page, False for widgets; by default the environment variable BNN_STATIC decides.

    Raises:
        ValueError: for unusable controls, more than 2,000 stops, more than 100 kB of them after gzip, a knob that
            never changes the picture, or panels that differ in more than what is drawn.
        TypeError: when `compute` does not return a Picture.
    """

    max_stops = 2000
    max_gzip_bytes = 100_000
    advice = "give fewer values, fewer points on a curve, or items that do not change with every knob"

    def __init__(
        self,
        compute: Callable[..., Picture],
        controls: Mapping[str, Control | tuple],
        *,
        title: str,
        alt: str | Callable[..., str],
        static: bool | None = None,
    ) -> None:
        if not controls:
            raise ValueError("controls is empty: give {argument: Control(label, values, default)}")
        if not (callable(alt) or str(alt).strip()):
            raise ValueError("alt is empty: say in a sentence what the picture shows")
        self.compute, self.title, self.alt = compute, title, alt
        self.controls = {k: c if isinstance(c, Control) else Control(*c) for k, c in controls.items()}
        self.static = os.environ.get("BNN_STATIC", "") not in ("", "0") if static is None else static
        if self.static:  # here an exception fails the cell; while IPython formats the output it would only be printed
            self.to_html()

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
        """All settings; the last control runs fastest."""
        every = itertools.product(*(control.values for control in self.controls.values()))
        points = [dict(zip(self.controls, values, strict=True)) for values in every]
        if len(points) > self.max_stops:
            product = " x ".join(f"{control.label}: {len(control.values)}" for control in self.controls.values())
            raise ValueError(
                f"explorer {self.title!r} needs {len(points)} stops ({product}), at most {self.max_stops} are "
                f"allowed: {self.advice}"
            )
        return points

    def picture(self, **settings) -> Picture:
        """The picture at these settings, as data."""
        found = self.compute(**settings)
        if not isinstance(found, Picture):
            raise TypeError(f"compute returned {type(found).__name__}, a Picture is needed: Picture([Panel(...), ...])")
        return found

    def figure(self, **settings) -> Figure:
        """The picture at these settings, drawn by matplotlib."""
        return draw.draw(self.picture(**settings))

    @cached_property
    def pictures(self) -> list[Picture]:
        """The picture of each point of the grid; computed once."""
        pictures = [self.picture(**settings) for settings in self.grid]

        def words_of(panel: Panel) -> tuple:
            named = [(type(item).__name__, item.name, item.look) for item in draw.names(panel)]
            return panel.title, panel.xlabel, panel.ylabel, named

        words = [list(map(words_of, picture.panels)) for picture in pictures]
        for settings, found in zip(self.grid, words, strict=True):
            if found != words[0]:
                raise ValueError(
                    f"explorer {self.title!r}: panels, titles, labels or names change at {settings}, and the page "
                    f"would jump: {found} there, {words[0]} at first; say what changes in the Picture's heading or in "
                    "a Text, and give an item that is gone empty coordinates"
                )
        return pictures

    @cached_property
    def _html(self) -> str:
        data = encode(self.pictures)
        for name, control in self.controls.items():  # a knob that moves while the picture stays tells something false
            rows: dict[tuple, set] = {}
            for settings, stop in zip(self.grid, data["stops"], strict=True):
                rows.setdefault(tuple(v for k, v in settings.items() if k != name), set()).add(json.dumps(stop))
            if all(len(stops) == 1 for stops in rows.values()):
                raise ValueError(f"explorer {self.title!r}: the knob {control.label!r} never changes the picture")
        made = page.fragment(self, frames.vector(self.figure, self.defaults), self.pictures, data)
        self.gzip_bytes = len(gzip.compress(made.encode(), mtime=0))
        if self.gzip_bytes > self.max_gzip_bytes:
            raise ValueError(
                f"explorer {self.title!r} takes {self.gzip_bytes / 1000:.0f} kB after gzip at {len(self.grid)} stops, "
                f"a page may take {self.max_gzip_bytes / 1000:.0f} kB: {self.advice}"
            )
        return made

    def to_html(self) -> str:
        """The static life: one self-contained HTML fragment without ids or outside requests."""
        return self._html

    @cached_property
    def widget(self):
        """The live life: an ipywidgets box of knobs above a picture that is drawn anew when one moves."""
        try:
            import ipywidgets
        except ImportError as error:
            told = "live explorers need ipywidgets: pip install 'bnnlib[book]', or set BNN_STATIC=1"
            raise ImportError(told) from error

        picture = ipywidgets.HTML()
        knobs = {}
        for name, control in self.controls.items():
            kind = ipywidgets.ToggleButtons if control.choice else ipywidgets.SelectionSlider
            knobs[name] = kind(
                options=[(control.text(value), value) for value in control.values],
                value=control.default,
                description=control.label,
                style={"description_width": "initial"} | ({"button_width": "auto"} if control.choice else {}),
                layout={"width": "auto", "max_width": "36em"},
            )
            knobs[name].add_class("bnn-knob")

        def redraw(_change=None) -> None:
            settings = {name: knob.value for name, knob in knobs.items()}
            try:
                frame = frames.png(self.figure, settings)
                alt = html.escape(self.describe(settings), quote=True)
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
        quick = time.perf_counter() - started < SLOW_SECONDS
        for knob in knobs.values():
            if isinstance(knob, ipywidgets.SelectionSlider):
                knob.continuous_update = quick
            knob.observe(redraw, names="value")
        # ipywidgets cuts what stands beside a slider at 9em; a method's name may be longer
        whole = "<style>.bnn-knob .widget-readout {max-width: none}</style>"
        heading = ipywidgets.HTML(f"{whole}<strong>{html.escape(self.title)}</strong>")
        return ipywidgets.VBox([heading, *knobs.values(), picture])

    def __repr__(self) -> str:
        lines = [f"Explorer: {self.title}"]
        for control in self.controls.values():
            first, last = control.text(control.values[0]), control.text(control.values[-1])
            told = f"  {control.label}: {first} to {last} ({len(control.values)} values)"
            lines.append(f"{told}, now {control.text(control.default)}")
        return "\n".join([*lines, f"  {self.describe(self.defaults)}"])

    def _repr_mimebundle_(self, include=None, exclude=None):
        if self.static:
            return {"text/plain": repr(self), "text/html": self.to_html()}
        bundle = self.widget._repr_mimebundle_()
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**data, "text/plain": repr(self)}, metadata


curves = Explorer
