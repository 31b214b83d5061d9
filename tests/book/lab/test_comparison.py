"""The comparison table: which rows it has and what they say."""

import math
from dataclasses import replace

import numpy as np
import pytest

from book import lab
from book.lab import Cell, CellResult, Experiment, catalog, claim_rows, comparison
from book.lab.causes import Shown

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
    experiment = Experiment(NAME, "Simulation II", profiles, run_cell, unavailable=unavailable)
    monkeypatch.setattr(catalog, "table", lambda: {NAME: (__name__, experiment)})
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    return tmp_path


def _save(rows, profile="book", arrays=None, **more):
    keys = ("setting", "method", "replicate", "metric", "value", "note")
    rows = [dict(zip(keys, row, strict=False)) for row in rows]
    about = {"cells": {"total": 1, "done": 1, "failed": 0}} | more
    lab.save_result({"experiment": NAME, "profile": profile, "provenance": about, "rows": rows}, arrays)


def _find(rows, method, metric, setting="U(-1,1)"):
    (row,) = [row for row in rows if (row["setting"], row["method"], row["metric"]) == (setting, method, metric)]
    return row


def test_without_results_every_published_number_is_there_and_says_why(home):
    rows = lab.compare(NAME)
    assert len(rows) == 28 and {row["verdict"] for row in rows} == {"not run: two hours of a GPU"}
    assert all(row["mean"] is None and row["n"] == 0 for row in rows)
    book = lab.compare(NAME, "book")
    assert book[0]["verdict"] == f"not run: no result stored; python -m book run {NAME} --profile book"


def test_means_errors_and_verdicts(home):
    _save([("U(-1,1)", "SVBNN", i, "rmse_test", value) for i, value in enumerate((1.20, 1.22, 1.24))])
    row = _find(lab.compare(NAME), "SVBNN", "rmse_test")
    assert row["mean"] == pytest.approx(1.22)
    assert row["sd"] == pytest.approx(0.02) and row["se"] == pytest.approx(0.02 / math.sqrt(3))
    assert (row["n"], row["profile"], row["verdict"]) == (3, "book", "agrees")
    assert (row["published"], row["published_sd"], row["printed"]) == (1.21, 0.05, "1.21 ± 0.05")
    assert row["note"] == "3 of the paper's 30 replicates"
    assert (row["paper"], row["cell"]) == ("002", "Table 2: SVBNN, Test RMSE")
    theirs = math.hypot(0.05 / math.sqrt(30), 1.21 / math.sqrt(20_000))  # replicates, and the test set
    assert row["difference"] == pytest.approx(0.01) and row["margin"] == pytest.approx(0.005)
    assert row["published_se"] == pytest.approx(theirs)
    assert row["error"] == pytest.approx(math.hypot(row["se"], theirs))
    assert (row["budget"], row["published_budget"], row["data"], row["state"]) == (None, 7000.0, "simulated", "")
    other = _find(lab.compare(NAME), "VD", "rmse_test")
    assert other["verdict"] == "not run: the book profile leaves this cell out"
    assert (other["difference"], other["error"], other["margin"], other["data"]) == (None, None, None, "")
    assert _find(lab.compare(NAME), "SVBNN", "fnr")["verdict"].endswith("profile does not compute this measure")


def test_a_cell_that_no_profile_can_have_says_why(home, monkeypatch):
    _save([("U(-1,1)", "SVBNN", 0, "rmse_test", 1.2)])
    values, also = comparison.paper_values(NAME)
    known = [replace(one, not_run="the file is not at hand") for one in values]
    monkeypatch.setattr(comparison, "paper_values", lambda name: (known, also))
    rows = lab.compare(NAME)
    assert _find(rows, "VD", "rmse_test")["verdict"] == "not run: the file is not at hand"
    assert _find(rows, "SVBNN", "rmse_train")["verdict"] == "not run: the book profile does not compute this measure"


@pytest.mark.parametrize("ours", [9.0, 1.43])
def test_what_a_run_shows_of_a_cause_stands_in_the_row(home, monkeypatch, ours):
    _save([("U(-1,1)", "VD", i, "rmse_test", ours) for i in range(3)])
    monkeypatch.setattr(comparison.Runs, "shown", lambda self, value, found: Shown(f"why {found.word}"))
    row = _find(lab.compare(NAME), "VD", "rmse_test")
    why = "why worse" if ours == 9.0 else "why undecided"
    assert row["cause"] == why and row["tried"] == "" and row["note"].endswith(f"cause: {why}")


