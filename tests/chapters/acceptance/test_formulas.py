"""Acceptance rate and total variation: two estimates of one number, and quadrature as the third."""

import math

import pytest
import torch
from scipy import stats

from chapters.acceptance.formulas import mean_of


def test_the_mean_and_its_error():
    values = torch.tensor([1.0, 2.0, 4.0, 9.0])
    assert mean_of(values) == (4.0, pytest.approx(stats.sem(values.numpy())))
    assert mean_of(values[:1]).mean == 1.0 and math.isnan(mean_of(values[:1]).standard_error)
