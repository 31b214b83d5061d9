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


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("imh-1", 0.7, "Theorem 1 speaks of the joint laws"),
        ("imh-1", 0.39, "refused"),
        ("imh-2", 0.012 / 4.2, "take the paper's"),
        ("imh-2", 1400.0, "one over it"),
        ("imh-5", 0.49 / 0.58, "q enters too"),
        ("imh-6", 1 - (998 / 999) ** 640, "that it does move"),
        ("imh-6", (1 - 0.5 / 0.999) ** 640, "odds decide"),
    ],
)
def test_a_half_done_calculation_is_told_what_is_missing(name, answer, said):
    verdict = judge(exercises.get(name), answer)
    assert not verdict.right and said in verdict.message
