"""The words of the comparison: the rule, branch by branch, and how published cells are counted."""

import math
import statistics

import pytest

from book.editions import landing
from book.lab import counts, distinct, verdict
from book.lab.claims import MARKS
from book.lab.intervals import quantile
from book.lab.published import KINDS, PaperValue
from book.lab.verdicts import (
    NOT_PUBLISHED,
    NOT_RUN,
    SYMBOLS,
    WORDS,
    Verdict,
    at_what_price,
    beside_error,
    budget_obstacle,
    symbol,
    word_of,
)


def make_value(**changes) -> PaperValue:
    given = {"paper": "002", "table": "Table 2", "cell": "SVBNN, Test RMSE", "experiment": "x", "setting": "a"}
    given |= {"method": "SVBNN", "metric": "rmse_test", "unit": "", "direction": "lower", "nominal": None}
    given |= {"mean": 1.20, "sd": 0.05, "spreads": ((0.01, math.inf),), "rounding": 0.005, "reading": 0.0}
    given |= {"tolerance": 0.0, "interesting": 0.06, "replicates": 25, "printed": "1.20 ± 0.05"}
    return PaperValue(**(given | changes))


def numbers(mean: float, error: float, n: int) -> list[float]:
    """n numbers with that mean and that standard error of the mean."""
    if n == 1:
        return [mean]
    places = [k - (n - 1) / 2 for k in range(n)]
    scale = error * math.sqrt(n) / statistics.stdev(places)
    return [mean + scale * place for place in places]


def word(changes: dict, mean: float, error: float = 0.0, n: int = 30, **more) -> str:
    return verdict(make_value(**changes), numbers(mean, error, n), **more).word


# make_value() beside numbers without a spread: agrees up to 0.005 + 1.96 * 0.01 = 0.0246
@pytest.mark.parametrize(
    ("changes", "mean", "error", "expected"),
    [
        ({}, 1.2245, 0.0, "agrees"),
        ({}, 1.1755, 0.0, "agrees"),
        ({}, 1.2247, 0.0, "worse"),
        ({}, 1.1753, 0.0, "better"),
        ({"direction": "higher"}, 1.2247, 0.0, "better"),
        ({"direction": "higher"}, 1.1753, 0.0, "worse"),
        ({"direction": "none"}, 1.2247, 0.0, "differs"),
        ({"direction": "none"}, 1.1753, 0.0, "differs"),
        ({"direction": "nominal", "nominal": 1.0}, 1.1, 0.0, "better"),
        ({"direction": "nominal", "nominal": 1.0}, 0.75, 0.0, "worse"),
        ({"direction": "nominal", "nominal": 1.0}, 1.3, 0.0, "worse"),
        ({}, 1.2525, 0.0224, "agrees"),  # ours widens it: s = 0.0245, t = 2.02 of 41 degrees of freedom
        ({}, 1.2560, 0.0224, "worse"),
        ({"spreads": ()}, 1.205, 0.0, "agrees"),  # the rounding alone
        ({"spreads": ()}, 1.2051, 0.0, "worse"),
        ({"spreads": (), "reading": 0.03}, 1.235, 0.0, "agrees"),
        ({"spreads": (), "reading": 0.03}, 1.2351, 0.0, "worse"),
        ({"tolerance": 0.1}, 1.3245, 0.0, "agrees"),  # added to the rounding, not in place of the standard errors
        ({"tolerance": 0.1}, 1.3247, 0.0, "worse"),
        ({"sd": 5.0}, 1.2247, 0.0, "worse"),  # one more of their replicates could be there, but not their mean
        ({"spreads": ((0.01, 2),)}, 1.247, 0.0, "agrees"),  # known from three replicates: t = 4.3
    ],
)
def test_beyond_the_margin_and_t_standard_errors_a_direction_decides(changes, mean, error, expected):
    found = verdict(make_value(**changes), numbers(mean, error, 30))
    assert (found.word, found.reason, str(found)) == (expected, "", expected)
    assert found.difference == pytest.approx(mean - 1.20)


