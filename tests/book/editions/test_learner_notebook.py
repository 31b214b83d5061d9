"""The learner's edition of a whole chapter: order, folding, captions, answer cells; and who may overwrite it."""

import json
from dataclasses import replace

import nbformat
import pytest

from book.display.exercises import Exercise, registry
from book.editions.learner.names import Names
from book.editions.learner.notebook import edition
from book.editions.learner.write import as_json, offer, state
from tests.book.editions.test_learner_text import HERE as PAGE
from tests.book.editions.test_learner_text import label

PARAMETERS = ("here-parameters", 'PROFILE = "smoke"', {"tags": ["parameters", "remove-cell"]})
POSED = """````{exercise} Half
:label: here-ex-half
What is half of one?

```{hint}
Two of it are one.
```
````

```{solution-start} here-ex-half
:class: dropdown
```"""
SOLVED = "```{solution-end}\n```"
STUB = Exercise("here-1", "number", lambda: 0.5, "whole = 1.0\nanswer = ...")


NAMES = Names(
    PAGE,
    {
        "here-ex-half": label("exercise", "Exercise 3.1"),
        "here-ex-open": label("exercise", "Exercise 3.2"),
        "here-fig": label("figure", "Figure 3.1"),
    },
    {"work": {"authors": "A", "year": "1999", "url": None, "entry": "A. Book. 1999."}},
    {PAGE: "Here"},
)


@pytest.fixture
def make(make_notebook, monkeypatch):
    """``make(*cells)`` -> the edition of a chapter of these cells, by cell id."""
    monkeypatch.setattr(registry, "ids", lambda prefix=None: [STUB.id])
    monkeypatch.setattr("book.display.exercises.get", {STUB.id: STUB}.__getitem__)

    def made(*cells, printed=None):
        names = replace(NAMES, printed={PAGE: printed or {}})
        notebook = edition(
            make_notebook(("text-title", "# Here"), PARAMETERS, *cells), names, ("Install it.", "prepare()")
        )
        nbformat.validate(nbformat.reads(as_json(notebook), as_version=4))
        return {cell["id"]: cell for cell in notebook["cells"]}

    return made


def hidden(cell: dict) -> bool:
    return cell["metadata"].get("jupyter", {}).get("source_hidden", False)


def test_it_begins_with_what_to_install_and_keeps_the_parameters_open(make):
    cells = make()
    assert next(iter(cells.values()))["source"] == "Install it."
    assert cells["here-parameters"]["metadata"] == {"tags": ["parameters"]}


def test_bookkeeping_is_merged_and_hidden_with_its_output(make):
    silent = {"tags": ["remove-cell"]}
    cells = make(("one", "a = 1", silent), ("two", "b = 2", silent), ("three", "a + b"))
    assert cells["one"]["source"] == "a = 1\n\nb = 2" and "two" not in cells
    assert cells["one"]["metadata"]["jupyter"] == {"outputs_hidden": True, "source_hidden": True}
    assert not hidden(cells["three"])


def test_bookkeeping_that_nothing_uses_is_gone(make):
    cells = make(
        ("claims", "wins = True\nassert wins", {"tags": ["remove-cell"]}),
        ("share", "import math\ndef share(x):\n    return math.pi * x", {"tags": ["remove-cell"]}),
        ("glue", "glue('here-value', share(1))", {"tags": ["remove-cell"]}),
        ("shown", "%time share(2)", {}),
    )
    assert "claims" not in cells and "glue" not in cells
    assert hidden(cells["share"])


def test_captions_and_numbers_stand_under_figures_and_tables(make):
    shown = {"mystnb": {"figure": {"name": "here-fig", "caption": "As {cite:t}`work` has it."}}, "tags": ["hide-input"]}
    cells = make(("plot", "draw()", shown), ("rows", "table()"), printed={"3": ["Table 3.1", "Table 3.2"]})
    order = list(cells)
    assert order[order.index("plot") + 1] == "plot-caption"
    assert cells["plot-caption"]["source"] == "**Figure 3.1.** As A [1999] has it." and hidden(cells["plot"])
    assert "outputs_hidden" not in cells["plot"]["metadata"]["jupyter"]
    assert cells["rows-tables"]["source"] == "**Table 3.1** and **Table 3.2** are those above."


