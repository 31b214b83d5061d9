"""A chapter as the lint sees it: the notebook, the tests of its equations, its exercises, and its canonical file."""

import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from book import studies
from book.display import exercises
from book.editions.equations import equation_labels, equation_tests
from book.editions.numbers import placeholders
from book.editions.project import code_cells, source_of
from book.editions.prose import split_sentences

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
CELL_METADATA = {"tags", "mystnb"}
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}

# The stored numbers of a study as its text says them, by key, and the names of its methods; read at the first call.
Spoken = Callable[[], tuple[Mapping[str, str], Iterable[str]]]


@dataclass
class Chapter:
    """A notebook as the rules see it; `known` are equation labels of other chapters, `exercises` the registry's ids.

    `stubs` are the answer cells of these exercises by id, `spoken` are the study's stored numbers.
    """

    text: str
    tested: set[str] = field(default_factory=set)
    excused: dict[str, str] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    exercises: list[str] = field(default_factory=list)
    stubs: dict[str, str] = field(default_factory=dict)
    spoken: Spoken = lambda: ({}, ())

    def __post_init__(self) -> None:
        self.notebook = json.loads(self.text)
        self.cells = self.notebook["cells"]
        self.prefix = str(self.cells[0].get("id", "")).partition("-")[0] if self.cells else ""
        self.code = code_cells(self.notebook)
        self.markdown = [cell for cell in self.cells if cell["cell_type"] == "markdown"]
        self.prose = "\n\n".join(source_of(cell) for cell in self.markdown)


RULES: dict[str, Callable[[Chapter], Iterator[tuple[str, str]]]] = {}


def rule(function):
    """Register a rule for chapters; it yields (cell id, message)."""
    RULES[function.__name__] = function
    return function


def canonical(notebook: dict) -> str:
    """The file's one spelling: nbformat's, with an indent of 1 and sources as lists of lines."""
    cells = [{**cell, "source": source_of(cell).splitlines(keepends=True)} for cell in notebook["cells"]]
    return json.dumps({**notebook, "cells": cells}, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def mended(text: str) -> str:
    """The file as it should be, as far as no thought is needed: canonical, stripped, one sentence per line."""
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        cell["metadata"] = {key: cell["metadata"][key] for key in cell["metadata"] if key in CELL_METADATA}
        if cell["cell_type"] == "code":
            cell.update(outputs=[], execution_count=None)
        elif cell["cell_type"] == "markdown":
            cell["source"] = split_sentences(source_of(cell))
            if expressions := placeholders(cell):
                cell["metadata"]["user_expressions"] = expressions
    notebook["metadata"] = NOTEBOOK_METADATA
    return canonical(notebook)


def of_study(study: studies.Study) -> Spoken:
    """What a study's `numbers.py` says, from the store."""

    @cache
    def read() -> tuple[Mapping[str, str], Iterable[str]]:
        from book import lab

        if not (study.folder / "numbers.py").exists():
            return {}, ()
        names = [name for name in lab.names() if name.startswith(f"{study.prefix}-")]
        rows = {name.removeprefix(f"{study.prefix}-"): lab.compare(name) for name in names}
        said = importlib.import_module(f"chapters.{study.name}.numbers").numbers(rows)
        return said, {row["method"] for each in rows.values() for row in each}

    return read


def load(path: Path) -> Chapter:
    """A chapter of the book with all that the rules compare it with."""
    tested, excused = equation_tests(ROOT)
    others = (json.loads(one.read_text(encoding="utf-8")) for one in CHAPTERS if one != path.resolve())
    known = {label for other in others for label in equation_labels(other)}
    chapter = Chapter(path.read_text(encoding="utf-8"), tested, excused, known)
    chapter.exercises = [name for name in exercises.ids() if name.startswith(f"{chapter.prefix}-")]
    chapter.stubs = {name: exercises.get(name).answer_cell for name in chapter.exercises}
    for study in studies.all(ROOT / "chapters"):
        if path.resolve() == ROOT / "chapters" / study.notebook:
            chapter.spoken = of_study(study)
    return chapter
