"""From a plot function to the bytes of a picture, leaving no open figure behind."""

import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

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


@contextmanager
def drawn(plot: Callable[..., Figure], settings: Mapping) -> Iterator[Figure]:
    """Call `plot(**settings)` in the book's theme, check what it returns and close every figure it opened.

    Raises:
        TypeError: when `plot` does not return a matplotlib Figure.
    """
    before = set(plt.get_fignums())
    try:
        with style_context():
            fig = plot(**settings)
            if not isinstance(fig, Figure):
                raise TypeError(
                    f"the plot function returned {type(fig).__name__}, a matplotlib Figure is needed: "
                    "end it with `return fig`"
                )
            yield fig
    finally:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)


def css_size(fig: Figure) -> tuple[int, int]:
    """(width, height) of the figure on the page in CSS pixels, 96 an inch."""
    width, height = (round(96 * inches) for inches in fig.get_size_inches())
    return width, height


def pixels(fig: Figure, dpi: float) -> Image.Image:
    """The figure as an opaque RGB image; its size depends on the figure's size alone, never on its content."""
    buffer = io.BytesIO()
    # bbox_inches="tight" in someone's matplotlibrc would give every frame its own size, and the page would jump.
    with plt.rc_context({"savefig.bbox": None}):
        fig.savefig(buffer, format="png", dpi=dpi)
    image = Image.open(buffer).convert("RGBA")
    paper = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(paper, image).convert("RGB")


def tidied(text: str) -> str:
    """An SVG of matplotlib without its head, comments and white space between tags."""
    text = _COMMENT.sub("", text)
    return re.sub(r">\s+<", "><", text[text.index("<svg") :]).replace("\n", " ").strip()


def vector(plot: Callable[..., Figure], settings: Mapping) -> Frame:
    """Draw the plot at these settings as SVG with words in the reader's font; equal figures give equal frames."""
    buffer = io.StringIO()
    with drawn(plot, settings) as fig:
        size = css_size(fig)
        # bbox_inches="tight" in someone's matplotlibrc would give every frame its own size, and the page would jump.
        with plt.rc_context({"savefig.bbox": None, "svg.fonttype": "none"}):
            fig.savefig(buffer, format="svg", dpi=DPI, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return Frame(tidied(buffer.getvalue()).encode(), "image/svg+xml", *size)


def draw(plot: Callable[..., Figure], settings: Mapping, dpi: float) -> tuple[Image.Image, tuple[int, int]]:
    """Draw the plot at these settings.

    Returns:
        (image, (width, height)): the pixels, and the size on the page in CSS pixels, 96 an inch.
    """
    with drawn(plot, settings) as fig:
        return pixels(fig, dpi), css_size(fig)


def png(plot: Callable[..., Figure], settings: Mapping) -> Frame:
    """Draw one picture for the live explorer, where speed counts and size does not."""
    image, size = draw(plot, settings, DPI)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return Frame(buffer.getvalue(), "image/png", *size)
