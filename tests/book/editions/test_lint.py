"""Every rule for chapters passes a good notebook and catches its own kind of fault; then the real chapters."""

import copy
import json
from functools import cache

import nbformat
import pytest

from book.editions import lint
from book.editions.source import CHAPTERS, Chapter, canonical, load, mended
from tests.book.editions.good_chapter import (
    CHECKS,
    CONTEXT,
    FIGURE,
    TEXT,
    add,
    change,
    chapter,
    code,
    exercises_text,
    good,
    markdown,
    parameters_late,
    solved,
    without_figure,
)

FAULTS = [
    ("canonical_file", lambda notebook: notebook | {"nbformat_minor": 4}, "nbformat 4.5"),
    ("stripped", change("svbnn-fig-idea", outputs=[{"output_type": "stream"}]), "holds outputs"),
    ("stripped", change("svbnn-fig-idea", execution_count=3), "execution count"),
    ("stripped", change("svbnn-title", metadata={"collapsed": True}), "metadata ['collapsed']"),
    ("stripped", lambda made: made | {"metadata": {"kernelspec": {"name": "my-env"}}}, "notebook's metadata must be"),
    ("stripped", change("svbnn-title", metadata={}), "a placeholder for each number"),
    ("stripped", add("Words.", user_expressions=[{"expression": "x"}]), "a placeholder for each number"),
    ("numbers_evaluated", add("It is {eval}`f(`."), "is not a Python expression"),
    ("numbers_evaluated", add("It is {eval}``x``."), "on one line"),
    ("numbers_evaluated", add("It is {eval}`x\ny`."), "on one line"),
    ("numbers_evaluated", add("It is {glue:text}`svbnn-x`."), "{glue:text}: say numbers with {eval}"),
    ("numbers_evaluated", add("from myst_nb import glue", code), "glue: say numbers with {eval}"),
    ("readable_ids", change("svbnn-solution", id="a1b2c3d4"), "must be words"),
    ("readable_ids", change("svbnn-solution", id="svbnn-Solution"), "must be words"),
    ("readable_ids", change("svbnn-solution", id="svbnn-3f9a"), "must be words"),
    ("readable_ids", change("svbnn-title", id="X"), "prefix 'X'"),
    ("readable_ids", lambda notebook: notebook | {"cells": 2 * notebook["cells"]}, "used 2 times"),
    ("parameters_cell", change("svbnn-parameters", metadata={}), "exactly one cell"),
    ("parameters_cell", change("svbnn-parameters", metadata={"tags": ["parameters"]}), "tag remove-cell"),
    ("parameters_cell", change("svbnn-parameters", source='PROFILE = "paper"\nSEED = 0'), "two lines"),
    ("parameters_cell", parameters_late, "first code cell"),
    ("known_tags", change("svbnn-solution", metadata={"tags": ["raises-exception"]}), "have no effect"),
    ("one_sentence_per_line", add("One. Two."), "more than one sentence"),
    ("one_sentence_per_line", add("- Item one. And more."), "more than one sentence"),
    ("one_sentence_per_line", add("It ends with $x$. $y$ starts."), "more than one sentence"),
    ("one_sentence_per_line", add("This goes\nover two lines."), "wrapped before: over two"),
    ("figures_described", change("svbnn-fig-idea", metadata={}), "figure name ''"),
    ("figures_described", without_figure(figure={"name": "fig-idea"}), "must be fig-svbnn-x"),
    ("figures_described", without_figure(figure={"caption": "Idea."}), "needs a caption"),
    ("figures_described", without_figure(image={"alt": "../_images/a1b2.png"}), "needs alt text"),
    ("figures_described", without_figure(image={"alt": "The prior of one weight."}), "needs alt text"),
    ("figures_described", change("svbnn-fig-move", source="curves(plot, controls, title='Move')"), "needs alt text"),
    ("figures_described", change("svbnn-title", source=TEXT.replace("nn-idea", "nn-other")), "no text refers"),
    ("figures_described", add("curves(plot, c, alt=a)", code), "figure name ''"),
    ("figures_described", add("x()", code, "svbnn-fig-again", **copy.deepcopy(FIGURE)), "used 2 times"),
    ("pictures_described", add("![image.png](image.png)"), "say what is seen"),
    ("pictures_described", add("![](image.png)"), "say what is seen"),
    ("equations_labeled", add("```{math}\n:label: elbo\nx\n```"), "must start with svbnn-"),
    ("equations_labeled", add("```{math}\n:label: svbnn-prior\nx\n```"), "used 2 times"),
    ("equations_labeled", add("See {eq}`svbnn-gone`."), "refers to an equation without"),
    ("equations_labeled", add("See {eq}`the bound <svbnn-gone>`."), "refers to an equation without"),
    ("equations_tested", add("$$\nx\n$$ (svbnn-new)"), "svbnn-new has neither"),
    ("no_typed_results", add("Our accuracy is 98.2."), "a typed result?"),
    ("no_typed_results", add("The error falls by 12 %."), "a typed result?"),
    ("no_typed_results", add("The RMSE is $1.21 \\pm 0.05$."), "a typed result?"),
    ("no_typed_results", add("- It is 3 times faster."), "a typed result?"),
    ("orders_shown", add('Ours is better, at {eval}`said["error"]`.'), "order without a paired difference"),
    ("orders_shown", add('Its error is lower by {eval}`said["noise"]`.'), "order without a paired difference"),
    ("orders_shown", add('It beats dropout by {eval}`said["gap"]` and VD by {eval}`said["noise"]`.'), "order without"),
    ("orders_shown", add("SVBNN outperforms the others."), "order of methods without"),
    ("orders_shown", add("On most sets dropout wins."), "order of methods without"),
    ("orders_shown", add("The right one is higher by {eval}`f'{gain:.2f}'`."), "no assertion looks at"),
    ("few_runs_said", add('The error is {eval}`said["once"]`.'), "once: of one or two runs"),
    ("nothing_forbidden", add("%pip install torch", code), "installs"),
    ("nothing_forbidden", add("open('/home/me/x')", code), "absolute path"),
    ("nothing_forbidden", add("x = MNIST(root, download=True)", code), "downloads by itself"),
    ("nothing_forbidden", add("from torchvision.datasets import MNIST", code), "downloads by itself"),
    ("assertions_speak", add("def f(x): assert x > 0", code), 'svbnn-more: say what was expected: assert x > 0, "..."'),
    ("short_lines", add("x = " + "1" * 85, code), "line 1 has 89 characters, at most 88"),
    ("short_cells", add("x = 1\n" * 36, code), "36 lines of code"),
    ("sizes", add("word"), "words; a chapter has 2,500 to 4,000"),
    ("sizes", add("word"), "3 code cells"),
    ("sizes", add("word"), "2 figures"),
    ("sizes", add("word"), "1 labeled equations"),
    ("sizes", add("word"), "1 exercises"),
    ("exercises_complete", exercises_text(":label: svbnn-ex-one\n", ""), "needs a :label:"),
    ("exercises_complete", exercises_text("{hint}", "{note}"), "needs a hint"),
    ("exercises_complete", exercises_text("{solution-start} svbnn-ex-one", "{note}"), "needs a solution"),
    ("exercises_complete", solved(CHECKS.replace("svbnn-3", "svbnn-9")), "no such exercise"),
    ("exercises_complete", solved(CHECKS.replace(", strict=True", "")), "at least 3"),
    ("exercises_complete", solved(CHECKS.replace("nn-3", "nn-2")), "svbnn-3 of the registry"),
    ("exercises_in_order", solved("\n".join(CHECKS.split("\n")[::-1])), "svbnn-3, svbnn-2"),
    ("exercises_in_order", solved(CHECKS.replace("svbnn-1", "svbnn-4")), "svbnn-4, svbnn-2"),
    (
        "exercises_keep_names",
        solved(f"plot, free = 1, 2\n{CHECKS}"),
        "svbnn-solution: assigns plot, which cell svbnn-fig-move reads",
    ),
    ("exercises_keep_names", solved(f"def said(): ...\n{CHECKS}"), "assigns said, which cell svbnn-title reads"),
]


