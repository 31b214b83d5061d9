"""Reference answers of the exercises on closed-form inclusion probabilities, against brute force."""

import math

import pytest
import torch

from book.display import exercises
from book.display.exercises.judge import judge


def test_at_the_threshold_spike_and_slab_are_equally_probable():
    r = exercises.get("sbnn-5").reference()
    prior = ((0.25, math.exp(-1)), (0.75, math.exp(-3)))
    slab, spike = (share * math.exp(-(r**2) / (2 * s**2)) / s for share, s in prior)
    assert slab == pytest.approx(spike, rel=1e-9)


def test_the_closed_form_is_where_the_numeric_derivative_of_the_penalty_is_zero():
    from bnnlib.functional import mixture_prior
    from chapters.closed_form.formulas import spike_slab_penalty

    exercise = exercises.get("sbnn-1")
    for mean, scale, *prior in exercise.cases():
        p = exercise.reference()(mean, scale, *prior).requires_grad_()
        slope = torch.autograd.grad(spike_slab_penalty(mean, scale, p, mixture_prior(*prior)).sum(), p)[0]
        # the second derivative is 1 / (p (1 - p)), so rounding p moves the slope by about eps / (1 - p)
        assert (slope * (1 - p)).abs().max() < 1e-12


def test_the_far_cases_are_beyond_what_a_probability_can_hold():
    exercise = exercises.get("sbnn-2")
    (far,) = exercise.stress
    odds = torch.stack([exercise.reference()(*case) for case in far()])
    assert (torch.sigmoid(odds) == 1).any() and odds.min() < -30

    def through_p(mean, scale, *prior):
        return torch.logit(exercises.get("sbnn-1").reference()(mean, scale, *prior))

    message = judge(exercise, through_p).message
    assert "right on the ordinary tests" in message and "never compute p" in message


def test_a_plain_power_of_two_overflows():
    def plain(num_batches):
        r = [2.0 ** (num_batches - i) / (2.0**num_batches - 1) for i in range(1, num_batches + 1)]
        return torch.tensor(r, dtype=torch.float64)

    verdict = judge(exercises.get("sbnn-9"), plain)
    assert not verdict.right and "2^M overflows" in verdict.message and "OverflowError" in verdict.message


def test_the_weights_of_the_minibatches_add_up_and_halve():
    r = exercises.get("sbnn-9").reference()(20)
    assert float(r.sum()) == pytest.approx(1.0, rel=1e-12)
    assert (r[:-1] / r[1:]).tolist() == pytest.approx([2.0] * 19, rel=1e-9)


def test_what_is_left_by_each_order():
    # r = 1.002, 0.055, 1.02, 0.308; |m| / sigma = 14, 0.8, 0, 4.3; |m| = 1, 0.035, 0, 0.3
    assert exercises.get("sbnn-3").reference().tolist() == [[1, 3], [1, 4], [1, 4]]


def test_the_rows_that_evict_a_weight_are_where_the_explorer_s_second_home_closes():
    from chapters.closed_form.figures import explorers

    needed, ratio = exercises.get("sbnn-4").reference(), math.log(20)
    assert len(explorers.homes(ratio, needed - 1)[0]) == 2 and len(explorers.homes(ratio, needed)[0]) == 1


def test_a_copy_of_the_third_unit_lowers_the_first_importance_and_raises_the_second():
    from bnnlib.functional import path_importance

    before = exercises.get("sbnn-8").reference()
    rows = [[0.6, 0.1], [0.9, 0.3], [0.2, 0.7], [0.2, 0.7]]
    after = path_importance([torch.tensor(rows), torch.tensor([[0.5, 0.8, 0.3, 0.3]])])
    assert after[0] < before[0] - 0.05 and after[1] > before[1] + 0.01
