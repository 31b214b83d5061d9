"""The comparison table: which rows it has, what it says, and how it is shown."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser

import pytest

from book import lab
from book.lab import Cell, CellResult, Experiment, ExperimentError, catalog

NAME = "svbnn-simulation-2"


def run_cell(cell, device, checkpoint):
    return CellResult([])


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Stored results of an experiment that has the published numbers of Table 2."""

    def cells():
        return [Cell("U(-1,1)", "SVBNN", (0, 1))]

    profiles = {"smoke": cells, "book": cells, "paper": cells}
    unavailable = {"paper": "not run: two hours of a GPU"}
    experiment = Experiment(NAME, "002", "Simulation II", profiles, run_cell, unavailable=unavailable)
    monkeypatch.setattr(catalog, "table", lambda: {NAME: (__name__, experiment)})
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    return tmp_path


def _save(rows, profile="book", done=1):
    keys = ("setting", "method", "replicate", "metric", "value", "note")
    rows = [dict(zip(keys, row, strict=False)) for row in rows]
    about = {"cells": {"total": 1, "done": done, "failed": 0}}
    lab.save_result({"experiment": NAME, "profile": profile, "provenance": about, "rows": rows})


def _find(rows, method, metric, setting="U(-1,1)"):
    (row,) = [row for row in rows if (row["setting"], row["method"], row["metric"]) == (setting, method, metric)]
    return row


def test_without_results_every_published_number_is_there_and_says_why(home):
    rows = lab.compare(NAME)
    assert len(rows) == 28
    assert {row["verdict"] for row in rows} == {"not run: two hours of a GPU"}
    assert all(row["mean"] is None and row["n"] == 0 for row in rows)
    book = lab.compare(NAME, "book")
    assert book[0]["verdict"] == f"not run: no result stored; python -m book run {NAME} --profile book"


def test_means_errors_and_verdicts(home):
    _save([("U(-1,1)", "SVBNN", i, "rmse_test", value) for i, value in enumerate((1.20, 1.22, 1.24))])
    row = _find(lab.compare(NAME), "SVBNN", "rmse_test")
    assert row["mean"] == pytest.approx(1.22)
    assert row["sd"] == pytest.approx(0.02) and row["se"] == pytest.approx(0.02 / math.sqrt(3))
    assert (row["n"], row["profile"], row["verdict"]) == (3, "book", "reproduced")
    assert (row["published"], row["published_sd"], row["printed"]) == (1.21, 0.05, "1.21 ± 0.05")
    assert row["note"] == "3 of the paper's 30 replicates"
    assert row["cell"] == "Table 2: SVBNN, Test RMSE"
    other = _find(lab.compare(NAME), "VD", "rmse_test")
    assert other["verdict"] == "not run: the book profile leaves this cell out"
    assert _find(lab.compare(NAME), "SVBNN", "fnr")["verdict"].endswith("profile does not compute this measure")


def test_a_cell_that_is_still_to_come_is_not_finished(home):
    _save([("N(0,1)", "SVBNN", 0, "rmse_test", 6.0)])
    row = _find(lab.compare(NAME), "SVBNN", "rmse_test")
    assert row["verdict"] == "not run: the book profile has not finished this cell"


def test_one_replicate_has_no_spread(home):
    _save([("U(-1,1)", "SVBNN", 0, "rmse_test", 1.21)])
    row = _find(lab.compare(NAME), "SVBNN", "rmse_test")
    assert (row["se"], row["sd"], row["n"], row["verdict"]) == (None, None, 1, "reproduced")


def test_failed_replicates_are_counted_and_a_failed_method_is_not_run(home):
    bad = ("error", float("nan"), "the loss is NaN")
    _save(
        [
            ("U(-1,1)", "SVBNN", 0, "rmse_test", 1.2),
            ("U(-1,1)", "SVBNN", 1, *bad),
            ("U(-1,1)", "VD", 0, *bad),
            ("elsewhere", "VD", 0, *bad),
        ]
    )
    rows = lab.compare(NAME)
    assert "1 of 2 replicates failed (the loss is NaN)" in _find(rows, "SVBNN", "rmse_test")["note"]
    assert _find(rows, "VD", "rmse_test")["verdict"] == "not run: failed (the loss is NaN)"
    assert _find(rows, "VD", "error", "elsewhere")["verdict"] == "not run: failed (the loss is NaN)"


