"""The words of the comparison: the rule, branch by branch, and how published cells are counted."""

from __future__ import annotations

import pytest

from book.lab import counts, distinct, verdict
from book.lab.published import PaperValue
from book.lab.verdicts import WORDS, Verdict, beside_error, budget_obstacle, word_of


def make_value(**changes) -> PaperValue:
    given = {
        "paper": "002",
        "table": "Table 2",
        "cell": "SVBNN, Test RMSE",
        "experiment": "x",
        "setting": "a",
        "method": "SVBNN",
        "metric": "rmse_test",
        "unit": "",
        "direction": "lower",
        "nominal": None,
        "mean": 1.20,
        "sd": 0.05,
        "se": 0.01,
        "rounding": 0.005,
        "reading": 0.0,
        "tolerance": 0.0,
        "interesting": 0.06,
        "replicates": 25,
        "printed": "1.20 ± 0.05",
    }
    return PaperValue(**(given | changes))


def word(changes: dict, mean: float, se: float | None, n: int = 30, **more) -> str:
    return verdict(make_value(**changes), mean, se, n, **more).word


# make_value() with se = 0: agrees up to 0.005 + 2 * 0.01 = 0.025
@pytest.mark.parametrize(
    ("changes", "mean", "se", "expected"),
    [
        ({}, 1.225, 0.0, "agrees"),
        ({}, 1.175, 0.0, "agrees"),
        ({}, 1.2251, 0.0, "worse"),
        ({}, 1.1749, 0.0, "better"),
        ({"direction": "higher"}, 1.2251, 0.0, "better"),
        ({"direction": "higher"}, 1.1749, 0.0, "worse"),
        ({"direction": "none"}, 1.2251, 0.0, "differs"),
        ({"direction": "none"}, 1.1749, 0.0, "differs"),
        ({"direction": "nominal", "nominal": 1.0}, 1.1, 0.0, "better"),
        ({"direction": "nominal", "nominal": 1.0}, 0.75, 0.0, "worse"),
        ({"direction": "nominal", "nominal": 1.0}, 1.3, 0.0, "worse"),
        ({}, 1.2497, 0.0224, "agrees"),  # ours widens it: 2 sqrt(0.0224^2 + 0.01^2) = 0.0491
        ({"se": 0.0}, 1.205, 0.0, "agrees"),  # the rounding alone
        ({"se": 0.0}, 1.2051, 0.0, "worse"),
        ({"se": 0.0, "reading": 0.03}, 1.235, 0.0, "agrees"),
        ({"se": 0.0, "reading": 0.03}, 1.2351, 0.0, "worse"),
        ({"tolerance": 0.1}, 1.325, 0.0, "agrees"),  # added to the rounding, not in place of the standard errors
        ({"tolerance": 0.1}, 1.3251, 0.0, "worse"),
        ({"sd": 5.0}, 1.2251, 0.0, "worse"),  # one more of their replicates could be there, but not their mean
    ],
)
def test_beyond_the_margin_and_two_standard_errors_a_direction_decides(changes, mean, se, expected):
    found = verdict(make_value(**changes), mean, se, 30)
    assert (found.word, found.reason, str(found)) == (expected, "", expected)
    assert found.difference == pytest.approx(mean - 1.20)


@pytest.mark.parametrize(
    ("mean", "se", "n", "expected"),
    [
        (1.20, None, 1, "undecided: one run"),
        (1.20, 0.0, 2, "undecided: 2 runs"),
        (1.20, 0.0, 3, "agrees"),
        (1.38, None, 1, "undecided: one run"),  # exactly three interesting differences
        (1.3801, None, 1, "worse"),
        (1.0199, None, 1, "better"),
        (1.0201, 0.0, 2, "undecided: 2 runs"),
        (1.3801, 0.0, 2, "worse"),
        (1.3801, 0.1, 2, "undecided: 2 runs"),  # far, but not beyond two standard errors
    ],
)
def test_fewer_than_three_replicates_decide_only_what_is_far(mean, se, n, expected):
    assert str(verdict(make_value(), mean, se, n)) == expected


@pytest.mark.parametrize(
    ("mean", "error", "expected"),
    [
        (1.20, 0.03, "agrees"),  # 2 s is just the interesting difference
        (1.20, 0.0301, "undecided"),
        (1.27, 0.0301, "undecided"),  # beyond m + 2 s, but not far
        (1.3801, 0.0301, "worse"),  # far, and beyond m + 2 s
        (1.3801, 0.1, "undecided"),
    ],
)
def test_a_standard_error_that_hides_an_interesting_difference_decides_nothing_near(mean, error, expected):
    found = verdict(make_value(se=error), mean, 0.0, 30)
    assert found.word == expected and found.error == pytest.approx(error)
    assert bool(found.reason) is (expected == "undecided")


def test_numbers_stand_with_their_standard_error_or_with_none():
    assert verdict(make_value(se=0.0), 1.2, None, 1).error is None
    assert verdict(make_value(se=0.0), 1.2, 0.02, 3).error == 0.02
    found = verdict(make_value(se=0.03, reading=0.01), 1.2, 0.04, 3)
    assert found.error == pytest.approx(0.05) and found.margin == pytest.approx(0.015)


