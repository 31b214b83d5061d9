"""Numbers in the text: what the kernel is asked, what comes in place of the roles, and when that costs a run."""

import json

import pytest

from book.editions.learner.inline import convert
from book.editions.learner.names import Names
from book.editions.numbers import BEFORE, answered, asking, placeholders, said
from book.editions.project import BookError, notebook_key
from book.editions.source import mended


def markdown(source: str) -> dict:
    return {"cell_type": "markdown", "id": "text", "metadata": {}, "source": source}


def told(source: str, *values: str) -> str:
    return "".join(said(markdown(source), iter(values))["source"])


def asked(notebook: dict, *results: dict) -> dict:
    """The notebook as the kernel leaves it when it answers the expressions of its one cell of text so."""
    executed = asking(notebook)
    data = {"application/json": {str(place): result for place, result in enumerate(results)}}
    executed["cells"][-1]["outputs"] = [{"output_type": "display_data", "data": data, "metadata": {}}]
    return executed


def plain(text: str) -> dict:
    return {"status": "ok", "data": {"text/plain": text}, "metadata": {}}


@pytest.mark.parametrize(
    ("source", "values", "text"),
    [
        ("Of {eval}`a`, {eval}`b` are left.", ("784", "12"), "Of 784, 12 are left."),
        ("It is {eval}`a`.", ("(not run)",), "It is (not run)."),
        ("It is {eval}`a`.", ("*a* [b] $c$ <d>",), r"It is \*a\* \[b\] \$c\$ \<d\>."),
        ("{eval}`n`. Of these", ("3",), r"3\. Of these"),
        ("  - {eval}`n`", ("-",), r"  - \-"),
        ("  - {eval}`n`", ("-0.12 ± 0.03",), "  - -0.12 ± 0.03"),
        ("| {eval}`a` | {eval}`b` |", ("1|2", "3"), r"| 1\|2 | 3 |"),
        ("No role, `{eval}` alone.", (), "No role, `{eval}` alone."),
    ],
)
def test_values_stand_in_place_of_the_roles_as_plain_text(source, values, text):
    assert told(source, *values) == text


def test_a_number_that_knows_its_runs_leads_to_their_report():
    known = {"text": "1.2 | 3", "experiment": "a-b", "origin": 'a-b, "x|y": 3 runs'}
    assert told("It is {eval}`a`.", known) == r'It is [1.2 \| 3](#report-a-b "a-b, \"x\|y\": 3 runs").'
    assert convert(told("It is {eval}`a`.", known | {"text": "[1]*"}), Names("any")) == r"It is \[1\]\*."


def test_the_kernel_says_what_a_number_knows(make_notebook):
    answer = plain("'1'") | {"metadata": {"text/plain": {"origin": "b"}}}
    executed = asked(make_notebook(("text-a", "{eval}`a`")), answer)
    assert answered(executed) == [{"text": "1", "origin": "b"}]


def test_a_cell_keeps_its_other_metadata():
    cell = markdown("{eval}`a`") | {"metadata": {"tags": ["x"], "user_expressions": []}}
    assert said(cell, iter(["1"]))["metadata"] == {"tags": ["x"]}


def test_the_answers_are_those_that_jupyterlab_shows(make_notebook):
    notebook = make_notebook(("text-a", "{eval}`a` {eval}`b` {eval}`c` {eval}`d`"))
    answers = [plain(text) for text in ("'0.53 ± 0.01'", '"it\'s"', "17", "0.25")]
    assert answered(asked(notebook, *answers)) == ["0.53 ± 0.01", "it's", "17", "0.25"]


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ({"status": "error", "ename": "KeyError", "evalue": "'gone'", "traceback": []}, "raised KeyError: 'gone'"),
        (plain("np.float64(0.5)"), r"is np\.float64\(0\.5\)"),
        (plain("None"), "is None"),
        (plain("'two\\nlines'"), "is 'two"),
        ({"status": "ok", "data": {"text/plain": "'a'", "text/html": "<b>a</b>"}}, "is 'a'"),
        ({"status": "ok", "data": {}}, "is $"),
    ],
)
def test_what_cannot_be_said_names_the_cell_and_the_expression(make_notebook, result, why):
    notebook = make_notebook(("text-a", '{eval}`fine` {eval}`said["gone"]`'))
    with pytest.raises(BookError, match=rf"(?m)Markdown cell text-a: {{eval}}`said\[\"gone\"\]` {why}"):
        answered(asked(notebook, plain("1"), result))