@pytest.mark.parametrize("name", sorted(set(lint.RULES) - {"sizes"}))
def test_a_good_notebook_passes(name):
    assert lint.problems(chapter(good()), name) == []


def test_sizes_pass_within_their_limits(monkeypatch):
    limits = {"words": (5, 30), "code cells": (3, 3), "figures": (2, 2), "labeled equations": (1, 1)}
    limits["exercises"] = (1, 1)
    monkeypatch.setattr(lint, "SIZES", limits)
    assert lint.problems(chapter(good()), "sizes") == []


def test_the_lesson_ends_at_the_exercises_and_goes_on_behind_them():
    texts = ["## Idea\n\nOne.", "Two.", "## Exercises\n\nThree.", "Four.", "## Summary\n\nFive.", "Six."]
    cells = [{"cell_type": "markdown", "source": text} for text in texts]
    assert [cell["source"] for cell in lint.lesson(cells)] == [texts[k] for k in (0, 1, 4, 5)]


@pytest.mark.parametrize(("name", "fault", "said"), FAULTS)
def test_a_fault_is_caught(name, fault, said):
    found = lint.problems(chapter(fault(good())), name)
    assert any(said in problem for problem in found), found


def test_every_rule_has_a_fault():
    assert {name for name, _, _ in FAULTS} == set(lint.RULES)


