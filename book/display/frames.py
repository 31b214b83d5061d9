"""From a plot function to the bytes of a picture, leaving no open figure behind."""

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from book.display.style import style_context

# Of pixels: twice a desktop screen's.
DPI = 192

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


@dataclass(frozen=True)
class Frame:
    """One encoded picture: its bytes, its type, and its size in CSS pixels (96 an inch)."""

    data: bytes
    mime: str
    width: int
    height: int


def tidied(text: str) -> str:
    """An SVG of matplotlib without its head, comments and white space between tags."""
    text = _COMMENT.sub("", text)
    return re.sub(r">\s+<", "><", text[text.index("<svg") :]).replace("\n", " ").strip()


def vector(plot: Callable[..., Figure], settings: Mapping) -> Frame:
    """Draw the plot at these settings as SVG with words in the reader's font; equal figures give equal frames."""
    found = _saved(plot, settings, "svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return replace(found, data=tidied(found.data.decode()).encode(), mime="image/svg+xml")


def png(plot: Callable[..., Figure], settings: Mapping) -> Frame:
    """Draw one picture for the live explorer, where speed counts and size does not."""
    return _saved(plot, settings, "png", pil_kwargs={"compress_level": 1})


def _saved(plot: Callable[..., Figure], settings: Mapping, kind: str, **options) -> Frame:
    """Draw in the book's theme, and close every figure that the plot has opened."""
    before, buffer = set(plt.get_fignums()), io.BytesIO()
    try:
        with style_context():
            fig = plot(**settings)
            # bbox_inches="tight" in someone's matplotlibrc would give every frame its own size: the page would jump.
            with plt.rc_context({"savefig.bbox": None, "svg.fonttype": "none"}):
                fig.savefig(buffer, format=kind, dpi=DPI, **options)
        return Frame(buffer.getvalue(), f"image/{kind}", *(round(96 * inches) for inches in fig.get_size_inches()))
    finally:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)
