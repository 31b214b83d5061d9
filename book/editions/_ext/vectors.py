"""Sphinx extension: what a page says of the figures that are SVG, so that ``book/_static/fit.js`` can show their views.

An SVG of `book.display.vector` says how large it was drawn, and which of its panels can stand below each other on a
phone; a page cannot read its pictures when it is opened from a folder.
"""

import re
from pathlib import Path

IMAGE = re.compile(r'<img (?P<before>[^>]*)src="(?P<src>[^"]*_images/(?P<name>[^"]+\.svg))"(?P<after>[^>]*?)\s*/?>')
DRAWN = re.compile(r'<svg [^>]*?width="(\d+)" height="(\d+)" data-panels="([^"]*)"')


def say_views(app, page: str, template: str, context: dict, doctree) -> None:
    """Give such an image its size and its panels; pictures are loaded as a reader comes near them."""
    if "_images/" not in context.get("body", ""):
        return
    files = {name: Path(app.srcdir, path) for path, name in app.builder.images.items()}

    def completed(found: re.Match) -> str:
        path = files.get(found["name"])
        drawn = DRAWN.search(path.read_text(encoding="utf-8")[:4000]) if path else None
        if not drawn:
            return found[0]
        width, height, panels = drawn.groups()
        more = f'class="bnn-vector" data-panels="{panels}" style="width: {width}px; height: {height}px"'
        rest = re.sub(r'\b(style|class)="[^"]*"', "", f"{found['before']} {found['after']}")
        image = f'<img src="{found["src"]}" {more} {" ".join(rest.split())}>'
        # as Sphinx frames pictures whose width it knows: a frame that can scroll, and opens the picture alone
        return f'<a class="reference internal image-reference" href="{found["src"]}">{image}</a>'

    body = IMAGE.sub(completed, context["body"])
    context["body"] = re.sub(r'<img (?![^>]*(?:loading=|src="data:))', '<img loading="lazy" ', body)


def setup(app) -> dict:
    app.connect("html-page-context", say_views, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