@pytest.mark.parametrize(
    "text",
    [
        'It beats dropout by {eval}`said["gap"]`.',
        'By {eval}`said["gap"]` the error falls.\nSVBNN is better than dropout.',
        'It is better, at {eval}`said["later"]`.',
        "The paper's SVBNN is best. <!-- published -->",
        'SVBNN less dropout is {eval}`said["noise"]`, no difference.',
        'It is {eval}`said["error"]` times faster, and more than a fifth is gone.',
        "The best coin is a formula.",
        'In one run the error is {eval}`said["once"]`.',
    ],
)
def test_what_is_shown_or_no_order_passes(text):
    found = chapter(add(text)(good()))
    assert [*lint.problems(found, "orders_shown"), *lint.problems(found, "few_runs_said")] == []


def test_a_number_of_the_chapter_that_an_assertion_looks_at_shows_an_order():
    notebook = add("The right one is higher by {eval}`f'{gain:.2f}'`.")(good())
    notebook["cells"].insert(4, code("svbnn-claims", "assert gain > 2, 'so'", tags=["remove-cell"]))
    assert lint.problems(chapter(notebook), "orders_shown") == []


def test_the_median_counts_and_single_long_cells_do_not():
    long = "x = 1\n" * 9
    assert lint.problems(chapter(change("svbnn-fig-idea", source=long)(good())), "short_cells") == []
    notebook = good()
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["source"] = long
    assert "median" in lint.problems(chapter(notebook), "short_cells")[0]


def test_an_answer_cell_assigns_nothing_that_the_chapter_reads_wherever_it_reads_it():
    def found(stub: str, reader: str) -> list[str]:
        notebook = good()
        notebook["cells"].insert(4, code("svbnn-reader", reader))
        stub += '\nexercises.check("svbnn-1", answer)'
        return lint.problems(chapter(notebook, stubs={"svbnn-1": stub}), "exercises_keep_names")

    leaking = "N, spike = 10, 0.1\nanswer = ..."
    for reader in ("print(N)", "def f(x):\n    return [x * N for _ in range(3)]", "N = N + 1", "%time spike"):
        assert ("svbnn-1-answer: assigns" in "".join(found(leaking, reader))) == ("%" not in reader), reader
    for reader in ("N = 3", "def f(N):\n    return N", "print(other)", "[N for N in (1, 2)]"):
        assert found(leaking, reader) == [], reader
    assert found("def answer():\n    N, spike = 10, 0.1\n    return ...", "print(N, spike)") == []