def test_a_source_shows_a_placeholder_for_every_expression():
    cell = markdown('{eval}`said["a"]`, {eval}`b`, {eval}`said["a"]`')
    assert placeholders(cell) == [
        {"expression": name, "result": {"data": {"text/plain": BEFORE}}} for name in ('said["a"]', "b")
    ]
    notebook = {"cells": [cell | {"metadata": {"user_expressions": [{"expression": "old"}]}}], "metadata": {}}
    assert json.loads(mended(json.dumps(notebook)))["cells"][0]["metadata"]["user_expressions"] == placeholders(cell)


def test_the_key_follows_code_and_expressions_and_not_the_sentence_around_them(make_notebook):
    code, text = ("a", "x = 1"), ("text-a", "It is {eval}`x`.")

    def key(*cells, shared="shared"):
        return notebook_key(make_notebook(*cells), shared)

    for same in (("text-a", "It was {eval}`x`, they say."),), (("text-a", "Words."), ("text-b", "So {eval}`x`.")):
        assert key(code, *same) == key(code, text)
    others = [(code, ("text-a", "It is {eval}`x + 1`.")), (text, code), (code, ("a", "x")), (("a", "x = 2"), text)]
    keys = [key(code, text), key(code, text, shared="other"), *(key(*cells) for cells in others)]
    assert len({*keys, key(("a", "x = 1x"), text), key(("a", "x = 1"), ("b", "x"), text)}) == len(keys) + 2


@pytest.mark.slow
def test_a_changed_sentence_costs_no_run_and_a_changed_expression_does(scratch, make_counting):
    text = 'At first {eval}`said["a"]`.'
    again = 'Then {eval}`said["a"]` and {eval}`f"{2 / 3:.2f}"`.'
    first = make_counting(
        "One", ("set", 'said = {"a": "1.0"}'), ("text-a", text), ("more", 'said["a"] = "2.0"\n7'), ("text-b", again)
    )
    scratch.chapters(one=first)

    def built() -> list[str]:
        assert scratch.build() == 0, scratch.said
        return ["".join(cell["source"]) for cell in scratch.staged("one")["cells"] if cell["cell_type"] == "markdown"]

    assert built()[1:] == ["At first 1.0.", "Then 2.0 and 0.67."]
    copy = scratch.staged("one")
    assert [cell["id"] for cell in copy["cells"]] == [cell["id"] for cell in first["cells"]]
    assert [c["execution_count"] for c in copy["cells"] if c["cell_type"] == "code"] == [1, 2, 3, 4]
    assert copy["cells"][-2]["outputs"][0]["execution_count"] == 4

    first["cells"][4]["source"] = 'It began with {eval}`said["a"]`.'
    scratch.write("chapters/one.ipynb", first)
    assert built()[1:] == ["It began with 1.0.", "Then 2.0 and 0.67."] and scratch.runs() == ["One smoke"]

    first["cells"][4]["source"] = 'It began with {eval}`said["a"][::-1]`.'
    scratch.write("chapters/one.ipynb", first)
    assert built()[1] == "It began with 0.1." and scratch.runs() == ["One smoke"] * 2


@pytest.mark.slow
def test_an_expression_that_raises_fails_the_build(scratch, make_counting):
    text = 'It is {eval}`said["gone"]`, or {eval}`1 / 0`, or {eval}`[1]`.'
    bad = make_counting("Bad", ("set", "said = {}"), ("text-a", text), ("last", "1"))
    scratch.chapters(bad=bad)
    assert scratch.build() == 1
    assert 'FAILED chapters/bad.ipynb\n  Markdown cell text-a: {eval}`said["gone"]` raised KeyError' in scratch.said
    assert "Markdown cell text-a: {eval}`1 / 0` raised ZeroDivisionError: division by zero" in scratch.said
    assert "Markdown cell text-a: {eval}`[1]` is [1]" in scratch.said
    assert "an earlier cell has defined" in scratch.said
    assert not (scratch.root / "_build/book/chapters/bad.ipynb").exists()
