"""Argument checks: what is refused, and that the message says what was given and what to do."""

import pytest
import torch

from bnnlib._checks import check_count, check_non_negative, check_probability, check_scale


@pytest.mark.parametrize("good", [0.0, 1.0, 0.3, torch.tensor([0.0, 0.5, 1.0])])
def test_probabilities_pass_unchanged(good):
    assert check_probability("p", good) is good


@pytest.mark.parametrize("bad", [-1e-9, 1.0001, float("nan"), torch.tensor([0.5, 2.0]), torch.tensor([float("nan")])])
def test_other_numbers_are_no_probabilities(bad):
    with pytest.raises(ValueError, match=r"^p is .* between 0 and 1.*torch.sigmoid"):
        check_probability("p", bad)


def test_ranges_of_tensors_are_shown():
    with pytest.raises(ValueError, match=r"values from 0\.5 to 2"):
        check_probability("p", torch.tensor([0.5, 2.0]))


@pytest.mark.parametrize("bad", [0.0, -2.0, float("inf"), float("nan"), torch.tensor([1.0, 0.0])])
def test_scales_must_be_positive_and_finite(bad):
    with pytest.raises(ValueError, match=r"s is .*not variances"):
        check_scale("s", bad)


def test_zero_is_not_negative():
    assert check_non_negative("k", 0.0) == 0.0
    with pytest.raises(ValueError, match=r"k is -1.*Pass 0"):
        check_non_negative("k", -1.0)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True])
def test_counts_are_positive_integers(bad):
    with pytest.raises(ValueError, match="n is"):
        check_count("n", bad)