def test_a_solution_may_read_its_own_names_in_its_text():
    notebook = solved(f"own = 1\n{CHECKS}")(good())
    notebook["cells"].append(markdown("svbnn-end", "It is {eval}`own`.\n\n```{solution-end}\n```"))
    assert lint.problems(chapter(notebook), "exercises_keep_names") == []
    notebook["cells"].append(markdown("svbnn-after", "It was {eval}`own`."))
    assert "svbnn-after reads" in lint.problems(chapter(notebook), "exercises_keep_names")[0]


def test_an_excused_equation_needs_a_reason_and_an_equation():
    def found(**context):
        return lint.problems(chapter(good(), **context), "equations_tested")

    assert found(tested=set(), excused={"svbnn-prior": "a definition, nothing to compute"}) == []
    assert "neither" in found(tested=set(), excused={"svbnn-prior": "later"})[0]
    assert "tested and excused" in found(excused={"svbnn-prior": "a definition, nothing to compute"})[0]
    assert "UNTESTED names svbnn-gone" in found(excused={"svbnn-gone": "a definition of old"})[0]
    assert found(excused={"aeb-other": "belongs to another chapter"}) == []


def test_references_to_other_chapters_are_known():
    notebook = add("See {eq}`aeb-bound`.")(good())
    assert lint.problems(chapter(notebook, known={"aeb-bound"}), "equations_labeled") == []
    assert lint.problems(chapter(notebook), "equations_labeled") != []


def test_the_canonical_form_is_the_one_of_nbformat():
    text = canonical(good())
    assert nbformat.writes(nbformat.reads(text, as_version=4)).rstrip("\n") == text.rstrip("\n")
    assert Chapter(json.dumps(good()), **CONTEXT).text != text
    assert "not in canonical form" in lint.problems(Chapter(json.dumps(good()), **CONTEXT), "canonical_file")[0]


def test_mending_repairs_form_and_leaves_content_alone():
    notebook = add("One. Two.")(good())
    notebook["cells"][2].update(outputs=[{"output_type": "stream"}], execution_count=4)
    notebook["cells"][2]["metadata"]["scrolled"] = True
    text = mended(json.dumps(notebook))
    fixed = Chapter(text, **CONTEXT)
    for name in ("canonical_file", "stripped", "one_sentence_per_line", "figures_described"):
        assert lint.problems(fixed, name) == []
    assert fixed.cells[-1]["source"] == ["One.\n", "Two."]
    assert fixed.cells[2]["metadata"] == FIGURE and mended(text) == text


@pytest.mark.slow
def test_the_command_prints_problems_and_says_so_by_its_exit_code(tmp_path, capsys):
    path = tmp_path / "00_small.ipynb"
    path.write_text(json.dumps(add("One. Two.")(good())))
    assert lint.main([str(path)]) == 1
    before = capsys.readouterr().out
    assert "one_sentence_per_line: cell svbnn-more" in before and "canonical_file" in before
    lint.main(["--fix", str(path)])
    after = capsys.readouterr().out
    assert "one_sentence_per_line" not in after and "canonical_file" not in after and "problems in 1 notebooks" in after
    for wrong in ("README.md", str(tmp_path / "nothing.ipynb")):
        with pytest.raises(SystemExit, match="2"):
            lint.main([wrong])
        assert f"no notebook: {wrong}; give files" in capsys.readouterr().err


loaded = cache(load)


@pytest.mark.slow
@pytest.mark.parametrize("name", lint.RULES)
@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_the_chapter_keeps_the_rule(path, name):
    found = lint.problems(loaded(path), name)
    assert not found, "\n".join(found)
