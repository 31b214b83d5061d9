"""The learner's editions of the real chapters."""

import builtins
import copy
import inspect
import json
import re
from functools import partial
from pathlib import Path

import nbformat
import pytest

from book.display import exercises
from book.editions.equations import equation_labels
from book.editions.learner import answers
from book.editions.learner.answers import binds, without_idle
from book.editions.learner.names import FILE
from book.editions.learner.write import as_json, editions
from book.editions.project import Project, code_cells, read_notebook, source_of
from tests import shell
from tests.kept import once

pytestmark = pytest.mark.slow

RAW = re.compile(r"\{[\w:.+-]+\}`|^\s*(?:`{3,}|:{3,})\{|^\([\w:.-]+\)=|<!--", re.MULTILINE)

MOVES = re.compile(r"explorer\(|\bcurves\(")  # live here, frames in the book


@pytest.fixture(scope="module")
def made(root, built_book) -> dict[str, dict]:
    """The editions of all chapters by path."""
    return editions(Project(root), built_book)


def markdown(notebook: dict) -> str:
    return "\n\n".join(source_of(cell) for cell in notebook["cells"] if cell["cell_type"] == "markdown")


def test_they_are_valid_small_and_without_outputs(made):
    for name, notebook in made.items():
        text = as_json(notebook)
        nbformat.validate(nbformat.reads(text, as_version=4))
        assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"]), name
        assert not any(cell["outputs"] or cell["execution_count"] for cell in code_cells(notebook)), name
        assert len(text) < 150_000, name


def test_nothing_raw_is_left(made, root):
    labels = set(json.loads((Project(root).html / FILE).read_text())["labels"])
    for name, notebook in made.items():
        text = markdown(notebook)
        assert not RAW.findall(text), name
        assert not labels & set(re.findall(r"[\w:-]+", text)), name


def test_all_equations_of_the_source_have_their_numbers(made, root):
    labels = json.loads((Project(root).html / FILE).read_text())["labels"]
    for name, notebook in made.items():
        source = json.loads((Project(root).staging / name).read_text())
        wanted = [labels[label]["text"].strip("()") for label in equation_labels(source)]
        assert re.findall(r"\\tag\{([^}]+)\}", markdown(notebook)) == wanted, name


def test_what_an_edition_leaves_out_takes_no_noise_from_what_it_keeps(root):
    """Otherwise all later draws of the notebook would be others than those that its text tells of."""
    for name in Project(root).notebooks:
        cells = code_cells(read_notebook(root / name))
        kept = without_idle(cells)
        for cell in cells:
            assert cell in kept or not answers.used(source_of(cell)) & generators(kept), (name, cell["id"])


def generators(cells: list[dict]) -> set[str]:
    """Names of the sources of noise that the cells share."""
    lines = re.findall(r"^\s*(.+?) = .*torch\.Generator\(", "\n".join(map(source_of, cells)), re.MULTILINE)
    return {word for line in lines for word in re.findall(r"\w+", line)}


def without_pictures(cells: list[dict], executed: list[dict]) -> list[dict]:
    """The cells but for those that only draw what the book has drawn by the same lines, which has all that they name.

    A picture stays that moves, that later cells use something of, or that takes noise from a source that is shared.
    """
    drawn = {source_of(cell) for cell in executed if "figure" in cell["metadata"].get("mystnb", {})}
    kept, later, noise = [], set(), generators(cells)
    for at, cell in reversed(list(enumerate(cells))):
        code = source_of(cell)
        if code in drawn and not (MOVES.search(code) or binds(code) & later or answers.used(code) & noise):
            known = set().union(dir(builtins), {"display"}, *(binds(source_of(one)) for one in cells[:at]))
            assert answers.used(code) - binds(code) <= known, cell["id"]
            continue
        kept.append(cell)
        later |= answers.used(code)
    return kept[::-1]


def test_every_checked_exercise_has_its_answer_cell_before_the_solutions(made):
    found = []
    for notebook in made.values():
        at = next(i for i, cell in enumerate(notebook["cells"]) if cell["id"].endswith("-solutions"))
        before = code_cells({"cells": notebook["cells"][:at]})
        cells = [cell for cell in before if cell["id"].endswith("-answer")]
        found += [name for cell in cells for name in answers.checked(source_of(cell))]
        assert not any("exercises.check(" in source_of(cell) for cell in before if cell not in cells)
        assert not any("strict=True" in source_of(cell) for cell in cells)
    assert sorted(found) == sorted(exercises.ids())


def answered_wrongly(notebook: dict) -> dict:
    """A copy in which a learner has typed something into every second answer cell, and left the others."""
    notebook = copy.deepcopy(notebook)
    for cell in [cell for cell in code_cells(notebook) if cell["id"].endswith("-answer")][::2]:
        typed = re.sub(r"^(answer =|    return) \.\.\.", r"\1 0.5", source_of(cell), flags=re.MULTILINE)
        cell["source"] = re.sub(r"^    \.\.\.", "    return 0.5", typed, flags=re.MULTILINE)
    return notebook


def test_they_run_from_any_folder_answered_wrongly_or_not_at_all(made, tmp_path, root):
    """With all answers right they run in the book, which has each solution in the answer's place, and every picture."""
    project = Project(root)

    def run(name: str, cells: list[str]) -> None:
        # live explorers, and without a window: the book has drawn the same pictures
        said = shell.printed(cells, str(tmp_path), BNN_STATIC="", MPLBACKEND="agg")
        assert any("not answered yet" in text or "returns nothing yet" in text for text in said), name
        assert any("✗" in text and "Hint:" in text for text in said), name

    for name, notebook in made.items():
        executed = code_cells(read_notebook(project.staging / name))
        cells = [source_of(cell) for cell in without_pictures(code_cells(answered_wrongly(notebook)), executed)]
        parts = [json.dumps(cells), project.shared_key("smoke"), project.study_key(name), inspect.getsource(shell)]
        once(project.build / "tested", f"{Path(name).name}.answered", parts, partial(run, name, cells))
