"""The live explorer: ipywidgets that call the function that draws, in a notebook with a kernel."""

import html
import time
import traceback
from base64 import b64encode
from collections.abc import Callable

from book.display import frames
from book.display.control import Knobs

# Slower pictures than this are redrawn when the slider is released, not while it moves.
SLOW_SECONDS = 0.25


def box(explorer: Knobs, figure: Callable):
    """Knobs above a picture that is drawn anew when one moves.

    Raises:
        ImportError: without ipywidgets.
    """
    try:
        import ipywidgets
    except ImportError as error:
        raise ImportError("live explorers need ipywidgets: pip install 'bnnlib[book]', or set BNN_STATIC=1") from error

    picture = ipywidgets.HTML()
    knobs = {}
    for name, control in explorer.controls.items():
        kind = ipywidgets.ToggleButtons if control.choice else ipywidgets.SelectionSlider
        knobs[name] = kind(
            options=[(control.text(value), value) for value in control.values],
            value=control.default,
            description=control.label,
            style={"description_width": "initial"},
            layout={"width": "auto", "max_width": "36em"},
        )

    def redraw(_change=None) -> None:
        settings = {name: knob.value for name, knob in knobs.items()}
        try:
            frame = frames.png(figure, settings)
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
    quick = time.perf_counter() - started < SLOW_SECONDS
    for knob in knobs.values():
        if isinstance(knob, ipywidgets.SelectionSlider):
            knob.continuous_update = quick
        knob.observe(redraw, names="value")
    heading = ipywidgets.HTML(f"<strong>{html.escape(explorer.title)}</strong>")
    return ipywidgets.VBox([heading, *knobs.values(), picture])
