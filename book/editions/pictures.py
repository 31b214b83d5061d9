"""The pictures of an executed chapter with what the chapter says of each, small enough for cards and slides."""

import base64
import io
import re
from dataclasses import dataclass

from book.editions.project import source_of

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


def address(picture: Picture, width: int, quality: int = 75) -> str:
    """The picture as an address that holds it, WebP of at most so many pixels across."""
    from PIL import Image  # here, so that pages without pictures need no Pillow

    image, out = Image.open(io.BytesIO(base64.b64decode(picture.png))).convert("RGB"), io.BytesIO()
    if image.width > width:
        image = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
    image.save(out, "WEBP", quality=quality, method=2)
    return f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}"