def test_a_cell_that_is_still_to_come_is_not_finished(home):
    _save([("N(0,1)", "SVBNN", 0, "rmse_test", 6.0)])
    row = _find(lab.compare(NAME), "SVBNN", "rmse_test")
    assert row["verdict"] == "not run: the book profile has not finished this cell"


def test_failed_replicates_are_counted_once_whatever_number_of_measures_failed(home):
    """Every measure of a replicate that diverged leaves a row; 9 of 20 failed, not 18 of 29."""
    rows = [("U(-1,1)", "SVBNN", r, "rmse_test", 1.2 + 0.001 * r) for r in range(11)]
    for replicate in range(11, 20):
        rows += [("U(-1,1)", "SVBNN", replicate, "error", math.nan, f"{name} is NaN") for name in ("rmse_test", "kl")]
    _save(rows)
    row = _find(lab.compare(NAME), "SVBNN", "rmse_test")
    assert row["verdict"] == "diverged: 9 of 20 replicates failed" and row["n"] == 11
    assert "9 of 20 replicates failed (rmse_test is NaN)" in row["note"]


def test_survivors_of_what_is_not_published_are_called_diverged_too(home):
    rows = [("elsewhere", "SVBNN", r, "rmse_test", 1.2) for r in range(9)]
    _save([*rows, ("elsewhere", "SVBNN", 9, "error", math.nan, "NaN")])
    assert _find(lab.compare(NAME), "SVBNN", "rmse_test", "elsewhere")["verdict"] == "not published"  # a tenth
    _save([*rows[1:], ("elsewhere", "SVBNN", 9, "error", math.nan, "NaN")])
    found = _find(lab.compare(NAME), "SVBNN", "rmse_test", "elsewhere")
    assert found["verdict"] == "diverged: 1 of 9 replicates failed"


def test_a_replicate_counts_for_the_measures_that_it_has(home):
    rows = [("U(-1,1)", "SVBNN", r, "rmse_test", 1.2) for r in range(3)]
    _save([*rows, ("U(-1,1)", "SVBNN", 2, "error", math.nan, "kl is NaN")])
    row = _find(lab.compare(NAME), "SVBNN", "rmse_test")
    assert (row["n"], row["verdict"]) == (3, "agrees") and "failed" not in row["note"]


def test_a_method_that_always_failed_diverged(home):
    bad = ("error", float("nan"), "the loss is NaN")
    _save([("U(-1,1)", "VD", 0, *bad), ("U(-1,1)", "VD", 1, *bad), ("elsewhere", "VD", 0, *bad)])
    rows = lab.compare(NAME)
    row = _find(rows, "VD", "rmse_test")
    assert (row["verdict"], row["mean"]) == ("diverged: 2 of 2 replicates failed", None)
    assert "2 of 2 replicates failed (the loss is NaN)" in row["note"]
    assert _find(rows, "VD", "error", "elsewhere")["verdict"] == "diverged: 1 of 1 replicates failed"


def test_the_smoke_profile_is_shown_but_never_judged(home):
    _save([("U(-1,1)", "SVBNN", 0, "rmse_test", 1.21)], "smoke")
    row = _find(lab.compare(NAME), "SVBNN", "rmse_test")
    assert (row["mean"], row["se"], row["sd"], row["n"]) == (1.21, None, None, 1)
    assert row["verdict"] == "not run: only the smoke profile, too small for a verdict"


def test_settings_of_the_text_are_laid_beside_the_same_table_with_a_note(home):
    _save([("N(0,1)", "SVBNN", 0, "rmse_test", 6.0), ("N(0,1)", "SVBNN", 0, "coverage_predictive", 95.0)])
    rows = lab.compare(NAME)
    row = _find(rows, "SVBNN", "rmse_test", "N(0,1)")
    assert row["published"] == 1.21 and row["verdict"].startswith("not comparable: other inputs")
    assert "its published code drew U(-1,1)" in row["verdict"]
    assert not [row for row in rows if row["setting"] == "N(0,1)" and row["method"] == "VD"]
    extra = _find(rows, "SVBNN", "coverage_predictive", "N(0,1)")
    assert (extra["published"], extra["verdict"]) == (None, "not published")


