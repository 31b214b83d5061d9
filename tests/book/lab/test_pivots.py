"""The small table of a lesson: measures side by side, at most ten rows, verdicts in words."""

import re

import pytest

from book import lab
from tests.book.rows import row

RUNS = (1.0, 1.1, 1.2)


def table(rows, measures=("rmse_test",), **more):
    return lab.pivot(rows, measures, caption="A caption", **more)


def test_a_cell_has_both_numbers_and_the_verdict_as_sign_and_word():
    shown = table([row(values=RUNS, published=1.14, verdict="worse")])
    assert "| M      | 1.10 ± 0.06 ▼ worse (1.14) |" in shown._repr_markdown_()
    page = shown._repr_html_()
    assert '<span title="worse" aria-hidden="true">▼</span><span class="bnn-aloud"> worse</span>' in page
    assert "<br><small>(1.14)</small>" in page and '<th scope="row">M</th>' in page
    assert re.search(r'<span aria-hidden="true">▼</span> worse</small></p>', page)  # the key to the signs


def test_measures_are_columns_and_gaps_are_dashes():
    rows = [row(method="A", values=RUNS), row(method="A", metric="accuracy", values=(90.0,)), row(method="B")]
    lines = table(rows, ["accuracy", "rmse_test"])._repr_markdown_().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in (lines[2], *lines[4:])]
    assert cells == [["Method", "test accuracy (%)", "test RMSE"], ["A", "90.00", "1.10 ± 0.06"], ["B", "–", "not run"]]


def test_settings_have_a_column_only_where_they_differ_and_keep_the_order_asked_for():
    rows = [row(s, m, values=RUNS) for s in ("x", "y") for m in ("A", "B")]
    shown = table(rows, settings=["y", "x"], methods=["B", "A"])
    assert shown.lines == [("y", "B"), ("y", "A"), ("x", "B"), ("x", "A")]
    assert "| Setting | Method |" in shown._repr_markdown_() and "| x       | B" in shown._repr_markdown_()
    assert "Setting" not in table(rows, settings=["x"])._repr_markdown_()
    once = [f'<th scope="rowgroup" rowspan="2">{one}</th><th scope="row">B</th>' for one in "xy"]
    assert [shown._repr_html_().count(one) for one in once] == [1, 1]


def test_the_smoke_profile_counts_as_not_run():
    text = table([row(values=RUNS, published=1.1, verdict="not run: smoke", profile="smoke")])._repr_markdown_()
    assert "| not run (1.1)" in text and "1.10 ±" not in text


def test_means_of_one_run_and_of_two_are_called_that():
    rows = [row("x", "A", values=RUNS), row("x", "B", values=(1.0,)), row("y", "B", values=(1.0, 1.2))]
    note = "; where ours has no ±, one run; two runs: B on y"
    assert table(rows)._repr_markdown_().startswith(f"A caption{note}\n") and note in table(rows)._repr_html_()
    assert "run" not in table(rows[:1])._repr_markdown_()
    assert "where" not in lab.pivot(rows, ["rmse_test"], caption="B, one run")._repr_markdown_()


def test_a_limit_that_one_data_set_breaks_is_said_to_be_a_claim_about_every_one():
    limit = {"values": (91.0, 79.0, 79.0), "published": 80.0, "universal": True, "printed": "≥ 80"}
    shown = table([row(**limit, verdict="worse: 2 of 3 data sets break a claim about all")])
    note = "; a published limit (≥, ≤) is a claim about every data set, and one of ours can break it"
    assert "83.0" in shown._repr_markdown_() and shown._repr_markdown_().startswith(f"A caption{note}\n")
    assert f"{note}. <span" in shown._repr_html_()
    assert note not in table([row(values=RUNS, published=1.4, verdict="worse")])._repr_html_()


def test_every_word_has_a_sign_of_its_own_in_the_key():
    rows = [row(method=word, values=RUNS, published=1.0, verdict=word) for word in lab.verdicts.WORDS[:-1]]
    signs = re.findall(r'<span aria-hidden="true">(.)</span> [\w ]+(?=,|</small>)', table(rows)._repr_html_())
    assert len(signs) == len(set(signs)) == len(rows) and "–" not in signs


def test_more_than_ten_rows_are_refused_with_what_to_do():
    rows = [row(f"s{k}", values=RUNS) for k in range(11)]
    with pytest.raises(ValueError, match=r"11 rows.*at most 10.*settings="):
        table(rows)
    assert len(table(rows, settings=[f"s{k}" for k in range(10)]).lines) == 10


def test_unknown_names_say_what_there_is():
    with pytest.raises(lab.ExperimentError, match=r"unknown metric 'accuracy'.*rmse_test"):
        table([row(values=RUNS)], ["accuracy"])
    with pytest.raises(lab.ExperimentError, match="unknown method 'B'"):
        table([row(values=RUNS)], methods=["B"])


def test_text_is_escaped():
    page = table([row(method="<b>", values=RUNS, published=1.0, verdict='undecided: "few"')])._repr_html_()
    assert "<b>" not in page and "&lt;b&gt;" in page and 'title="undecided: &quot;few&quot;"' in page


def test_an_experiment_can_be_named():
    shown = lab.pivot("svbnn-simulation-2", ["rmse_test"], settings=["U(-1,1)"], methods=["SVBNN", "VBNN"])
    assert shown.caption == lab.get("svbnn-simulation-2").summary
    assert shown.lines == [("U(-1,1)", "SVBNN"), ("U(-1,1)", "VBNN")]
