"""Sphinx extension: leave out Font Awesome, 1.5 MB of script a page, for whose few icons there is a style sheet.

``book/_static/icons.css`` shows an icon as a mask in the color of its button; nothing in the pages' own code changes.
The files that no page ever loads (source maps, translations, templates) go, too.
"""

import re
import shutil
from pathlib import Path

NEVER_LOADED = ("**/*.map", "locales", "*webpack-macros.html", "vendor", "scripts/fontawesome.js*")
SCRIPT = re.compile(r'\s*<script src="[^"]*fontawesome\.js[^"]*"></script>')
FONTS = re.compile(r"@font-face\{[^}]*fontawesome[^}]*\}|\.fa-[^{}]*:before\{content:[^}]*\}")


def leave_out(app, error) -> None:
    """Take the script out of the pages, the fonts out of the style sheets, and the files out of the book."""
    if error is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir)
    for pattern in NEVER_LOADED:
        for path in list((folder / "_static").glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in folder.rglob("*.html"):
        path.write_text(SCRIPT.sub("", path.read_text(encoding="utf-8")), encoding="utf-8")
    for path in (folder / "_static" / "styles").glob("*.css"):
        path.write_text(FONTS.sub("", path.read_text(encoding="utf-8")), encoding="utf-8")


def setup(app) -> dict:
    app.add_css_file("icons.css")
    app.connect("build-finished", leave_out, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
