"""What a run shows of the cause of a difference: from its numbers, never from what is declared of it."""

from types import SimpleNamespace

import pytest

from book.lab import causes, verdicts
from book.lab.causes import Runs, Shown
from book.lab.published import Cause
from tests.book.lab.test_verdicts import make_value

CAUSE = Cause("the step", "abc-other", "the text names none", method="B")
FAR = [2.0, 2.1, 1.9]


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setattr(causes.catalog, "get", lambda name: SimpleNamespace(overlap=0.0))


def _shown(without, ours=FAR, *, suspects=(CAUSE,), monkeypatch, profile="book", failed=0):
    rows = [{"setting": "a", "method": "B", "metric": "rmse_test", "value": one} for one in without]
    monkeypatch.setattr(causes, "load_result", lambda name: {"profile": profile, "rows": rows} if name else None)
    value = make_value(mean=1.0, interesting=0.2, causes=suspects)
    return Runs().shown(value, verdicts.verdict(value, ours, failed=failed))


def test_a_run_that_lands_on_the_number_shows_the_cause(monkeypatch):
    shown = _shown([1.0, 1.01, 0.99], monkeypatch=monkeypatch)
    assert shown == Shown('the step: 1 ± 0.0058, agrees (abc-other, "B"); the text names none')
    assert shown.note == f"cause: {shown.cause}"


@pytest.mark.parametrize(
    ("without", "word"),
    [
        ([0.05, 0.06, 0.04], "better"),  # it overshoots: something else is at work as well
        ([1.6, 1.61, 1.59], "worse"),  # nearer, and not there
        ([1.0, 1.0], "undecided"),  # two runs
        ([0.4, 1.8, 0.9], "undecided"),  # too wide to tell
    ],
)
def test_all_other_runs_explain_nothing(monkeypatch, without, word):
    shown = _shown(without, monkeypatch=monkeypatch)
    assert shown.cause == "" and f", {word} (" in shown.tried
    assert shown.note == f"tried, does not explain: {shown.tried}"


def test_a_change_that_the_paper_does_not_allow_explains_nothing(monkeypatch):
    foreign = Cause("the order", "abc-other", method="B")
    shown = _shown([1.0, 1.01, 0.99], suspects=(foreign,), monkeypatch=monkeypatch)
    assert shown.cause == "" and shown.tried.endswith("nothing in the paper asks for it")
    assert _shown([1.0, 1.01, 0.99], suspects=(foreign, CAUSE), monkeypatch=monkeypatch).cause


def test_nothing_is_shown_without_a_suspect_a_run_or_a_difference(monkeypatch):
    good = [1.0, 1.01, 0.99]
    assert _shown(good, suspects=(), monkeypatch=monkeypatch) == Shown() and Shown().note == ""
    assert _shown([], monkeypatch=monkeypatch) == Shown()
    assert _shown(good, profile="smoke", monkeypatch=monkeypatch) == Shown()
    assert _shown(good, good, monkeypatch=monkeypatch) == Shown()


def test_chains_that_diverge_are_explained_by_the_same_rule(monkeypatch):
    assert _shown([1.0, 1.01, 0.99], [1.0] * 3, failed=3, monkeypatch=monkeypatch).cause
    assert not _shown([1.6, 1.61, 1.59], [1.0] * 3, failed=3, monkeypatch=monkeypatch).cause


def test_the_setting_of_the_number_is_a_part_of_a_longer_one(monkeypatch):
    for setting, found in (("{setting}, wide", [1.0, 1.01, 0.99]), ("a, {setting}", [])):
        rows = [{"setting": "a, wide", "method": "B", "metric": "rmse_test", "value": one} for one in (1.0, 1.01, 0.99)]
        monkeypatch.setattr(causes, "load_result", lambda name, rows=rows: {"profile": "book", "rows": rows})
        value = make_value(
            mean=1.0, interesting=0.2, causes=(Cause("the width", "abc-other", "allowed", setting, "B"),)
        )
        shown = Runs().shown(value, verdicts.verdict(value, FAR))
        assert bool(shown.cause) == bool(found)
