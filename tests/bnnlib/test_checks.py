"""Argument checks: what they let through, and that their own words come for everything else."""

import math

import numpy as np
import pytest
import torch

from bnnlib._checks import check_count


@pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.float32(3), torch.tensor(3)])
def test_a_whole_number_of_any_type_is_a_count(value):
    assert check_count("epochs", value) == 3 and type(check_count("epochs", value)) is int


@pytest.mark.parametrize(
    "value",
    [0, -1, 2.5, True, math.nan, math.inf, -math.inf, torch.tensor(math.nan), torch.ones(2), "3", "many", None, [3]],
)
def test_anything_else_is_refused_by_name(value):
    with pytest.raises(ValueError, match=r"(?s)^epochs is .*, but it must be an integer of at least 1\.$"):
        check_count("epochs", value)
