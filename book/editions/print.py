"""Print the rendered book as one PDF: ``python -m book pdf`` (``make pdf`` calls it); needs Chromium.

Chromium prints the whole (`whole.Whole`) twice: where things lie in the first PDF is what the contents of the second
say. The bookmarks have the same entries, and the tags tell a screen reader what is a heading, a table, a list.
"""

import logging
import shutil
from pathlib import Path
from urllib.parse import unquote

from pypdf import PdfReader, PdfWriter
from pypdf.generic import Fit

from book.editions.project import Project
from book.editions.typeset import edition, typesetter
from book.editions.whole import Whole, assemble

NUMBER = """(pages) => document.querySelectorAll(".bnn-contents a").forEach((line) => {
  line.lastChild.textContent = pages[decodeURIComponent(line.hash.slice(1))] ?? "";
})"""


def places(pdf: PdfReader) -> dict[str, tuple[int, float | None]]:
    """Page, from 1, and height on it of each anchor of a PDF."""
    found = {}
    for name, place in pdf.named_destinations.items():
        found[unquote(name.removeprefix("/"))] = (pdf.get_destination_page_number(place) + 1, float(place.top))
    return found


def add_bookmarks(whole: Whole, draft: Path, pdf: Path) -> None:
    """Write the printed draft with bookmarks, which viewers show beside it when they open it."""
    writer, known = PdfWriter(clone_from=draft), places(PdfReader(draft))
    known[whole.renamed[next(iter(whole.articles))][""]] = (1, None)  # nothing links to the landing page
    above = None
    for level, anchor, words in (line for name in whole.articles for line in whole.outline(name)):
        if anchor not in known:
            continue  # the landing page's own sections, which the contents leave out
        page, top = known[anchor]
        item = writer.add_outline_item(words, page - 1, above if level else None, fit=Fit.xyz(top=top))
        above = item if not level else above
    writer.page_mode = "/UseOutlines"
    writer.write(pdf)


def make_pdf(project: Project) -> Path:
    """Print the rendered book into ``_build/book.pdf`` and return its path."""
    folder, pdf = project.build / "print", project.build / "book.pdf"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    page, draft, whole = folder / "book.html", folder / "draft.pdf", Whole(project)
    page.write_text(assemble(whole, project), encoding="utf-8")
    logging.getLogger("pypdf").setLevel(logging.ERROR)  # Chromium counts its objects short
    with typesetter() as opened:
        tab = opened(page)
        for _ in range(2):
            tab.pdf(path=draft, prefer_css_page_size=True, print_background=True, tagged=True)
            tab.evaluate(NUMBER, {anchor: number for anchor, (number, _) in places(PdfReader(draft)).items()})
    add_bookmarks(whole, draft, pdf)
    draft.unlink()
    return pdf


def main(arguments: list[str]) -> int:
    return edition(make_pdf, "PDF", arguments)
