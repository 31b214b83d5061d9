"""What the landing page shows of each chapter: a card, and an explorer to move; and where the book in one file lies."""

import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from book.editions.compared import Claims
from book.editions.lessons import PACE, Lesson
from book.editions.pictures import Picture, address, pictures
from book.editions.project import Project

# Each by its shape: a printer and many eyes know no colors. They are those of a chapter's box, `book.lab.claims.MARKS`.
MARKS = {"reproduced": "✓", "partly": "◐", "contradicted": "✗", "undecided": "?", "not tried": "–"}
TERM = re.compile(r"\{term\}`([^`<]+?)\s*(?:<[^>]+>)?`")  # a card is one link; those inside could not be reached
THUMBNAIL = 480  # pixels across, of a card that is at most half as wide on a screen
NAME = "sparse-bayes-book"  # of the file that a reader takes home
LINKED = re.compile(r'\n<p class="bnn-editions">.*?</p>')  # what `publish` writes
MOVED = "svbnn-fig-idea"  # the explorer that shows what the book is about


def tables(lessons: list[Lesson], chapters: dict[str, dict], claims: Claims) -> dict[str, Callable[[], str]]:
    """The parts of the landing page that are written by the build, by the names by which it asks for them."""
    shown = {}  # the picture that stands for a chapter, where its card names one and its run has drawn it
    for one in lessons:
        drawn = pictures(chapters.get(f"{one.document}.ipynb", {"cells": []}))
        shown.update((one.number, picture) for picture in drawn if picture.cell == one.figure)
    return {"cards": lambda: cards(lessons, claims, shown), "explorer": lambda: explorer(chapters)}


def marks(claims: list[dict]) -> str:
    """A mark for each claim of the paper, and the same in words for those who cannot see them."""
    said = Counter(one["verdict"] for one in claims)
    words = ", ".join(f"{said[word]} {word}" for word in MARKS if said[word])
    row = "".join(mark * said[word] for word, mark in MARKS.items())
    told = f"{len(claims)} claims of the paper: {words}"
    return f'<span class="bnn-marks" role="img" aria-label="{told}" title="{told}">{row}</span>'


def cards(lessons: list[Lesson], claims: Claims, shown: dict[int, Picture]) -> str:
    """A card for each chapter, with the picture `shown` of its number: aim, minutes, exercises, the paper's claims."""
    lines = [":::::{grid} 1 1 2 2", ":gutter: 3", ""]
    for one in lessons:
        able = TERM.sub(r"\1", one.able)
        lines += [f"::::{{grid-item-card}} {one.number}. {one.title}", f":link: ../{one.document}", ":link-type: doc"]
        if picture := shown.get(one.number):
            alt = " ".join(picture.alt.split())
            lines += [f":img-top: {address(picture, THUMBNAIL, 60)}", f":img-alt: {alt}"]
            lines += [":class-img-top: bnn-thumbnail"]
        lines += ["", *([f"You learn to {able}.", ""] if able else [])]
        about = f"{one.minutes} minutes, {len(one.tasks)} exercises"
        made = f"{about}<br>{marks(claims[one.study])}" if claims.get(one.study) else about
        lines += [":::{card-footer}", made, ":::", "::::", ""]
    legend = ", ".join(f"{mark} {word}" for word, mark in MARKS.items())
    lines += [":::::", "", f"Minutes are of reading, at {PACE} words each, without exercises."]
    lines += [f"The signs at the foot of a card stand for the claims of its paper, one each: {legend}."]
    return "\n".join(lines)


def explorer(chapters: dict[str, dict]) -> str:
    """The explorer as its chapter shows it; nothing where the chapter is not in the book."""
    cells = (cell for notebook in chapters.values() for cell in notebook["cells"] if cell.get("id") == MOVED)
    shown = ["".join(part.get("data", {}).get("text/html", "")) for cell in cells for part in cell["outputs"]]
    return "```{raw} html\n" + "".join(shown) + "\n```" if shown else ""


def publish(project: Project, made: Path) -> None:
    """Lay an edition beside the pages, and link what lies there from the landing page, until others are rendered."""
    shutil.copyfile(made, project.html / f"{NAME}{made.suffix}")
    files = [path for suffix in (".pdf", ".epub") if (path := project.html / f"{NAME}{suffix}").exists()]
    page = project.html / f"{project.printed[0]}.html"
    up = "../" * project.printed[0].count("/")
    links = ", ".join(
        f'<a href="{up}{path.name}">{path.suffix[1:].upper()}</a> ({path.stat().st_size / 1e6:.0f} MB)'
        for path in files
    )
    text = LINKED.sub("", page.read_text(encoding="utf-8"))
    title = text.index("</h1>", text.index("<article"))  # the theme has another for the printer before
    intro = min(at for word in ("<section", "</section") if (at := text.find(word, title)) > 0)  # ends there
    line = f'\n<p class="bnn-editions">The whole book in one file: {links}.</p>'
    whole = page.with_suffix(".part")  # so that nobody reads half a page
    whole.write_text(f"{text[:intro].rstrip()}{line}\n{text[intro:]}", encoding="utf-8")
    whole.replace(page)
