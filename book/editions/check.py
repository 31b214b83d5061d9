"""Look the rendered book through for what Sphinx does not see: ``python -m book check`` (``make check`` calls it).

Reported are dead links and anchors, addresses outside the book that a page would load, pictures without a real
alternative text, ids that occur twice, markup that was not rendered, explorers and pages over the size limit, icons
that nothing draws, what is left of Font Awesome, and paths of the building machine. What a browser can tell (what
scripts ask for, console errors, formulas that MathJax rejects, what is cut at which width or has no name) is tested in
``tests/e2e``; that every cell ran, the builder sees.
"""

import argparse
import gzip
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from book.editions.project import Project, files_below

EXPLORERS_LIMIT = 100_000  # bytes after gzip that explorers of a page may take together
PAGE_LIMIT = 3_000_000  # bytes, text after gzip, of a page and all that it loads, formulas' fonts aside
TEXT = {".html", ".css", ".js", ".svg"}  # what a server compresses
ICON = re.compile(r'class="[^"]*\bfa(?:-solid|s)\s[^"]*"')
# Attributes by which a page loads something, as opposed to leading the reader somewhere.
LOADS = {
    "src": {"script", "img", "source", "iframe", "video", "audio", "embed", "track", "input"},
    "srcset": {"img", "source"},
    "href": {"image", "use"},
    "data": {"object"},
    "poster": {"video"},
}
LOADED_RELATIONS = set("stylesheet preload prefetch modulepreload preconnect dns-prefetch icon manifest".split())
REMOTE = re.compile(r"^(?:https?:)?//", re.IGNORECASE)
REMOTE_IN_CSS = re.compile(r"""(?:@import\s+|url\()\s*(?:url\()?["']?((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)
FILE_NAME = re.compile(r"(?:^|/)[\w.-]+\.(?:png|svg|jpe?g|webp|gif)$", re.IGNORECASE)
EXPLORER = re.compile(r'<div class="bnn-explorer.*?</script></div>', re.DOTALL)  # its last part is its script
UNRENDERED = re.compile(
    r"\{(?:ref|eq|eval|numref|cite|cite:\w+|glue|glue:\w+|doc|prf:ref|term)\}\s*`|^\s*(?:```|:::)\{"
    r"|\$[^$\n]{0,80}[\\_^][^$\n]{0,80}\$",  # a formula
    re.MULTILINE,
)


class Page(HTMLParser):
    """What the checks need to know of one page."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.pictures: list[tuple[str, str | None]] = []
        self.styles: list[str] = []
        self.prose: list[str] = []
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = {name: value or "" for name, value in attributes}
        if tag in ("script", "style", "pre", "code"):
            self._inside.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and LOADED_RELATIONS & set(given.get("rel", "").lower().split()):
            self.loads.append(given.get("href", ""))
        for name in (name for name, tags in LOADS.items() if tag in tags and name in given):
            self.loads += [part.split()[0] for part in given[name].split(",")] if name == "srcset" else [given[name]]
        if tag == "img" and given.get("aria-hidden") != "true" and given.get("role") != "presentation":
            self.pictures.append((given.get("src", ""), given.get("alt")))
        self.styles.append(given.get("style", ""))

    def handle_endtag(self, tag):
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data):
        if not self._inside:
            self.prose.append(data)
        elif self._inside[-1] == "style":
            self.styles.append(data)


def _local(link: str) -> bool:
    parts = urlsplit(link)
    return not parts.scheme and not parts.netloc


def dead_links(path: Path, page: Page, pages: dict[Path, Page], html: Path) -> list[str]:
    """Links and loaded files inside the book that lead nowhere, and anchors that the target page does not have."""
    found = []
    for link in dict.fromkeys(page.links + page.loads):
        if not link or not _local(link):
            continue
        parts = urlsplit(link)
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if target.is_dir():
            target = target / "index.html"
        if not target.exists():
            found.append(f"dead link: {link}")
        elif html not in target.parents:
            found.append(f"link out of the book's folder: {link}")
        elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
            found.append(f"dead anchor: {link}")
    return found


def external_loads(page: Page) -> list[str]:
    """Addresses outside the book that a browser would ask for when it shows the page."""
    found = [link for link in page.loads if REMOTE.match(link)] + REMOTE_IN_CSS.findall("\n".join(page.styles))
    return [f"external request: {link}" for link in dict.fromkeys(found)]


