"""What the chapters say of themselves: what a reader can do afterwards, how long they are, what they ask."""

import re
from dataclasses import dataclass
from pathlib import Path

from book import studies
from book.editions.learner.answers import checked
from book.editions.learner.directives import Directive, parse
from book.editions.project import Project, source_of

ABLE = re.compile(r"After this chapter you can (.+?)\.\n", re.DOTALL)
PACE = 150  # words a minute, of a text with formulas
SHORTEST = 5  # minutes: nobody knows reading times to less


@dataclass(frozen=True)
class Task:
    """An exercise of a chapter."""

    label: str  # by which the pages refer to it
    title: str  # of it
    ids: tuple[str, ...]  # the checks of its parts, by which the registry knows them; none where nothing can be checked


@dataclass(frozen=True)
class Lesson:
    """A chapter: its path without the suffix, its exercises in order, and what its card says."""

    document: str
    number: int
    title: str
    study: str
    able: str  # what a reader can do afterwards; "" where the chapter does not say
    minutes: int  # of reading, without exercises
    tasks: tuple[Task, ...]
    figure: str = ""  # id of the cell whose picture stands for it; "" where its card names none


def read(project: Project, chapters: dict[str, dict]) -> list[Lesson]:
    """The lessons of the chapters that belong to a study, in order."""
    known = {f"chapters/{one.notebook}": one for one in studies.all(project.root / "chapters")}
    return [lesson(known[name], notebook) for name, notebook in chapters.items() if name in known]


def lesson(study: studies.Study, notebook: dict) -> Lesson:
    """One chapter."""
    words, tasks, told = 0, {}, ""
    solving = ""  # label of the exercise whose solution the cells belong to
    for cell in notebook["cells"]:
        text = source_of(cell)
        if cell["cell_type"] != "markdown":
            if solving:
                tasks[solving][1].extend(checked(text))
            continue
        for piece in parse(text):
            name = piece.name if isinstance(piece, Directive) else ""
            if name == "exercise":
                tasks[piece.options["label"]] = (piece.argument or "Exercise", [])
            elif name == "solution-start":
                solving = piece.argument
            elif name == "solution-end":
                solving = ""
            elif not solving and not name:
                words += len(" ".join(piece.lines).split())
        told = told or text
    found = ABLE.search(f"{told}\n")
    return Lesson(
        document=f"chapters/{Path(study.notebook).stem}",
        number=study.number,
        title=study.title,
        study=study.name,
        able=" ".join(found[1].split()) if found else "",
        minutes=max(SHORTEST, SHORTEST * round(words / PACE / SHORTEST)),
        tasks=tuple(Task(label, title, tuple(ids)) for label, (title, ids) in tasks.items()),
        figure=study.figure,
    )