@pytest.mark.parametrize("mean", [1.20, 1.38, 99.0])
def test_fewer_than_three_replicates_decide_nothing_however_far(mean):
    assert str(verdict(make_value(), [mean])) == "undecided: one run"
    assert str(verdict(make_value(), [mean, mean])) == "undecided: 2 runs"
    assert verdict(make_value(), [mean] * 3).word == ("agrees" if mean == 1.20 else "worse")


@pytest.mark.parametrize(
    ("mean", "error", "expected"),
    [
        (1.20, 0.0306, "agrees"),  # 1.96 s is just below the interesting difference of 0.06
        (1.20, 0.0307, "undecided"),
        (1.26, 0.0307, "undecided"),
        (1.27, 0.0307, "worse"),  # beyond m + t s: decided, however wide
        (1.9, 0.3, "worse"),
        (1.7, 0.3, "undecided"),
    ],
)
def test_an_interval_that_holds_zero_and_an_interesting_difference_decides_nothing(mean, error, expected):
    found = verdict(make_value(spreads=((error, math.inf),)), [mean] * 30)
    assert found.word == expected and found.error == pytest.approx(error)
    assert bool(found.reason) is (expected == "undecided")


def test_one_published_draw_without_a_spread_varies_as_ours_do():
    ours = numbers(1.5, 0.1, 4)  # standard deviation 0.2
    alone = verdict(make_value(spreads=(), sd=None, one_draw=True), ours)
    assert alone.error == pytest.approx(0.2 * math.sqrt(1 + 1 / 4)) and alone.quantile == pytest.approx(quantile(3))
    assert verdict(make_value(spreads=(), sd=None), ours).error == pytest.approx(0.1)
    both = verdict(make_value(spreads=((0.3, math.inf),), sd=None, one_draw=True), ours)
    assert both.error == pytest.approx(math.hypot(0.3, 0.2 * math.sqrt(1 + 1 / 4)))
    printed = verdict(make_value(one_draw=True), ours)  # its own spread is known
    assert printed.error == pytest.approx(math.hypot(0.01, 0.1))


def test_random_splits_that_overlap_widen_the_interval():
    ours = numbers(1.5, 0.1, 20)
    assert verdict(make_value(spreads=()), ours, overlap=1 / 9).error == pytest.approx(0.1 * math.sqrt(1 + 20 / 9))


def test_numbers_stand_with_their_standard_error_or_with_none():
    assert verdict(make_value(spreads=()), [1.2]).error is None
    assert verdict(make_value(spreads=()), numbers(1.2, 0.02, 3)).error == pytest.approx(0.02)
    found = verdict(make_value(spreads=((0.03, math.inf),), reading=0.01), numbers(1.2, 0.04, 3))
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
    assert str(verdict(make_value(), [1.20] * n, failed=failed)) == expected


@pytest.mark.parametrize(
    ("ours", "direction", "expected"),
    [
        ([81.0, 90.0, 99.0], "higher", "agrees"),
        ([79.9, 99.0, 99.0], "higher", "worse: 1 of 3 data sets break a claim about all"),
        ([79.9, 99.0], "higher", "worse: 1 of 2 data sets break a claim about all"),  # one is enough
        ([81.0, 99.0], "higher", "undecided: 2 runs"),
        ([79.0, 78.0, 99.0], "none", "differs: 2 of 3 data sets break a claim about all"),
    ],
)
def test_a_claim_about_all_is_held_to_every_data_set(ours, direction, expected):
    value = make_value(mean=80.0, limits=(80.0, math.inf), direction=direction)
    assert str(verdict(value, ours)) == expected


def test_what_stands_between_two_numbers_comes_before_their_difference():
    fixed, other = {"by_design": "a level"}, {"not_comparable": "another teacher"}
    assert str(verdict(make_value(**fixed), [9.0] * 30)) == "by design: a level"
    assert str(verdict(make_value(**other), [1.2] * 30)) == "not comparable: another teacher"
    both = verdict(make_value(**other), [1.2], obstacles=["", "budget 8 of 500 epochs"])
    assert str(both) == "not comparable: budget 8 of 500 epochs; another teacher"
    assert both.difference == pytest.approx(0.0)
    assert word(fixed | other, 1.2, 0.0) == "by design"
    assert word(fixed | other, 1.2, n=1, failed=1) == "diverged"


