"""From a plot function to the bytes of a picture, leaving no open figure behind."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

from book.display.style import style_context

# Root mean square error (of 255) up to which a drawing in few colors cannot be told from the original, over the
# pixels that are stored; most of them lie on the edge of a stroke, where the exact shade does not matter.
PALETTE_ERROR = 6.0
PALETTE_SIZES = (32, 64)
# Share of changed pixels from which the encodings that serve fully redrawn pictures are tried as well.
MOSTLY = 0.3


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


def pixels(fig: Figure, dpi: float) -> Image.Image:
    """The figure as an opaque RGB image; its size depends on the figure's size alone, never on its content."""
    buffer = io.BytesIO()
    # bbox_inches="tight" in someone's matplotlibrc would give every frame its own size, and the page would jump.
    with plt.rc_context({"savefig.bbox": None}):
        fig.savefig(buffer, format="png", dpi=dpi)
    image = Image.open(buffer).convert("RGBA")
    paper = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(paper, image).convert("RGB")


def _few_colors(pixels: np.ndarray, kept: np.ndarray) -> np.ndarray | None:
    """RGBA copy of `pixels` (height, width, 3) with few colors where `kept`, transparent elsewhere, or None.

    None says that 64 colors are too few for these pixels.
    """
    stored = pixels[kept]
    strip = Image.fromarray(stored[None])
    for size in PALETTE_SIZES:
        palette = strip.quantize(size, method=Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)
        reduced = np.asarray(palette.convert("RGB"))[0].copy()
        reduced[(stored == 255).all(axis=-1)] = 255  # paper stays white
        if np.sqrt(np.mean((reduced - stored.astype(np.float64)) ** 2)) <= PALETTE_ERROR:
            picture = np.zeros((*kept.shape, 4), dtype=np.uint8)
            picture[kept] = np.concatenate([reduced, np.full((len(reduced), 1), 255, np.uint8)], axis=1)
            return picture
    return None


def webp(image: Image.Image, quality: int, below: Image.Image | None = None) -> bytes:
    """The smallest WebP that shows `image`, alone or laid over the picture `below`.

    Over `below`, pixels that agree may be transparent: axes and labels of an explorer are then stored once, which
    halves a frame. Line drawings are smaller and crisper without loss in few colors, smooth color maps with loss.
    """
    pixels = np.asarray(image)
    everything = np.ones(pixels.shape[:2], dtype=bool)
    changed = everything if below is None else (pixels != np.asarray(below)).any(axis=-1)
    candidates = []
    for kept in [changed] if changed.mean() < MOSTLY else [changed, everything]:
        picture = _few_colors(pixels, kept)
        if picture is not None:
            candidates.append(_encode(picture, lossless=True, quality=100))
        if picture is None or kept.mean() >= MOSTLY:
            clear = np.where(kept, 255, 0).astype(np.uint8)[..., None]
            candidates.append(_encode(np.concatenate([pixels * kept[..., None], clear], axis=-1), quality=quality))
    return min(candidates, key=len)


def _encode(picture: np.ndarray, **options) -> bytes:
    buffer = io.BytesIO()
    # Method 6 takes forty times as long for a thousandth of the bytes.
    Image.fromarray(picture).save(buffer, "WEBP", method=4, **options)
    return buffer.getvalue()


def draw(plot: Callable[..., Figure], settings: Mapping, dpi: float) -> tuple[Image.Image, tuple[int, int]]:
    """Draw the plot at these settings.

    Returns:
        (image, (width, height)): the pixels, and the size on the page in CSS pixels, 96 an inch.
    """
    with drawn(plot, settings) as fig:
        width, height = (round(96 * inches) for inches in fig.get_size_inches())
        return pixels(fig, dpi), (width, height)


def digest(image: Image.Image) -> bytes:
    """A hash of the pixels, by which identical frames are recognized."""
    return hashlib.sha256(image.tobytes()).digest()


def png(plot: Callable[..., Figure], settings: Mapping, dpi: float) -> Frame:
    """Draw one picture for the live explorer, where speed counts and size does not."""
    image, size = draw(plot, settings, dpi)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return Frame(buffer.getvalue(), "image/png", *size)
