"""Pages that the build completes: where a table belongs stands a MyST comment, invisible where nothing fills it."""

import io
import re
from collections.abc import Callable, Iterable, Mapping

ASKED = re.compile(r"^% (?:table: (?P<table>\w+)|(?P<example>example: [\w ]+))$", re.MULTILINE)


def fill(template: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """A page with `tables["hours"]()` for "% table: hours", `tables["example: worse"]()` for "% example: worse"."""
    return ASKED.sub(lambda match: tables[match["table"] or match["example"]](), template)


def markdown(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    lines = [[*header], *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], ["---"] * len(lines[0]), *lines[1:]])


def svg(salt: str, height: float, draw: Callable) -> str:
    """What `draw(figure, axes)` draws as SVG as wide as the text; the same text for the same numbers."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from book.display.style import PANEL_WIDTH, RC

    with mpl.rc_context(RC | {"svg.hashsalt": salt, "svg.fonttype": "path"}):
        figure = Figure(figsize=(PANEL_WIDTH[1], height), layout="constrained")
        draw(figure, figure.add_subplot())
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
