"""The comparison table as it is shown: HTML that can be read aloud, Markdown, and which columns there are."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser

import pytest

from book import lab
from book.lab import comparison

NAME = "svbnn-simulation-2"
COLUMNS = ["Setting", "Method", "Measure", "Published", "Ours", "Difference", "n", "Budget", "Data", "Verdict"]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Nothing is stored but what a test saves."""
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))


def _save(rows):
    keys = ("setting", "method", "replicate", "metric", "value", "note")
    rows = [dict(zip(keys, row, strict=False)) for row in rows]
    about = {"cells": {"total": 1, "done": 1, "failed": 0}}
    lab.save_result({"experiment": NAME, "profile": "paper", "provenance": about, "rows": rows})


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


def test_the_html_can_be_read_aloud_on_a_phone_and_in_the_dark():
    _save([("U(-1,1)", "SVBNN", i, "rmse_test", value) for i, value in enumerate((1.20, 1.22, 1.24))])
    shown = lab.table(NAME, methods=["SVBNN"], caption='A "quoted" <caption>')
    page = _Tags(shown._repr_html_())
    (region,) = page.all("div")
    assert region["role"] == "region" and region["tabindex"] == "0" and region["aria-label"] == shown.caption
    assert "overflow-x: auto" in region["style"]
    (table,) = page.all("table")
    assert table["aria-label"] == shown.caption
    scopes = [attributes["scope"] for attributes in page.all("th")]
    assert scopes.count("col") == 5 and scopes.count("rowgroup") == 1
    assert scopes.count("row") == len(shown.rows) == 5
    assert all(attributes == {"aria-hidden": "true"} for attributes in page.all("span"))
    text = "".join(page.text)
    assert "✓ agrees" in text and "– not run a" in text and "a the paper profile does not compute this measure" in text
    assert "1.21 ± 0.05" in text and "1.22 ± 0.01" in text and "+0.01 ± 0.02" in text
    assert "7,000 / 7,000 epochs" in text and "simulated" in text
    # no color of our own: both themes keep their contrast
    styles = " ".join(attributes.get("style", "") for _, attributes in page.seen)
    styles += shown._repr_html_().split("<style>")[1].split("</style>")[0]
    assert not re.search(r"color\s*:|background|#[0-9a-f]{3}|rgb", styles)


def test_text_in_cells_is_escaped():
    _save([("U(-1,1)", "SVBNN", 0, "rmse_test", 1.2), ("U(-1,1)", "SVBNN", 1, "error", math.nan, "<b>|x|</b>")])
    shown = lab.table(NAME, methods=["SVBNN"], measures=["rmse_test"])
    assert "&lt;b&gt;" in shown._repr_html_() and "<b>|x|" not in shown._repr_html_()


def test_markdown_is_a_table_with_the_same_rows():
    _save([("U(-1,1)", "SVBNN", r, "rmse_test", 1.2) for r in range(3)])
    shown = lab.table(NAME, measures=["rmse_test"], settings=["U(-1,1)"])
    lines = shown._repr_markdown_().strip().splitlines()
    assert lines[0].startswith("Simulation II") and lines[0].endswith("profile: paper") and lines[1] == ""
    assert [name.strip() for name in lines[2].strip("|").split("|")] == COLUMNS
    assert len(lines) == 4 + len(shown.rows) == 10
    assert len({line.count("|") for line in lines[2:]}) == 1
    assert "| ✓ agrees" in lines[4] and "| -0.01 ± 0.01 |" in lines[4]


def test_a_single_run_has_a_difference_without_an_error():
    _save([("U(-1,1)", "HS-BNN", 0, "sparsity", 40.0), ("U(-1,1)", "AGP", 0, "sparsity", 30.0)])
    shown = lab.table(NAME, measures=["sparsity"], methods=["HS-BNN", "AGP"]).markdown()
    assert "-1.10 ± 6.66" in shown and "? undecided: one run" in shown  # theirs is left
    assert "– by design: a level chosen by the user" in shown


def test_columns_without_anything_to_say_are_left_out(monkeypatch):
    _save([("U(-1,1)", "VD", r, "rmse_test", 1.4) for r in range(3)])
    without = lab.table(NAME, methods=["VD"], measures=["rmse_test"])
    assert "Validity" not in without.markdown() and "Budget" in without.markdown()
    with monkeypatch.context() as patch:
        patch.setattr(comparison, "state_of_rows", lambda experiment, result: lambda row: "changed since")
        said = lab.table(NAME, methods=["VD"], measures=["rmse_test"])
    assert "| Validity " in said.markdown() and "; changed since</small>" in said._repr_html_()
    extra = lab.table(NAME, methods=["VD"], measures=["sparsity"])  # not run
    assert "Budget" not in extra.markdown()
