"""What the pages call figures, equations, works and each other: the file that the Sphinx extension `labels` writes."""

from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass, field
from pathlib import Path

from book.editions.project import BookError

FILE = ".labels.json"


@dataclass(frozen=True)
class Names:
    """The content of ``.labels.json`` as seen from `page`, such as "chapters/03_variational_spike_and_slab"."""

    page: str
    labels: dict[str, dict] = field(default_factory=dict)
    citations: dict[str, dict] = field(default_factory=dict)
    pages: dict[str, str] = field(default_factory=dict)
    printed: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    @classmethod
    def read(cls, html: Path, page: str) -> Names:
        """The names that the pages in the folder `html` show."""
        if not (html / FILE).exists():
            raise BookError(f"{html / FILE} is missing: render the pages with `make book` first.")
        return cls(page, **json.loads((html / FILE).read_text(encoding="utf-8")))

    def label(self, name: str) -> dict:
        """What is known of a label."""
        if name not in self.labels:
            raise BookError(f"{self.page}: no page has the label {name!r}; the learner's edition cannot refer to it.")
        return self.labels[name]

    def number(self, name: str) -> str:
        """ "3.2" of the equation "(3.2)" or of "Figure 3.2"."""
        return self.label(name)["text"].rpartition(" ")[2].strip("()")

    def reference(self, name: str, text: str | None = None) -> str:
        """A reference as the page shows it; to another chapter it leads to the notebook of that chapter."""
        found = self.label(name)
        text = text or found["text"]
        if found["page"] == self.page:
            return text
        return self.link(posixpath.relpath(found["page"], posixpath.dirname(self.page)), text)

    def link(self, target: str, text: str = "") -> str:
        """A link to another page of the book: chapters are notebooks in the same folder, other pages are named."""
        page = posixpath.normpath(posixpath.join(posixpath.dirname(self.page), target))
        if page not in self.pages:
            raise BookError(f"{self.page}: there is no page {page!r} to refer to.")
        title = self.pages[page]
        if posixpath.dirname(page) == posixpath.dirname(self.page):
            return f"[{text or title}]({posixpath.basename(page)}.ipynb)"
        return f"{text} [book page *{title}*]" if text and text != title else f"*{title}* [book page]"

    def tables(self, notebook: dict) -> dict[str, list[str]]:
        """{id of a cell: what the page calls the tables that it prints}."""
        return {notebook["cells"][int(at)]["id"]: texts for at, texts in self.printed.get(self.page, {}).items()}

    def cite(self, keys: list[str], textual: bool) -> str:
        """A citation as the page shows it, in the order of the bibliography, with links to the works."""
        if unknown := [key for key in keys if key not in self.citations]:
            raise BookError(f"{self.page}: the bibliography does not hold {unknown[0]!r}.")
        works = [work for key, work in self.citations.items() if key in keys]
        if textual:
            return ", ".join(f"{work['authors']} [{_linked(work['year'], work)}]" for work in works)
        return f"[{', '.join(_linked(work['authors'] + ', ' + work['year'], work) for work in works)}]"


def _linked(text: str, work: dict) -> str:
    return f"[{text}]({work['url']})" if work["url"] else text
