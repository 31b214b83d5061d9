"""What a run shows of the cause of a difference: from its numbers, never from what is declared of it."""

from types import SimpleNamespace

import pytest

from book.lab import causes, verdicts
from book.lab.causes import Runs, Shown
from book.lab.published import Cause
from tests.book.lab.test_verdicts import make_value

CAUSE = Cause("the step", "abc-other", "the text names none", method="B")
FAR = [2.0, 2.1, 1.9]


@pytest.fixture
def shown(monkeypatch):
    """A function from the values of the run that a cause names to what they show."""
    monkeypatch.setattr(causes.catalog, "get", lambda name: SimpleNamespace(overlap=0.0))

    def shown(without, ours=FAR, *, suspects=(CAUSE,), profile="book", failed=0, setting="a"):
        rows = [{"setting": setting, "method": "B", "metric": "rmse_test", "value": one} for one in without]
        monkeypatch.setattr(causes, "load_result", lambda name: {"profile": profile, "rows": rows} if name else None)
        value = make_value(mean=1.0, interesting=0.2, causes=suspects)
        return Runs().shown(value, verdicts.verdict(value, ours, failed=failed))

    return shown


def test_a_run_that_lands_on_the_number_shows_the_cause(shown):
    found = shown([1.0, 1.01, 0.99])
    assert found == Shown('the step: 1 ± 0.0058, agrees (abc-other, "B"); the text names none')
    assert found.note == f"cause: {found.cause}"


@pytest.mark.parametrize(
    ("without", "word"),
    [
        ([0.05, 0.06, 0.04], "better"),  # it overshoots: something else is at work as well
        ([1.6, 1.61, 1.59], "worse"),  # nearer, and not there
        ([1.0, 1.0], "undecided"),  # two runs
        ([0.4, 1.8, 0.9], "undecided"),  # too wide to tell
    ],
)
def test_all_other_runs_explain_nothing(shown, without, word):
    found = shown(without)
    assert found.cause == "" and f", {word} (" in found.tried
    assert found.note == f"tried, does not explain: {found.tried}"


def test_a_change_that_the_paper_does_not_allow_explains_nothing(shown):
    foreign = Cause("the order", "abc-other", method="B")
    found = shown([1.0, 1.01, 0.99], suspects=(foreign,))
    assert found.cause == "" and found.tried.endswith("nothing in the paper asks for it")
    assert shown([1.0, 1.01, 0.99], suspects=(foreign, CAUSE)).cause


def test_nothing_is_shown_without_a_suspect_a_run_or_a_difference(shown):
    good = [1.0, 1.01, 0.99]
    assert shown(good, suspects=()) == Shown() and Shown().note == "" and shown([]) == Shown()
    assert shown(good, profile="smoke") == Shown() and shown(good, good) == Shown()


def test_chains_that_diverge_are_explained_by_the_same_rule(shown):
    assert shown([1.0, 1.01, 0.99], [1.0] * 3, failed=3).cause
    assert not shown([1.6, 1.61, 1.59], [1.0] * 3, failed=3).cause


def test_the_setting_of_the_number_is_a_part_of_a_longer_one(shown):
    for setting, there in (("{setting}, wide", True), ("a, {setting}", False)):
        suspect = Cause("the width", "abc-other", "allowed", setting, "B")
        assert bool(shown([1.0, 1.01, 0.99], suspects=(suspect,), setting="a, wide").cause) == there