def test_helper_metrics_stay_out(home):
    _save([("U(-1,1)", "SVBNN", 0, "kl", 100.0), ("U(-1,1)", "SVBNN", 0, "rmse_test", 1.2)])
    assert "kl" not in {row["metric"] for row in lab.compare(NAME)}


def _declare(monkeypatch, **changes):
    """Change what the experiment declares."""
    experiment = replace(lab.get(NAME), **changes)
    monkeypatch.setattr(catalog, "table", lambda: {NAME: (__name__, experiment)})


@pytest.mark.parametrize(
    ("ours", "expected"), [(3499, "not comparable: budget 3,499 of 7,000 epochs"), (3500, "agrees"), (9000, "agrees")]
)
def test_the_budget_of_the_cell_decides_whether_the_numbers_can_be_compared(home, monkeypatch, ours, expected):
    _declare(monkeypatch, budget=lambda cell: (ours, "epochs"))
    _save([("U(-1,1)", "SVBNN", r, "rmse_test", 1.21) for r in range(3)])
    row = _find(lab.compare(NAME), "SVBNN", "rmse_test")
    assert (row["verdict"], row["budget"], row["budget_unit"]) == (expected, ours, "epochs")


def test_the_budget_is_that_of_the_cell_behind_the_row(home, monkeypatch):
    """A cell may hold several settings, or be the source of several methods."""
    budgets = {("U(-1,1)", "SVBNN"): 7, ("U", "SVBNN"): 8, ("U(-1,1)", "VD"): 9}
    cells = [Cell(setting, method, (0,), {"epochs": epochs}) for (setting, method), epochs in budgets.items()]
    _declare(
        monkeypatch,
        profiles={"book": lambda: cells},
        budget=lambda cell: (cell.params["epochs"], "epochs"),
        sources={"AGP": "VD"},
    )
    rows = [("U(-1,1)", "SVBNN"), ("U(-2,2)", "SVBNN"), ("U(-1,1)", "AGP"), ("N(0,1)", "LOT")]
    _save([(*where, 0, "rmse_test", 1.0) for where in rows])
    found = lab.compare(NAME)
    assert [_find(found, method, "rmse_test", setting)["budget"] for setting, method in rows] == [7, 8, 9, 7]


@pytest.mark.parametrize(("rmse", "expected"), [(1.21, "better"), (1.5, "differs: the test RMSE is worse")])
def test_a_sparser_network_is_better_only_where_it_errs_no_more(home, rmse, expected):
    rows = [("U(-1,1)", "SVBNN", r, "rmse_test", rmse) for r in range(3)]
    _save(rows + [("U(-1,1)", "SVBNN", r, "sparsity", 1.0) for r in range(3)])
    assert _find(lab.compare(NAME), "SVBNN", "sparsity")["verdict"] == expected


def test_the_data_set_is_named_as_the_copy_that_was_used(home, monkeypatch):
    cells = [Cell("U(-1,1)", "SVBNN", (0,), {"network": {"data": "cifar10"}})]
    _declare(monkeypatch, profiles={"book": lambda: cells})
    for fingerprint, title in (
        ("192923e96cc7388a1f13f5909dac540ed338664efd103a03d480e084fc5b15eb", "CIFAR-10, 1.9 % lossy"),
        ("the published one", "CIFAR-10"),
    ):
        _save([("U(-1,1)", "SVBNN", 0, "rmse_test", 1.2)], data={"cifar10": fingerprint})
        assert _find(lab.compare(NAME), "SVBNN", "rmse_test")["data"] == title


def test_a_row_says_what_is_wrong_with_its_validity(home, monkeypatch):
    _save([("U(-1,1)", "SVBNN", 0, "rmse_test", 1.21)])
    monkeypatch.setattr(comparison, "state_of_rows", lambda experiment, result: lambda row: f"{row['method']} changed")
    rows = lab.compare(NAME)
    assert _find(rows, "SVBNN", "rmse_test")["state"] == "SVBNN changed"
    assert _find(rows, "VD", "rmse_test")["state"] == ""


