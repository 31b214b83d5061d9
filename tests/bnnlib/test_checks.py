"""Argument checks: what they let through, and that their own words come for everything else."""

import math

import numpy as np
import pytest
import torch

from bnnlib import _checks as checks


@pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.float32(3), torch.tensor(3)])
def test_a_whole_number_of_any_type_is_a_count(value):
    assert checks.check_count("epochs", value) == 3 and type(checks.check_count("epochs", value)) is int


@pytest.mark.parametrize(
    "value",
    [0, -1, 2.5, True, math.nan, math.inf, -math.inf, torch.tensor(math.nan), torch.ones(2), "3", "many", None, [3]],
)
def test_anything_else_is_refused_by_name(value):
    with pytest.raises(ValueError, match=r"(?s)^epochs is .*, but it must be an integer of at least 1\.$"):
        checks.check_count("epochs", value)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, torch.tensor([1.0, 0.0])])
def test_only_scales_are_told_about_scales(value):
    with pytest.raises(ValueError, match=r"^learning_rate is .*, but it must be finite and above 0\.$"):
        checks.check_positive("learning_rate", value)
    with pytest.raises(ValueError, match=r"^prior_scale is .* above 0\. Scales are .*not variances or logarithms"):
        checks.check_scale("prior_scale", value)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_covariance_may_be_symmetric_up_to_rounding(scale, dtype):
    root = torch.randn(20, 20, generator=torch.Generator().manual_seed(0), dtype=dtype)
    value = scale * (root @ root.T / 20 + torch.eye(20, dtype=dtype))
    inverse = torch.linalg.inv(value)
    assert checks.check_covariance(value) is value and checks.check_covariance(inverse) is inverse


@pytest.mark.parametrize(
    "value", [[[1.0, 0.5], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]], [[0.0]], [[math.nan]], [[1.0, 0.0]], [1.0]]
)
def test_what_is_no_covariance_is_refused(value):
    with pytest.raises(ValueError, match=r"positive definite|\(dim, dim\)"):
        checks.check_covariance(torch.tensor(value))


@pytest.mark.parametrize("good", [0.0, 1.0, 0.3, torch.tensor([0.0, 0.5, 1.0])])
def test_probabilities_pass_unchanged(good):
    assert checks.check_probability("p", good) is good


@pytest.mark.parametrize("bad", [-1e-9, 1.0001, math.nan, torch.tensor([0.5, 2.0]), torch.tensor([math.nan])])
def test_other_numbers_are_no_probabilities(bad):
    words = r"values from 0\.5 to 2.*" if isinstance(bad, torch.Tensor) and len(bad) > 1 else ".*"
    with pytest.raises(ValueError, match=rf"^p is .*{words} between 0 and 1.*torch.sigmoid"):
        checks.check_probability("p", bad)


def test_zero_is_not_negative():
    assert checks.check_non_negative("k", 0.0) == 0.0
    with pytest.raises(ValueError, match=r"k is -1.*Pass 0"):
        checks.check_non_negative("k", -1.0)