def test_an_exercise_has_its_answer_cell_and_its_solution_comes_last_and_folded(make):
    solved = ("here-solution", 'exercises.check("here-1", 1 / 2, strict=True)')
    cells = make(("text-ex", POSED), solved, ("text-end", f"Divide.\n\n{SOLVED}"), ("text-cite", "End {cite}`work`."))
    order = list(cells)
    solutions = "here-solutions here-solutions-each here-ex-half-solved here-solution here-ex-half-solved-1"
    assert order[-8:] == ["here-1-answer", "text-cite", "03-references", *solutions.split()]
    assert cells["text-ex"]["source"].startswith("> **Exercise 3.1 (Half).**\n>\n> What is half of one?\n\n<details>")
    assert cells["here-1-answer"]["source"] == (
        "from book.display import exercises\n\n# here-1: a number, to 3 significant digits\n"
        'def answer():\n    whole = 1.0\n    return ...\n\n\nexercises.check("here-1", answer)'
    )
    assert cells["here-solutions"]["metadata"] == {"jp-MarkdownHeadingCollapsed": True}
    assert cells["here-solution"]["metadata"]["jupyter"] == {"outputs_hidden": True, "source_hidden": True}
    assert cells["here-ex-half-solved"]["source"] == "### Exercise 3.1 (Half)"
    assert cells["here-ex-half-solved"]["metadata"] == {"jp-MarkdownHeadingCollapsed": True}
    assert "<details>" in cells["here-ex-half-solved-1"]["source"]
    assert "Divide." in cells["here-ex-half-solved-1"]["source"]
    assert cells["03-references"]["source"] == "## References\n\n- A. Book. 1999."


def test_the_folded_section_ends_with_text_so_that_it_stays_folded(make):
    solved = ("here-solution", 'exercises.check("here-1", 1 / 2, strict=True)')
    cells = make(("text-ex", POSED), solved, ("text-end", SOLVED))
    assert list(cells)[-2:] == ["here-solution", "here-solutions-end"]


def test_an_exercise_without_a_check_has_an_empty_cell(make):
    cells = make(
        ("text-ex", "```{exercise}\n:label: here-ex-open\nWhy?\n```"),
        ("text-solution", "```{solution} here-ex-open\nBecause.\n```"),
    )
    assert cells["text-ex"]["source"] == "> **Exercise 3.2.**\n>\n> Why?"
    assert cells["here-ex-open-answer"]["source"].startswith("# Your answer")
    assert "Because." in cells["here-ex-open-solved-1"]["source"]


def notebook_saying(make_notebook, text: str) -> dict[str, dict]:
    return {f"{PAGE}.ipynb": edition(make_notebook(("text-title", text), PARAMETERS), NAMES, ("", ""))}


def test_what_a_learner_wrote_is_not_overwritten(make_notebook, tmp_path):
    said: list[str] = []
    first, second = (notebook_saying(make_notebook, text) for text in ("Old.", "New."))
    [path] = offer(first, tmp_path, said.append)
    mine = json.loads(path.read_text())
    mine["cells"][3]["source"] = ["PROFILE = 'book'"]
    path.write_text(json.dumps(mine))
    assert state(path)[1]

    offer(first, tmp_path, said.append)  # the same edition again: nothing to say
    assert said == []
    offer(second, tmp_path, said.append)
    assert json.loads(path.read_text()) == mine and "New." in path.with_suffix(".new.ipynb").read_text()
    assert "03_here.ipynb holds your changes" in said[0]


def test_a_notebook_that_was_only_run_is_renewed(make_notebook, tmp_path):
    first, second = (notebook_saying(make_notebook, text) for text in ("Old.", "New."))
    [path] = offer(first, tmp_path)
    run = json.loads(path.read_text())
    run["cells"][3].update(execution_count=1, outputs=[{"output_type": "stream", "name": "stdout", "text": "run"}])
    path.write_text(json.dumps(run))
    offer(first, tmp_path)
    assert json.loads(path.read_text()) == run  # nothing new: the outputs stay
    offer(second, tmp_path)
    assert "New." in path.read_text() and "run" not in path.read_text()


def test_a_file_of_another_making_is_left_alone(make_notebook, tmp_path):
    (tmp_path / "03_here.ipynb").write_text("{half a file")
    said: list[str] = []
    offer(notebook_saying(make_notebook, "New."), tmp_path, said.append)
    assert (tmp_path / "03_here.ipynb").read_text() == "{half a file" and len(said) == 1
