"""Sphinx extension: draw the theme's few icons by style sheet and leave out Font Awesome, 1.5 MB of script a page.

``_static/icons.css`` shows an icon as a mask in the color of its button; nothing in the pages' own code changes. The
files that no page ever loads (source maps, translations, templates) go, too.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from string import Template
from urllib.parse import quote

# Strokes in a square of 24 by 24, after a bar what is filled; the name is the class by which the theme asks for it.
PATHS = {
    "fa-angle-left": "M15 4l-8 8 8 8",
    "fa-angle-right": "M9 4l8 8-8 8",
    "fa-arrow-up": "M12 21V4M5 11l7-7 7 7",
    "fa-bars": "M3 5h18M3 12h18M3 19h18",
    "fa-chevron-down": "M4 8l8 8 8-8",
    "fa-circle-half-stroke": "M12 3a9 9 0 0 0 0 18a9 9 0 0 0 0-18|M12 3a9 9 0 0 0 0 18z",
    "fa-download": "M12 3v12M6 10l6 6 6-6M4 21h16",
    "fa-file": "M14 2H5v20h14V7zM14 2v5h5",
    "fa-file-pdf": "M7 8V3h10v5M7 17H3V9h18v8h-4M7 14h10v7H7z",  # a printer: the button prints
    "fa-list": "M8 5h13M8 12h13M8 19h13M3 5h.5M3 12h.5M3 19h.5",
    "fa-magnifying-glass": "M10.5 3a7.5 7.5 0 1 0 0 15a7.5 7.5 0 1 0 0-15M16 16l5.5 5.5",
    "fa-moon": "M20.5 14.5A9 9 0 1 1 9.5 3.5a7 7 0 0 0 11 11z",
    "fa-sun": "M12 8a4 4 0 1 0 0 8a4 4 0 1 0 0-8M12 2v1M12 21v1M2 12h1M21 12h1M5 5l1 1M18 18l1 1M5 19l1-1M18 6l1-1",
}
BOXES = {  # icons of boxes, by the class of the box
    "note": "M12 3a9 9 0 1 0 0 18a9 9 0 1 0 0-18M12 11v6M12 7v.5",
    "hint": "M9 18h6M10.5 22h3M9 15a6.5 6.5 0 1 1 6 0z",
    "warning": "M12 3l10 18H2zM12 10v4M12 17.5v.5",
    "error": "M12 3a9 9 0 1 0 0 18a9 9 0 1 0 0-18M9 9l6 6M15 9l-6 6",
    "exercise": "M4 20l1-5L16 4l4 4L9 19z",
    "seealso": "M4 12h15M13 6l6 6-6 6",
}
SAME = {"hint": ["tip"], "warning": ["caution", "attention", "important"], "error": ["danger"]}

RULES = Template("""\
:is(.fa-solid, .fas) {
  background-color: currentcolor;
  display: inline-block;
  height: 1em;
  mask: var(--icon, none) center / contain no-repeat;
  vertical-align: -0.125em;
  width: 1em;
}

.fa-lg {
  font-size: 1.25em;
}

.bd-header-article .btn :is(.fa-solid, .fas) {
  height: 1.3rem;
  width: 1.3rem;
}

/* The theme shows the icon that fits the mode, as running text. */
html[data-mode="auto"] .theme-switch-button .theme-switch[data-mode="auto"],
html[data-mode="dark"] .theme-switch-button .theme-switch[data-mode="dark"],
html[data-mode="light"] .theme-switch-button .theme-switch[data-mode="light"],
.search-button-field > .fa-magnifying-glass {
  display: inline-block;
}

.bd-search .fa-solid.fa-magnifying-glass {
  flex-shrink: 0;
  position: static;
}

.admonition:not(.solution) > .admonition-title::after {
  background-color: currentcolor;
  content: "" !important;
  height: 1.1rem;
  mask: var(--icon) center / contain no-repeat;
  top: 0.65rem;
  width: 1.1rem;
}

.bd-sidebar-secondary.hide:not(:hover) .onthispage::after,
a.reference.download::before {
  background-color: currentcolor;
  content: "";
  display: inline-block;
  height: 0.8em;
  margin: 0 0.3em;
  mask: var(--icon) center / contain no-repeat;
  padding: 0;
  width: 0.8em;
}

.bd-sidebar-secondary.hide:not(:hover) .onthispage::after {
  --icon: $down;
}

a.reference.download::before {
  --icon: $download;
}

$icons
""")
KEPT = " =:/'"  # not escaped in the address of a picture, so that it stays readable
NEVER_LOADED = ("**/*.map", "locales", "*webpack-macros.html", "vendor", "scripts/fontawesome.js*")
SCRIPT = re.compile(r'\s*<script src="[^"]*fontawesome\.js[^"]*"></script>')
FONTS = re.compile(r"@font-face\{[^}]*fontawesome[^}]*\}|\.fa-[^{}]*:before\{content:[^}]*\}")


def mask(path: str) -> str:
    """The picture of an icon as a value of a style."""
    line, _, filled = path.partition("|")
    stroke = "fill='none' stroke='#000' stroke-width='2.6' stroke-linecap='round' stroke-linejoin='round'"
    paths = f"<path d='{line}'/>" + (f"<path fill='#000' d='{filled}'/>" if filled else "")
    picture = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' {stroke}>{paths}</svg>"
    return f'url("data:image/svg+xml,{quote(picture, safe=KEPT)}")'


def style_sheet() -> str:
    """All rules for all icons."""
    icons = [f".{name} {{ --icon: {mask(path)}; }}" for name, path in PATHS.items()]
    for name, path in BOXES.items():
        # The note is also for boxes that have no icon of their own.
        boxes = "" if name == "note" else f":is({', '.join('.' + one for one in (name, *SAME.get(name, ())))})"
        icons.append(f".admonition{boxes} > .admonition-title {{ --icon: {mask(path)}; }}")
    down, download = mask(PATHS["fa-chevron-down"]), mask(PATHS["fa-download"])
    return RULES.substitute(icons="\n".join(icons), down=down, download=download)


def write_icons(app) -> None:
    """Before the pages, which name the file with a digest of what it holds."""
    if app.builder.format == "html":
        folder = Path(app.outdir) / "_static"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "icons.css").write_text(style_sheet(), encoding="utf-8")


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
    app.connect("builder-inited", write_icons)
    app.connect("build-finished", leave_out, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