@pytest.mark.parametrize(
    ("failed", "n", "expected"),
    [
        (1, 9, "agrees"),  # a tenth
        (2, 18, "agrees"),
        (2, 17, "diverged: 2 of 19 replicates failed"),
        (9, 11, "diverged: 9 of 20 replicates failed"),
        (1, 1, "diverged: 1 of 2 replicates failed"),
    ],
)
def test_more_than_a_tenth_of_failed_replicates_is_a_divergence(failed, n, expected):
    assert str(verdict(make_value(), 1.20, 0.0, n, failed=failed)) == expected


def test_what_stands_between_two_numbers_comes_before_their_difference():
    fixed, other = {"by_design": "a level"}, {"not_comparable": "another teacher"}
    assert str(verdict(make_value(**fixed), 9.0, 0.0, 30)) == "by design: a level"
    assert str(verdict(make_value(**other), 1.2, 0.0, 30)) == "not comparable: another teacher"
    both = verdict(make_value(**other), 1.2, 0.0, 1, obstacles=["", "budget 8 of 500 epochs"])
    assert str(both) == "not comparable: budget 8 of 500 epochs; another teacher"
    assert both.difference == pytest.approx(0.0)
    assert word(fixed | other, 1.2, 0.0) == "by design"
    assert word(fixed | other, 1.2, 0.0, 1, failed=1) == "diverged"


@pytest.mark.parametrize(
    ("ours", "published", "expected"),
    [
        (8, 500, "budget 8 of 500 epochs"),
        (249, 500, "budget 249 of 500 epochs"),
        (250, 500, ""),  # exactly half
        (1000, 500, ""),
        (8, None, ""),  # unknown: nothing is said
    ],
)
def test_less_than_half_of_the_budget_cannot_be_compared(ours, published, expected):
    assert budget_obstacle((ours, "epochs"), published) == expected


def test_without_a_budget_of_ours_nothing_is_said():
    assert budget_obstacle(None, 500) == ""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Verdict("agrees"), "better"),
        (Verdict("better"), "better"),
        (Verdict("worse"), "differs: the test error is worse"),
        (Verdict("undecided", "one run"), "differs: the test error is undecided"),
        (None, "differs: no error is published with it"),
    ],
)
def test_a_smaller_network_is_better_only_beside_an_error_that_holds(error, expected):
    assert str(beside_error(Verdict("better"), "test error", error)) == expected
    for other in ("agrees", "worse", "differs", "undecided"):
        assert beside_error(Verdict(other), "test error", error).word == other


def _row(cell: str, said: str, paper: str = "003", published: float | None = 0.925, **more) -> dict:
    row = {"paper": paper, "cell": cell, "verdict": said, "published": published, "note": "", "n": 5}
    return row | {"budget": None, "published_budget": None} | more


def test_a_claim_about_ninety_settings_is_counted_once():
    rows = [_row("Text: between 0.9 and 0.95", "agrees") for _ in range(90)]
    assert counts(rows) == dict.fromkeys(WORDS, 0) | {
        "agrees": 1,
        "cells": 1,
        "budget known": 0,
        "budget comparable": 0,
    }
    (one,) = distinct(rows)
    assert one["rows"] == 90 and one["note"] == ""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (["agrees", "agrees", "worse"], "agrees"),
        (["better", "worse", "worse"], "worse"),
        (["agrees", "worse"], "worse"),  # of equally frequent words the less favorable one
        (["better", "agrees"], "agrees"),
        (["undecided: one run", "agrees"], "undecided"),
        (["diverged: 9 of 20 replicates failed", "undecided: one run"], "diverged"),
        (["not comparable: x", "not comparable: y", "better"], "better"),  # what was not judged has no say
        (["not run: no GPU", "not comparable: x"], "not comparable"),
        (["not run: no GPU", "not run: no GPU"], "not run"),
        (["by design: a level", "not run: no GPU"], "by design"),
    ],
)
def test_one_cell_beside_several_rows_gets_one_word(said, expected):
    rows = [_row("Table 1: x", text, mean=number) for number, text in enumerate(said)]
    (one,) = distinct(rows)
    assert word_of(one["verdict"]) == expected
    assert one["mean"] == next(k for k, text in enumerate(said) if word_of(text) == expected)
    different = len({word_of(text) for text in said}) > 1
    assert (f"beside {len(said)} rows of ours" in one["note"]) is different
    assert counts(rows)[expected] == counts(rows)["cells"] == 1


def test_cells_of_other_papers_and_rows_of_ours_alone_are_kept_apart():
    rows = [_row("Table 1: x", "agrees"), _row("Table 1: x", "worse", paper="004")]
    rows.append(_row("", "not published", published=None))
    found = counts(rows)
    assert (found["agrees"], found["worse"], found["cells"]) == (1, 1, 2)


def test_the_share_at_a_comparable_budget_is_of_what_was_run_and_is_known():
    full, half, less = ({"budget": b, "published_budget": 100} for b in (100, 50, 49))
    rows = [_row(str(k), "agrees", **one) for k, one in enumerate((full, half, less))]
    rows.append(_row("unknown", "agrees", budget=100))
    rows.append(_row("not run", "not run: no GPU", n=0, published_budget=100))
    found = counts(rows)
    assert (found["cells"], found["budget known"], found["budget comparable"]) == (5, 3, 2)
