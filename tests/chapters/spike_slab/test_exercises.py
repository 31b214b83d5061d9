"""Exercises on variational spike-and-slab networks: forms as right as the reference, and digits that get lost."""

import math

import pytest
import torch
import torch.nn.functional as F

from book.display import exercises
from book.display.exercises.judge import judge


def coin(logit, lam, off=None, log_off=None):
    """The divergence of svbnn-6, with another probability of the closed gate and another prior logarithm."""
    off = torch.sigmoid(-logit) if off is None else off
    log_off = math.log1p(-lam) if log_off is None else log_off
    return torch.sigmoid(logit) * (F.logsigmoid(logit) - math.log(lam)) + off * (F.logsigmoid(-logit) - log_off)


def direct(logit, lam):
    phi = torch.sigmoid(logit)
    return phi * torch.log(phi / lam) + (1 - phi) * torch.log((1 - phi) / (1 - lam))


def test_a_gate_is_right_by_its_law_whichever_end_of_u_opens_it():
    exercise = exercises.get("svbnn-5")
    assert judge(exercise, lambda logit, u: u < torch.sigmoid(logit)).right
    assert judge(exercise, lambda logit, u: (u > 1 - torch.sigmoid(logit)).int()).right
    assert judge(exercise, lambda logit, u: (logit - torch.log1p(-u) + torch.log(u) > 0).double().numpy()).right


def test_each_form_of_the_gate_opens_with_probability_phi():
    exercise = exercises.get("svbnn-5")
    u = (torch.arange(10_000, dtype=torch.float64) + 0.5) / 10_000
    for logit in (-3.0, 0.0, 2.0):
        for form in (exercise.reference(), *exercise.accepted):
            share = form(torch.full_like(u, logit), u).double().mean()
            assert share == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-4)  # the step of u


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (lambda logit, lam: coin(logit, lam, off=1 - torch.sigmoid(logit)), "1 - phi is sigmoid(-logit)"),
        (lambda logit, lam: coin(logit, lam, log_off=math.log(1 - lam)), "1 - lambda or 1 - phi rounds away"),
        (direct, "with logsigmoid"),
    ],
)
def test_a_form_that_loses_digits_is_right_on_ordinary_logits_alone(changed, said):
    exercise = exercises.get("svbnn-6")
    assert judge(exercise, coin).right
    verdict = judge(exercise, changed)
    assert not verdict.right and "right on the ordinary tests" in verdict.message and said in verdict.message


def test_one_minus_phi_is_wrong_by_more_than_rounding_where_both_terms_are_small():
    (logit, lam), *_ = [case for stress in exercises.get("svbnn-6").stress for case in stress() if case[1] > 0.99]
    right = exercises.get("svbnn-6").reference()(logit, lam)
    error = (coin(logit, lam, off=1 - torch.sigmoid(logit)) / right - 1).abs().max()
    assert error > 1e-4  # nine digits are asked; 1e-16 of rounding beside terms of 1e-12
    assert (coin(logit, lam) / right - 1).abs().max() < 1e-12