def bad_pictures(page: Page) -> list[str]:
    """Pictures whose alternative text is missing, blank, or only the name of a file (what myst-nb writes by itself)."""
    found = []
    for source, alt in page.pictures:
        shown = source if len(source) < 80 else source[:60] + "..."
        if alt is None or not alt.strip():
            found.append(f"picture without alt text: {shown}")
        elif FILE_NAME.search(alt.strip()):
            found.append(f"alt text is a file name: {alt}")
    return found


def weight(path: Path) -> int:
    """Bytes that a file takes on its way to the reader."""
    content = path.read_bytes()
    return len(gzip.compress(content, mtime=0)) if path.suffix in TEXT else len(content)


def too_heavy(path: Path, page: Page, weights: dict[Path, int]) -> list[str]:
    """Whether a page and what it loads are over the limit; ``weights`` remembers what several pages load."""
    loaded = {(path.parent / unquote(urlsplit(link).path)).resolve() for link in page.loads if link and _local(link)}
    files = [file for file in [path, *loaded] if file.is_file()]
    weights.update((file, weight(file)) for file in files if file not in weights)
    total = sum(weights[file] for file in files)
    if total <= PAGE_LIMIT:
        return []
    return [f"page and what it loads take {total / 1e6:.1f} MB, allowed are {PAGE_LIMIT / 1e6:.1f}"]


def icon_faults(text: str, drawn: str) -> list[str]:
    """Icons that the style sheet ``drawn`` does not know, and Font Awesome's own way of drawing them."""
    used = {name for found in ICON.findall(text) for name in re.findall(r"fa-[a-z-]+", found)} - {"fa-solid", "fa-lg"}
    faults = [f"icon that icons.css does not draw: {name}" for name in sorted(used) if f".{name} {{" not in drawn]
    return faults + (["loads Font Awesome"] if "fontawesome" in text else [])


def page_faults(path: Path, pages: dict[Path, Page], html: Path, root: Path) -> list[str]:
    """Everything wrong with one page."""
    page, text = pages[path], path.read_text(encoding="utf-8")
    found = dead_links(path, page, pages, html) + external_loads(page) + bad_pictures(page)
    found += [f"id used {count} times: {name}" for name, count in Counter(page.ids).items() if count > 1]
    raw = dict.fromkeys(UNRENDERED.findall(" ".join(page.prose)))
    found += [f"markup not rendered: {match.strip()}" for match in raw]
    size = len(gzip.compress("".join(EXPLORER.findall(text)).encode(), mtime=0))
    if size > EXPLORERS_LIMIT:
        told = f"explorers take {size / 1000:.0f} kB after gzip, allowed are {EXPLORERS_LIMIT // 1000}"
        found.append(f"{told}: give them fewer stops")
    if str(root) in text:
        found.append(f"path of this machine: {text[max(0, text.index(str(root)) - 20) :][:80]!r}")
    return found


def check(root: Path, html: Path | None = None) -> list[str]:
    """All faults of the book of the tree at ``root``, one line each."""
    project = Project(root.resolve())
    html = (html or project.html).resolve()
    if not (html / "index.html").exists():
        return [f"{html} holds no index.html: run `make book` first"]
    paths = [one for one in files_below(html) if one.suffix == ".html" and "_static" not in one.relative_to(html).parts]
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in paths}
    icons = html / "_static" / "icons.css"
    drawn, weights = icons.read_text(encoding="utf-8") if icons.exists() else "", {}
    faults = []
    for path in paths:
        found = page_faults(path, pages, html, project.root) + too_heavy(path, pages[path], weights)
        found += icon_faults(path.read_text(encoding="utf-8"), drawn)
        faults += [f"{path.relative_to(html)}: {fault}" for fault in found]
    fonts = (path for path in html.rglob("*") if re.search(r"fontawesome|fa-(solid|regular|brands)", path.name))
    faults += [f"{path.relative_to(html)}: belongs to Font Awesome" for path in fonts]
    for style in html.rglob("*.css"):
        for link in REMOTE_IN_CSS.findall(style.read_text(encoding="utf-8", errors="replace")):
            faults.append(f"{style.relative_to(html)}: external request: {link}")
    return faults


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m book check", description="Look the rendered book through.")
    parser.add_argument("--html", type=Path, help="folder of the rendered book (default: _build/html)")
    options = parser.parse_args(arguments)
    faults = check(Path.cwd(), options.html)
    for fault in faults:
        print(fault)
    print(f"{len(faults)} faults" if faults else "The rendered book has no faults.")
    return 1 if faults else 0