def test_the_smoke_profile_is_shown_but_never_judged(home):
    _save([("U(-1,1)", "SVBNN", 0, "rmse_test", 1.21)], "smoke")
    row = _find(lab.compare(NAME), "SVBNN", "rmse_test")
    assert row["mean"] == 1.21
    assert row["verdict"] == "not run: only the smoke profile, too small for a verdict"


def test_settings_of_the_text_are_laid_beside_the_same_table_with_a_note(home):
    _save([("N(0,1)", "SVBNN", 0, "rmse_test", 6.0), ("N(0,1)", "SVBNN", 0, "coverage_predictive", 95.0)])
    rows = lab.compare(NAME)
    row = _find(rows, "SVBNN", "rmse_test", "N(0,1)")
    assert row["published"] == 1.21 and row["verdict"] == "not reproduced"
    assert "its published code drew U(-1,1)" in row["note"]
    assert not [row for row in rows if row["setting"] == "N(0,1)" and row["method"] == "VD"]
    extra = _find(rows, "SVBNN", "coverage_predictive", "N(0,1)")
    assert (extra["published"], extra["verdict"]) == (None, "not published")


def test_helper_metrics_stay_out(home):
    _save([("U(-1,1)", "SVBNN", 0, "kl", 100.0), ("U(-1,1)", "SVBNN", 0, "rmse_test", 1.2)])
    assert "kl" not in {row["metric"] for row in lab.compare(NAME)}


def test_unknown_names_are_refused(home):
    with pytest.raises(ExperimentError, match=f"Did you mean '{NAME}'"):
        lab.compare("svbnn-simulation2")
    with pytest.raises(ExperimentError, match=r"unknown profile 'bok'\. Did you mean 'book'"):
        lab.compare(NAME, "bok")
    with pytest.raises(ExperimentError, match="unknown method 'SVB'"):
        lab.table(NAME, methods=["SVB"])


class _Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.text = [], [], []
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.seen if name == tag]


def test_the_html_can_be_read_aloud_on_a_phone_and_in_the_dark(home):
    _save([("U(-1,1)", "SVBNN", i, "rmse_test", value) for i, value in enumerate((1.20, 1.22))])
    shown = lab.table(NAME, methods=["SVBNN"], caption='A "quoted" <caption>')
    page = _Tags(shown._repr_html_())
    (region,) = page.all("div")
    assert region["role"] == "region" and region["tabindex"] == "0" and region["aria-label"] == shown.caption
    assert "overflow-x: auto" in region["style"]
    assert len(page.all("caption")) == 1
    scopes = [attributes["scope"] for attributes in page.all("th")]
    assert scopes.count("col") == 7 and scopes.count("row") == len(shown.rows) == 5
    assert all(attributes == {"aria-hidden": "true"} for attributes in page.all("span"))
    text = "".join(page.text)
    assert "✓ reproduced" in text and "– not run: the book profile does not compute this measure" in text
    assert "1.21 ± 0.05" in text and "1.210 ± 0.010" not in text and "1.21 ± 0.01" in text
    # no color of our own: both themes keep their contrast
    styles = " ".join(attributes.get("style", "") for _, attributes in page.seen)
    styles += shown._repr_html_().split("<style>")[1].split("</style>")[0]
    assert not re.search(r"color\s*:|background|#[0-9a-f]{3}|rgb", styles)


def test_text_in_cells_is_escaped(home):
    _save([("U(-1,1)", "SVBNN", 0, "rmse_test", 1.2), ("U(-1,1)", "SVBNN", 1, "error", math.nan, "<b>|x|</b>")])
    shown = lab.table(NAME, methods=["SVBNN"], measures=["rmse_test"])
    assert "&lt;b&gt;" in shown._repr_html_() and "<b>" not in shown._repr_html_()


def test_markdown_is_a_table_with_the_same_rows(home):
    _save([("U(-1,1)", "SVBNN", 0, "rmse_test", 1.2)])
    shown = lab.table(NAME, measures=["rmse_test"])
    lines = shown._repr_markdown_().strip().splitlines()
    assert lines[0].startswith("Simulation II; profile: book") and lines[1] == ""
    assert len(lines) == 4 + len(shown.rows) == 10
    assert len({line.count("|") for line in lines[2:]}) == 1
    assert "| ✓ reproduced" in lines[4]
