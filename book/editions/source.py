"""A chapter as the lint sees it: the notebook, the tests of its equations, its exercises, and its canonical file."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from book.display import exercises
from book.editions.equations import equation_labels
from book.editions.prose import split_sentences

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
CELL_METADATA = {"tags", "mystnb"}
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


@dataclass
class Chapter:
    """A notebook as the rules see it; `known` are equation labels of other chapters, `exercises` the registry's ids."""

    text: str
    tested: set[str] = field(default_factory=set)
    excused: dict[str, str] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    exercises: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.notebook = json.loads(self.text)
        self.cells = self.notebook["cells"]
        self.prefix = str(self.cells[0].get("id", "")).partition("-")[0] if self.cells else ""
        self.code = [cell for cell in self.cells if cell["cell_type"] == "code"]
        self.markdown = [cell for cell in self.cells if cell["cell_type"] == "markdown"]
        self.prose = "\n\n".join(source(cell) for cell in self.markdown)


def source(cell: dict) -> str:
    return "".join(cell["source"])


def tags(cell: dict) -> list[str]:
    return cell["metadata"].get("tags", [])


def canonical(notebook: dict) -> str:
    """The file's one spelling: nbformat's, with an indent of 1 and sources as lists of lines."""
    cells = [{**cell, "source": source(cell).splitlines(keepends=True)} for cell in notebook["cells"]]
    return json.dumps({**notebook, "cells": cells}, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def mended(text: str) -> str:
    """The file as it should be, as far as no thought is needed: canonical, stripped, one sentence per line."""
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        cell["metadata"] = {key: cell["metadata"][key] for key in cell["metadata"] if key in CELL_METADATA}
        if cell["cell_type"] == "code":
            cell.update(outputs=[], execution_count=None)
        elif cell["cell_type"] == "markdown":
            cell["source"] = split_sentences(source(cell))
    notebook["metadata"] = NOTEBOOK_METADATA
    return canonical(notebook)


def equation_tests(files: list[str]) -> tuple[set[str], dict[str, str]]:
    """(labels that a test names, {label: reason}) from the text of the files in tests/equations.

    A label is tested when it stands as a whole string inside a function `test_...` or its decorators, or behind
    `# equation:` inside the function or on the line above it. A module's dictionary UNTESTED excuses labels.
    """
    tested: set[str] = set()
    excused: dict[str, str] = {}
    for text in files:
        lines, module = text.split("\n"), ast.parse(text)
        for node in module.body:
            if isinstance(node, ast.Assign) and [getattr(t, "id", "") for t in node.targets] == ["UNTESTED"]:
                excused.update(ast.literal_eval(node.value))
        for node in ast.walk(module):
            if not (isinstance(node, ast.FunctionDef) and node.name.startswith("test_")):
                continue
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            for line in lines[max(0, first - 2) : node.end_lineno]:
                if comment := re.match(r"\s*# equation:(.+)$", line):
                    tested.update(re.findall(r"[\w-]+", comment[1]))
            constants = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
            tested.update(value for value in constants if isinstance(value, str))
    return tested, excused


def load(path: Path) -> Chapter:
    """A chapter of the book with all that the rules compare it with."""
    tests = [file.read_text(encoding="utf-8") for file in sorted((ROOT / "tests" / "equations").glob("*.py"))]
    tested, excused = equation_tests(tests)
    known = {
        label
        for other in CHAPTERS
        if other != path.resolve()
        for label in equation_labels(json.loads(other.read_text(encoding="utf-8")))
    }
    chapter = Chapter(path.read_text(encoding="utf-8"), tested, excused, known)
    chapter.exercises = [name for name in exercises.ids() if name.startswith(f"{chapter.prefix}-")]
    return chapter
