"""The learner's editions of the real chapters, where the book of this tree has been built."""

from __future__ import annotations

import ast
import json
import re

import nbformat
import pytest

from book.display import exercises
from book.editions.equations import equation_labels
from book.editions.learner import answers
from book.editions.learner.bookkeeping import without_idle
from book.editions.learner.names import FILE
from book.editions.learner.write import as_json, editions
from book.editions.project import Project, code_cells, read_notebook, source_of

RAW = re.compile(r"\{[\w:.+-]+\}`|^\s*(?:`{3,}|:{3,})\{|^\([\w:.-]+\)=|<!--", re.MULTILINE)


@pytest.fixture(scope="module")
def made(root) -> dict[str, dict]:
    """The editions of all chapters by path."""
    project = Project(root)
    if not (project.html / FILE).exists():
        pytest.skip("the book of this tree is not built (make book)")
    return editions(project, project.html)


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
        lines = re.findall(r"^\s*(.+?) = .*torch\.Generator\(", "\n".join(map(source_of, kept)), re.MULTILINE)
        shared = {word for line in lines for word in re.findall(r"\w+", line)}
        for cell in cells:
            assert cell in kept or not answers.used(source_of(cell)) & shared, (name, cell["id"])


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


def test_what_a_stub_assigns_is_read_by_no_function_of_the_chapter_that_a_slider_calls(made):
    """After an answer cell has run, a moved slider must still see the chapter's own values."""
    for name, notebook in made.items():
        cells = code_cells(notebook)
        stored = {
            node.id
            for cell in cells
            if cell["id"].endswith("-answer")
            for node in ast.walk(ast.parse(source_of(cell)))
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        for cell in cells:
            if "explore(" in source_of(cell):
                assert not stored & free_in_functions(source_of(cell)), f"{name}, cell {cell['id']}"


def free_in_functions(code: str) -> set[str]:
    """Names that functions in the code read and do not bind."""
    found = set()
    for function in ast.walk(ast.parse(code)):
        if isinstance(function, (ast.FunctionDef, ast.Lambda)):
            nodes = list(ast.walk(function))
            names = [node for node in nodes if isinstance(node, ast.Name)]
            bound = {node.arg for node in nodes if isinstance(node, ast.arg)}
            bound |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
            found |= {node.id for node in names} - bound
    return found


@pytest.mark.slow
def test_they_run_from_any_folder(made, tmp_path, monkeypatch, root):
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", str(root))
    monkeypatch.delenv("BNN_STATIC", raising=False)
    for name, notebook in made.items():
        run = nbformat.reads(as_json(notebook), as_version=4)
        NotebookClient(run, timeout=None, resources={"metadata": {"path": str(tmp_path)}}).execute()
        printed = [output.get("text", "") for cell in code_cells(run) for output in cell["outputs"]]
        assert any("not answered yet" in text or "returns nothing yet" in text for text in printed), name
