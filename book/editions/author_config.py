"""Configuration of the server of `make author`: chapters are saved as sources, without what running them left."""

import json

from book.editions.source import mended

c = get_config()  # noqa: F821 - the server puts it there


def strip(model: dict, path: str, **_) -> None:
    """Save a chapter in its canonical form; the page keeps its outputs until it is closed."""
    if model["type"] == "notebook" and path.startswith("chapters/"):
        model["content"] = json.loads(mended(json.dumps(model["content"])))


c.ContentsManager.pre_save_hook = strip
