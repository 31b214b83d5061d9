"""The pictures of an executed chapter with what the chapter says of each, small enough for cards and slides."""

import base64
import io
import re
from dataclasses import dataclass
from typing import Any

from book.editions.project import source_of

PANELS = re.compile(r'<view id="panel-\d+" viewBox="[-\d.]+ ([-\d.]+) [\d.]+ ([\d.]+)"/>')
HEIGHT = re.compile(r'<svg [^>]*viewBox="0 0 [\d.]+ ([\d.]+)"')
OVERLAP = 7.2  # points that two panels of `book.display.vector` may share, of the room around each
SLIDE = 2.1  # width to height of what a slide has for a picture
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Picture:
    """A figure that is drawn when the chapter runs; explorers are none.

    It has the id of its cell, the heading of its section, its caption in MyST, what one sees, its PNG in base64, and
    the place of `cut`.
    """

    cell: str
    heading: str
    caption: str
    alt: str
    png: str
    cut: float | None = None


def pictures(notebook: dict) -> list[Picture]:
    """All of them in order."""
    found, heading = [], ""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            heading = (HEADING.findall(source_of(cell)) or [heading])[-1]
            continue
        about = cell.get("metadata", {}).get("mystnb", {})
        drawn = [one["data"] for one in cell.get("outputs", ()) if "image/png" in one.get("data", {})]
        if drawn and "figure" in about:
            caption, alt = about["figure"].get("caption", ""), about.get("image", {}).get("alt", "")
            png, svg = ("".join(drawn[-1].get(f"image/{kind}", "")) for kind in ("png", "svg+xml"))
            found.append(Picture(cell["id"], heading, caption, alt, png, cut(svg)))
    return found


def address(picture: Picture, width: int, quality: int = 75, wide: bool = False) -> str:
    """The picture as an address that holds it, WebP of at most so many pixels across; `wide` as in `side_by_side`."""
    from PIL import Image  # here, so that pages without pictures need no Pillow

    image, out = Image.open(io.BytesIO(base64.b64decode(picture.png))).convert("RGB"), io.BytesIO()
    image = side_by_side(image, picture.cut) if wide and picture.cut else image
    if image.width > width:
        image = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
    image.save(out, "WEBP", quality=quality, method=2)
    return f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}"


def cut(svg: str) -> float | None:
    """Where a figure may be cut, as a share of its height: between the rows of panels that are next to its middle."""
    panels = sorted(((float(top), float(top) + float(high)) for top, high in PANELS.findall(svg)), key=sum)
    between = ((max(end for _, end in panels[:k]), min(panels[k:])[0]) for k in range(1, len(panels)))
    cuts = [(above + below) / 2 / float(HEIGHT.findall(svg)[0]) for above, below in between if above - OVERLAP <= below]
    return min(cuts, key=lambda one: abs(one - 0.5), default=None)


def side_by_side(image: Any, share: float) -> Any:
    """An image with what is below a cut beside what is above, where it then is larger on a slide; else itself."""
    from PIL import Image

    width, height = image.size
    cut = round(share * height)
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