def test_measures_that_follow_from_stored_arrays_stand_beside_the_stored_ones(home, monkeypatch):
    def derived(arrays):
        row = {"setting": "U(-1,1)", "method": "SVBNN", "metric": "mse_test"}
        return [row | {"replicate": key[2], "value": float(value[-1])} for key, value in sorted(arrays.items())]

    _declare(monkeypatch, derived=derived)
    assert all(row["n"] == 0 for row in lab.compare(NAME)), "nothing follows from what is not stored"
    arrays = {f"U(-1,1)|SVBNN|{k}|curve": np.array([9.0, 2.0 + k]) for k in range(3)}
    _save([("U(-1,1)", "SVBNN", 0, "rmse_test", 1.2)], arrays=arrays)
    row = _find(lab.compare(NAME), "SVBNN", "mse_test")
    assert (row["values"], row["verdict"]) == ([2.0, 3.0, 4.0], "not published")


def test_an_infinite_likelihood_says_why(home):
    _save([("U(-1,1)", "SVBNN", 0, "nll", math.inf), ("U(-1,1)", "SVBNN", 1, "nll", 2.0)])
    row = _find(lab.compare(NAME), "SVBNN", "nll")
    assert row["mean"] == math.inf and row["se"] is None
    assert row["note"] == "infinite in 1 of 2 replicates: a label's probability was rounded to zero"


def test_rows_of_a_better_profile_that_has_begun_take_the_others_place(home, monkeypatch):
    def cells(seeds, epochs):
        methods = ("SVBNN", "VD", "AGP")
        return [Cell("U(-1,1)", method, (seed,), {"epochs": epochs}) for method in methods for seed in range(seeds)]

    profiles = {"book": lambda: cells(1, 5), "paper": lambda: cells(2, 50)}
    _declare(monkeypatch, profiles=profiles)

    def store(profile, value, chosen):
        rows = [
            {"setting": "U(-1,1)", "method": cell.method, "replicate": cell.replicates[0], "metric": metric}
            | {"value": value}
            for cell in chosen
            for metric in ("rmse_test", *(["rmse_train"] if profile == "book" else []))
        ]
        abouts = [{"id": cell.label, "cell": cell.as_json(), "rows": len(rows) // len(chosen)} for cell in chosen]
        total = len(profiles[profile]())
        about = {"cells": {"total": total, "done": len(chosen), "failed": 0}}
        result = {"experiment": NAME, "profile": profile, "provenance": about, "cells": abouts, "rows": rows}
        lab.save_result(result)

    store("book", 2.0, cells(1, 5))
    store("paper", 1.0, cells(2, 50)[:3])  # both replicates of SVBNN, one of VD
    rows = lab.compare(NAME)
    found = {method: _find(rows, method, "rmse_test") for method in ("SVBNN", "VD", "AGP")}
    assert {method: (row["profile"], row["mean"], row["n"]) for method, row in found.items()} == {
        "SVBNN": ("paper", 1.0, 2),
        "VD": ("book", 2.0, 1),  # one of two replicates is no result of the paper's profile
        "AGP": ("book", 2.0, 1),
    }
    train = [row["method"] for row in rows if row["metric"] == "rmse_train" and row["n"]]
    assert sorted(train) == ["AGP", "VD"], "a method's measures are all of one profile"
    assert len({(row["method"], row["metric"]) for row in rows}) == len(rows)
    assert {row["profile"] for row in lab.compare(NAME, "book") if row["n"]} == {"book"}
    cell = NAME, "U(-1,1)", "SVBNN"
    assert list(lab.stored_values(*cell, "rmse_test")) == [1.0, 1.0]
    assert list(lab.stored_values(*cell, "rmse_test", "book")) == [2.0]
    assert "profile paper" in str(lab.number(lab.stored_values(*cell, "rmse_test").mean()).origin)
    assert lab.paired_difference(*cell, "VD", "rmse_test")[::2] == (0.0, 1), "a pair is of one profile"
    claim_rows._rows.cache_clear()
    (said,) = claim_rows.Row(NAME, method="SVBNN", metric="rmse_test", minus="VD", says="below").evidence()
    claim_rows._rows.cache_clear()
    assert said.text.endswith("rmse_test, less VD: 0 (n = 1)") and said.holds is None
