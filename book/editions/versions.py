"""Several versions of the rendered book on one site: ``python -m book versions SITE NAME=BOOK ...``.

Each book, a folder or the archive that a release gives away, lies in a folder of its name. Every page says which
version it is and leads to the same page of the others; the site's address leads to the first that is named. The pages
stay readable from a disk: links are relative, and nothing is fetched.
"""

import argparse
import html
import os
import re
import shutil
import zipfile
from pathlib import Path

from book.editions.project import BookError

FOOTER = re.compile(r'(<div class="footer-item">\s*<p class="copyright">)')
NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
FRONT = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={to}">
<title>Sparse Bayesian deep learning</title>
</head>
<body><p><a href="{to}">Sparse Bayesian deep learning</a></p></body>
</html>
"""


def unpacked(book: Path, folder: Path) -> Path:
    """A rendered book in a folder of its own."""
    if book.is_dir():
        shutil.copytree(book, folder)
    elif book.is_file():
        with zipfile.ZipFile(book) as archive:
            archive.extractall(folder)
        inner = folder / book.stem
        if inner.is_dir():  # the archive of a release has one folder
            for path in list(inner.iterdir()):
                path.rename(folder / path.name)
            inner.rmdir()
    if not (folder / "index.html").is_file():
        raise BookError(f"{book} holds no rendered book: a folder or a .zip with index.html was expected.")
    return folder


def line(site: Path, page: Path, name: str, names: list[str]) -> str:
    """What a page says of versions: its own, and links to the same page, or the first, of the others."""
    place, links = page.relative_to(site / name), []
    for other in names:
        target = site / other / place
        target = target if target.is_file() else site / other / "index.html"
        links.append(f'<a href="{html.escape(os.path.relpath(target, page.parent))}">{other}</a>')
    shown = [f"<strong>{other}</strong>" if other == name else link for other, link in zip(names, links, strict=True)]
    return f'<div class="footer-item"><p class="versions">Version: {" · ".join(shown)}</p></div>'


def assemble(site: Path, books: dict[str, Path]) -> list[str]:
    """Lay the books side by side in a new folder; returns how many pages of each say their version."""
    if site.exists():
        raise BookError(f"{site} is there already. Name a folder that is not, or remove it.")
    site.mkdir(parents=True)
    for name, book in books.items():
        unpacked(book, site / name)
    told = []
    for name in books:
        count = 0
        for page in sorted((site / name).rglob("*.html")):
            text = page.read_text(encoding="utf-8")
            said = line(site, page, name, list(books)).replace("\\", r"\\")
            text, found = FOOTER.subn(rf"{said}\n\1", text, count=1)
            if found:
                page.write_text(text, encoding="utf-8")
                count += 1
        if not count:
            raise BookError(f"no page of {name} has the footer that tells the version: did this project render it?")
        told.append(f"{name}: {count} pages")
    (site / "index.html").write_text(FRONT.format(to=f"{next(iter(books))}/index.html"), encoding="utf-8")
    return told


def _book(given: str) -> tuple[str, Path]:
    name, _, path = given.partition("=")
    if not NAMES.fullmatch(name) or not path:
        raise argparse.ArgumentTypeError(f"{given!r} is not NAME=BOOK, such as 1.0.0=sparse-bayes-book.zip")
    return name, Path(path)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m book versions", description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path, help="new folder of the site")
    parser.add_argument("books", nargs="+", type=_book, metavar="NAME=BOOK", help="the first is where readers begin")
    options = parser.parse_args(arguments)
    try:
        print("\n".join(assemble(options.site, dict(options.books))))
    except BookError as error:
        print(error)
        return 1
    return 0
