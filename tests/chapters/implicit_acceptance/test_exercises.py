"""Exercises of the implicit chapter: forms as right as the reference, and what half an answer is told."""

import pytest
import torch

from book.display import exercises
from book.display.exercises.judge import judge


def test_other_forms_of_the_acceptance_are_right():
    exercise = exercises.get("imh-3")
    assert judge(exercise, lambda x, y: torch.minimum(torch.ones_like(x), torch.exp((x - y).clamp_max(1)))).right
    assert judge(exercise, lambda x, y: torch.exp(-torch.relu(y - x)).numpy()).right


@pytest.mark.parametrize(
    "odds", [lambda v: torch.sigmoid(v) / (1 - torch.sigmoid(v)), lambda v: torch.exp(v.clamp_max(700))]
)
def test_odds_that_are_lost_are_told_so(odds):
    verdict = judge(exercises.get("imh-3"), lambda x, y: (odds(x) / odds(y)).clamp_max(1.0))
    assert not verdict.right and "difference of the logits" in verdict.message


def test_an_implied_law_that_overflows_is_told_so():
    def direct(q, logit):
        weight = q * logit.exp()
        return weight / weight.sum()

    verdict = judge(exercises.get("imh-4"), direct)
    assert not verdict.right and "subtract the largest" in verdict.message
