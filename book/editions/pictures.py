"""The pictures of an executed chapter with what the chapter says of each, small enough for cards and slides."""

import base64
import io
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from book.editions.project import source_of

SLIDE = 2.1  # width to height of what a slide has for a picture
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Picture:
    """A figure that is drawn when the chapter runs; explorers are none.

    It has the id of its cell, the heading of its section, its caption in MyST, what one sees, and its PNG in base64.
    """

    cell: str
    heading: str
    caption: str
    alt: str
    png: str


def pictures(notebook: dict) -> list[Picture]:
    """All of them in order."""
    found, heading = [], ""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            heading = (HEADING.findall(source_of(cell)) or [heading])[-1]
            continue
        about = cell.get("metadata", {}).get("mystnb", {})
        drawn = [one["data"]["image/png"] for one in cell.get("outputs", ()) if "image/png" in one.get("data", {})]
        if drawn and "figure" in about:
            caption, alt = about["figure"].get("caption", ""), about.get("image", {}).get("alt", "")
            found.append(Picture(cell["id"], heading, caption, alt, "".join(drawn[-1])))
    return found


def address(picture: Picture, width: int, quality: int = 75, wide: bool = False) -> str:
    """The picture as an address that holds it, WebP of at most so many pixels across; `wide` as in `side_by_side`."""
    from PIL import Image  # here, so that pages without pictures need no Pillow

    image, out = Image.open(io.BytesIO(base64.b64decode(picture.png))).convert("RGB"), io.BytesIO()
    image = side_by_side(image) if wide else image
    if image.width > width:
        image = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
    image.save(out, "WEBP", quality=quality, method=2)
    return f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}"


def side_by_side(image: Any) -> Any:
    """An image with its lower rows of panels beside the upper ones, where it then is larger on a slide; else itself.

    It is cut in the widest white band of its middle, which lies between two rows of panels.
    """
    from PIL import Image

    width, height = image.size
    blank, bands, start = np.asarray(image.convert("L")).min(axis=1) == 255, [(0, height)], None
    for row in range(3 * height // 10, 7 * height // 10):
        start = (row if start is None else start) if blank[row] else None
        if start is not None:
            bands.append((row - start, (row + start) // 2))
    cut = max(bands)[1]
    joined = Image.new("RGB", (2 * width + width // 20, max(cut, height - cut)), "white")
    if max(joined.width / SLIDE, joined.height) > 0.9 * max(width / SLIDE, height):
        return image
    joined.paste(image.crop((0, 0, width, cut)), (0, 0))
    joined.paste(image.crop((0, cut, width, height)), (joined.width - width, 0))
    return joined


def packed(png: str) -> str:
    """The same picture, pixel by pixel, with a palette where it has few colors; base64."""
    from PIL import Image

    image, out = Image.open(io.BytesIO(base64.b64decode(png))), io.BytesIO()
    if image.mode != "RGBA" or image.getchannel("A").getextrema() != (255, 255):
        return png
    colors = image.convert("RGB")
    if colors.getcolors(256) is None:
        return png
    colors.quantize(256, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return min(png, base64.b64encode(out.getvalue()).decode(), key=len)