def test_less_than_half_of_the_budget_cannot_be_compared():
    assert budget_obstacle((249, "epochs"), 500) == "budget 249 of 500 epochs"
    assert budget_obstacle((250, "epochs"), 500) == ""  # exactly half
    assert budget_obstacle((8, "epochs"), None) == budget_obstacle(None, 500) == ""  # unknown: nothing is said


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
    row |= {"kind": "own", "universal": False}
    return row | {"budget": None, "published_budget": None} | more


def test_a_claim_about_ninety_settings_is_counted_once():
    rows = [_row("Text: between 0.9 and 0.95", "agrees") for _ in range(90)]
    none = dict.fromkeys((*WORDS, "cells", "budget known", "budget comparable"), 0)
    assert counts(rows) == dict.fromkeys(KINDS, none) | {"own": none | {"agrees": 1, "cells": 1}}
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
    assert counts(rows)["own"][expected] == counts(rows)["own"]["cells"] == 1


def test_one_row_breaks_a_claim_about_all_and_most_rows_do_not_mend_it():
    said = ["agrees", "agrees", "worse: 1 of 9 data sets break a claim about all", "undecided: one run"]
    rows = [_row("Text: always", text, universal=True) for text in said]
    assert word_of(distinct(rows)[0]["verdict"]) == "worse"
    assert word_of(distinct([row for row in rows if "worse" not in row["verdict"]])[0]["verdict"]) == "agrees"


def test_whose_numbers_are_counted_apart():
    rows = [_row(str(k), "agrees", kind=kind) for k, kind in enumerate(("own", "rival", "rival", "oracle"))]
    assert {kind: one["agrees"] for kind, one in counts(rows).items()} == {"own": 1, "rival": 2, "oracle": 1}


@pytest.mark.parametrize(
    ("ours", "published", "searched", "expected"),
    [
        ((1000, "epochs"), 100, "", "better: at 10 times the budget"),
        ((150, "epochs"), 100, "", "better"),
        ((150, "epochs"), None, "", "better: the published budget is not known"),
        (None, 100, "a search", "better: a search"),
        ((1000, "epochs"), 100, "a search", "better: at 10 times the budget; a search"),
    ],
)
def test_a_better_number_says_its_price(ours, published, searched, expected):
    assert str(at_what_price(Verdict("better"), ours, published, searched)) == expected
    assert at_what_price(Verdict("worse"), ours, published, searched) == Verdict("worse")


def test_cells_of_other_papers_and_rows_of_ours_alone_are_kept_apart():
    rows = [_row("Table 1: x", "agrees"), _row("Table 1: x", "worse", paper="004")]
    rows.append(_row("", "not published", published=None))
    found = counts(rows)["own"]
    assert (found["agrees"], found["worse"], found["cells"]) == (1, 1, 2)


def test_the_share_at_a_comparable_budget_is_of_what_was_run_and_is_known():
    full, half, less = ({"budget": b, "published_budget": 100} for b in (100, 50, 49))
    rows = [_row(str(k), "agrees", **one) for k, one in enumerate((full, half, less))]
    rows.append(_row("unknown", "agrees", budget=100))
    rows.append(_row("not run", "not run: no GPU", n=0, published_budget=100))
    found = counts(rows)["own"]
    assert (found["cells"], found["budget known"], found["budget comparable"]) == (5, 3, 2)


def test_every_word_has_its_own_sign_which_a_claim_s_word_shares_only_if_it_is_the_same():
    signs = SYMBOLS | {NOT_RUN: symbol(NOT_RUN)}
    assert set(signs) == {*WORDS, NOT_PUBLISHED} and len(set(signs.values())) == len(signs)
    claimed = {mark: fate for fate, mark in MARKS.items()}
    shared = {word: claimed[sign] for word, sign in signs.items() if sign in claimed}
    assert shared == {"agrees": "reproduced", "undecided": "undecided", "not run": "not tried"}
    assert landing.MARKS == MARKS
