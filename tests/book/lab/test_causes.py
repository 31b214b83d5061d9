"""What a run shows of the cause of a difference: from its numbers, never from what is declared of it."""

from __future__ import annotations

import pytest

from book.lab import causes, verdicts
from book.lab.causes import Runs, Shown
from book.lab.published import Cause
from tests.book.lab.test_verdicts import make_value

CAUSE = Cause("the step", "abc-other", method="B")


def _shown(without, ours, *, cause=CAUSE, monkeypatch, profile="book", failed=0):
    rows = [{"setting": "a", "method": "B", "metric": "rmse_test", "value": one} for one in without]
    monkeypatch.setattr(causes, "load_result", lambda name: {"profile": profile, "rows": rows} if name else None)
    value = make_value(mean=1.0, interesting=0.2, causes=(cause,) if cause else ())
    mean, error = causes._moments(ours)
    return Runs().shown(value, ours, verdicts.verdict(value, mean, error, len(ours), failed=failed))


def test_a_number_that_agrees_without_the_cause_shows_it(monkeypatch):
    shown = _shown([1.0, 1.01, 0.99], [2.0, 2.1, 1.9], monkeypatch=monkeypatch)
    assert shown == Shown(whole='the step: 1 ± 0.0058 (abc-other, "B")')
    assert shown.note == f"cause: {shown.whole}"


def test_a_number_that_is_much_better_without_the_cause_shows_it_as_well(monkeypatch):
    shown = _shown([0.05, 0.06, 0.04], [2.0, 2.1, 1.9], monkeypatch=monkeypatch)  # 0.95 below, where 1.0 were above
    assert shown == Shown(whole='the step: 0.05 ± 0.0058 (abc-other, "B")')
    # by three standard errors, and with too much noise for a verdict
    assert _shown([0.4, 0.9, 0.5], [2.0, 2.1, 1.9], monkeypatch=monkeypatch).whole
    assert not _shown([0.05, 3.0, -1.0], [2.0, 2.1, 1.9], monkeypatch=monkeypatch).whole  # it could be luck


def test_what_lies_beyond_the_published_number_and_agrees_with_it_is_not_missing(monkeypatch):
    ours = [1.02, 1.06, 1.1]  # 0.06 above; two standard errors of a movement from there are 0.052
    beyond = _shown([0.965, 0.985, 1.005], ours, monkeypatch=monkeypatch)
    assert beyond == Shown(whole='the step: 0.985 ± 0.012 (abc-other, "B")')
    # as far from the published number, but on this side: 0.045 of the way could be luck
    assert _shown([0.995, 1.015, 1.035], ours, monkeypatch=monkeypatch) == Shown()


def test_one_that_is_nearer_shows_a_part(monkeypatch):
    shown = _shown([1.6, 1.61, 1.59], [2.0, 2.1, 1.9], monkeypatch=monkeypatch)
    assert shown == Shown(part='40 % of the way, the step: 1.6 ± 0.0058 (abc-other, "B")')
    assert shown.note == f"part of the cause: {shown.part}"


@pytest.mark.parametrize(
    ("without", "ours"),
    [
        ([1.95, 1.96, 1.94], [2.0, 2.1, 1.9]),  # within two standard errors
        ([1.0, 1.0], [2.0, 2.1, 1.9]),  # two runs
        ([], [2.0, 2.1, 1.9]),  # none
        ([1.0, 1.01, 0.99], [1.0, 1.01, 0.99]),  # there is nothing to be explained
    ],
)
def test_what_shows_nothing(monkeypatch, without, ours):
    assert _shown(without, ours, monkeypatch=monkeypatch) == Shown() and Shown().note == ""


def test_nothing_is_shown_without_a_declared_cause_or_by_the_smoke_profile(monkeypatch):
    good, bad = [1.0, 1.01, 0.99], [2.0, 2.1, 1.9]
    assert _shown(good, bad, cause=None, monkeypatch=monkeypatch) == Shown()
    assert _shown(good, bad, profile="smoke", monkeypatch=monkeypatch) == Shown()


def test_the_cause_of_divergence_is_gone_where_no_chain_is_lost(monkeypatch):
    survivors = [1.0, 1.01, 0.99]
    assert _shown([1.0] * 6, survivors, failed=3, monkeypatch=monkeypatch).whole
    assert _shown([1.0] * 3, survivors, failed=3, monkeypatch=monkeypatch) == Shown()


def test_the_setting_of_the_number_is_a_part_of_a_longer_one(monkeypatch):
    for setting, found in (("{setting}, wide", [1.0, 1.01, 0.99]), ("a, {setting}", [])):
        rows = [{"setting": "a, wide", "method": "B", "metric": "rmse_test", "value": one} for one in (1.0, 1.01, 0.99)]
        monkeypatch.setattr(causes, "load_result", lambda name, rows=rows: {"profile": "book", "rows": rows})
        value = make_value(mean=1.0, interesting=0.2, causes=(Cause("the width", "abc-other", setting, "B"),))
        shown = Runs().shown(value, [2.0, 2.1, 1.9], verdicts.verdict(value, 2.0, 0.058, 3))
        assert bool(shown.whole) == bool(found)
