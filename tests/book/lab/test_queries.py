"""Questions to stored results, and what a text says of them."""

import math
from types import SimpleNamespace

import pytest

from book import lab
from book.lab import queries, wording
from book.lab.wording import PM


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [(None, "{:.1f}", "(not run)"), (0, "{}", "0"), (0.256, "{:.2f}", "0.26"), ("a, b", "{}", "a, b")],
)
def test_a_number_is_formatted_and_a_missing_one_says_so(value, form, text):
    assert lab.number(value, form) == text


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setattr(queries.catalog, "get", lambda name: SimpleNamespace(overlap=1.0 if name == "splits" else 0.0))


def stored(profile: str = "book", **values: list[float]) -> dict:
    rows = [
        {"setting": "s", "method": method, "metric": "error", "replicate": replicate, "value": value}
        for method, numbers in values.items()
        for replicate, value in enumerate(numbers)
    ]
    return {"profile": profile, "rows": rows}


def parts(monkeypatch, *found: dict) -> None:
    """Store these, and nothing else."""
    monkeypatch.setattr(queries, "stored_parts", lambda name, profile=None: list(found))


def test_a_paired_difference_is_taken_over_common_replicates(monkeypatch):
    parts(monkeypatch, stored(a=[1.0, 2.0, 4.0], b=[0.5, 1.0, 2.0, 9.0]))
    mean, error, n = queries.paired_difference("any", "s", "a", "b", "error")
    assert (mean, n) == (pytest.approx(3.5 / 3), 3)
    assert error == pytest.approx(math.sqrt(7 / 12) / math.sqrt(3))  # of 0.5, 1 and 2


def test_smoke_and_missing_results_have_no_difference(monkeypatch):
    parts(monkeypatch, stored("smoke", a=[1.0, 2.0], b=[0.5, 1.0]))
    mean, error, n = queries.paired_difference("any", "s", "a", "b", "error")
    assert math.isnan(mean) and math.isnan(error) and n == 0

    def nothing(name, profile=None):
        raise queries.NotStoredError(name)

    monkeypatch.setattr(queries, "stored_parts", nothing)
    assert queries.paired_difference("any", "s", "a", "b", "error")[2] == 0


@pytest.mark.parametrize(
    ("other", "ordered"),
    [([0.5, 1.5, 3.6], True), ([0.5, 1.5, 3.9], False), ([0.5, 2.6, 3.5], False), ([0.5, 1.5], False), ([0.5], None)],
)
def test_an_order_is_read_from_three_paired_runs_and_beyond_t_errors(monkeypatch, other, ordered):
    parts(monkeypatch, stored(a=[1.0, 2.0, 4.0], b=other))
    said = lab.difference("any", "s", "a", "b", "error")
    assert said.ordered is ordered and said == {3: said, 2: f"+0.50{PM}0.00", 1: "(not run)"}[len(other)]
    assert lab.difference("any", "s", "a", "b", "error", 1, sign=-1.0)[0] in "−+("


def test_a_text_knows_the_runs_behind_it():
    row = {"setting": "s", "method": "a", "metric": "error", "profile": "book", "mean": 0.25, "n": 2}
    mean = lab.stored_mean([row], "s", "a", "error")
    assert lab.number(mean, "{:.1f}").runs == 2 and lab.number(mean, runs=7).runs == 7
    assert lab.number(0.25).runs is None and lab.number(None).runs is None
    assert lab.number(3, ordered=True).ordered and wording.Said("3") == "3"
    assert repr(lab.gap(0.5, 0.1, 10)) == f"'+0.50{PM}0.10'"  # which a page shows
    assert lab.gap(-1e-9, 0.1, 10) == f"+0.00{PM}0.10"  # zero has no minus


def test_a_metric_that_no_table_lists_has_rows_too_stored_or_derived(monkeypatch):
    cells = [("A", 0, "sigma", 1.0), ("A", 1, "sigma", 2.0), ("B", 1, "sigma", 3.0), ("A", 0, "rmse_test", 9.0)]
    keys = ("method", "replicate", "metric", "value")
    rows = [dict(zip(keys, one, strict=True)) | {"setting": "a"} for one in cells]
    rows.append({"setting": "a", "method": "B", "replicate": 0, "metric": "error", "value": math.nan})
    result = {"profile": "book", "rows": rows}
    derived = {"setting": "a", "method": "A", "replicate": 4, "metric": "last", "value": 5.0}
    about = SimpleNamespace(derived=lambda arrays: [derived], profiles={}, renamed={})
    parts(monkeypatch, result)
    monkeypatch.setattr(queries, "load_arrays", lambda name, profile: {})
    monkeypatch.setattr(queries.catalog, "get", lambda name: about)
    found = [(one["method"], one["replicates"], one["values"], one["n"]) for one in queries.unlisted("x", "sigma")]
    assert found == [("A", [0, 1], [1.0, 2.0], 2), ("B", [1], [3.0], 1)]
    words = [one["verdict"] for one in queries.unlisted("x", "sigma")]
    assert words == ["not published", "diverged: 1 of 2 replicates failed"]
    assert [(one["values"], one["verdict"]) for one in queries.unlisted("x", "last")] == [([5.0], "not published")]
    assert queries.unlisted("x", "rmse_test") == []  # tables have it
    parts(monkeypatch, result | {"profile": "smoke"})
    assert queries.unlisted("x", "sigma") == []


def test_a_mean_of_stored_runs_and_a_difference_know_them(monkeypatch):
    """What is told is counted again here, from the rows."""
    result = stored(a=[1.0, 2.0, 4.0], b=[0.5, 1.0, 2.0])
    cells = [{"rows": 3, "commit": commit * 7, "cell": {"epochs": 10}} for commit in "xy"]
    parts(monkeypatch, result := result | {"cells": cells})
    budget = SimpleNamespace(overlap=0.0, budget=lambda cell: (1_000, "epochs"))
    monkeypatch.setattr(queries.catalog, "get", lambda name: budget)
    monkeypatch.setattr(wording, "cell_of", lambda about: about)
    told = "3 runs (seeds 0 to 2), 1,000 epochs, standard error"
    mean = lab.number(lab.stored_values("any", "s", "a", "error").mean(), "{:.1f}")
    assert mean == "2.3" and mean.runs == 3
    assert str(mean.origin) == f"any, s, a, all measures: {told} 0.88, profile book, commit xxxxxxx"
    about = {"experiment": "any", "origin": str(mean.origin)}
    assert mean._repr_mimebundle_() == ({"text/plain": "'2.3'"}, {"text/plain": about})
    less = lab.difference("any", "s", "a", "b", "error")
    assert str(less.origin) == f"any, s, a minus b, all measures: {told} 0.44, profile book, commits xxxxxxx, yyyyyyy"
    # what is computed from runs is no mean of them: it is said what it is computed from
    left = lab.number(100 - lab.stored_values("any", "s", "a", "error").mean(), "{:.1f}")
    assert str(left.origin) == f"Computed from {mean.origin}" and left.runs is None
    twice = lab.number((2 * lab.stored_values("any", "s", "a", "error")).mean(), "{:.1f}")
    assert twice.origin == left.origin
    result["rows"] = []
    assert str(mean.origin) == "" and mean._repr_mimebundle_()[1] == {"text/plain": {}}
