"""The pictures of "From your data to an answer", from the page's own code: ``python -m book.editions.own_data``.

The code takes half a minute and more, so that a build shows the pictures as they are stored; a test draws them again.
"""

import contextlib
import re
import tempfile
from pathlib import Path

from PIL import Image

from book.display.style import RC

PAGE = "book/from_your_data.md"
FOLDER = "book/from_your_data"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STYLE = RC | {"savefig.dpi": 200, "figure.constrained_layout.use": False}  # a picture has its own layout


def code(page: str) -> list[str]:
    """The blocks of a page up to the one that draws its last picture."""
    blocks = BLOCK.findall(page)
    last = max(number for number, block in enumerate(blocks) if "savefig(" in block)
    return blocks[: last + 1]


def draw(root: Path) -> None:
    """Run the page's code, and store what it saves with a palette: a third of the bytes."""
    import matplotlib

    matplotlib.use("Agg")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), matplotlib.rc_context(STYLE):
        scope: dict = {"__name__": PAGE}
        for block in code((root / PAGE).read_text(encoding="utf-8")):
            exec(compile(block, PAGE, "exec"), scope)
        (root / FOLDER).mkdir(exist_ok=True)
        for path in sorted(Path(folder).glob("*.png")):
            Image.open(path).convert("RGB").quantize(96).save(root / FOLDER / path.name, optimize=True)
            print(f"{FOLDER}/{path.name}: {(root / FOLDER / path.name).stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    draw(Path(__file__).resolve().parents[2])
