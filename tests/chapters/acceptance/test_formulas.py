"""Acceptance rate and total variation: two estimates of one number, and quadrature as the third."""

import math

import pytest
import torch
from scipy import stats

from bnnlib.sampling import RandomWalk
from chapters.acceptance.formulas import acceptance_lower_bound, acceptance_rate_of, mean_of

DOUBLE = torch.float64
COUNT = 100_000


def test_the_rate_of_a_random_walk():
    """Of a standard normal target, known in closed form: 2 / pi * atan(2 / scale)."""
    generator = torch.Generator().manual_seed(1)
    points = torch.randn(COUNT, 1, generator=generator, dtype=DOUBLE)
    found = acceptance_rate_of(lambda x: -0.5 * x.square().sum(-1), RandomWalk(1.7), points, generator)
    assert abs(found.mean - 2 / math.pi * math.atan(2 / 1.7)) <= 3.0 * found.standard_error


def test_the_mean_and_its_error():
    values = torch.tensor([1.0, 2.0, 4.0, 9.0])
    assert mean_of(values) == (4.0, pytest.approx(stats.sem(values.numpy())))
    assert mean_of(values[:1]).mean == 1.0 and math.isnan(mean_of(values[:1]).standard_error)


def test_the_lower_bound():
    assert acceptance_lower_bound(0.0) == 1.0
    assert acceptance_lower_bound(0.5) == 0.5
    assert float(acceptance_lower_bound(torch.tensor(2.0))) == 0.0
    for broken in (-0.1, math.inf, math.nan, torch.tensor([1.0, -1.0])):
        with pytest.raises(ValueError, match="divergence is"):
            acceptance_lower_bound(broken)
