"""Schedules as functions of the step."""

import pytest

from bnnlib.sampling import polynomial
from chapters.learned_priors.formulas import annealed, constant


def test_the_ends_of_a_schedule():
    """What lies between is seen in tests/equations/test_aeb_samplers.py."""
    assert constant(0.3)(1) == constant(0.3)(10**6) == 0.3
    assert polynomial(10, 1000, 0.7)(500_000) == pytest.approx(10 * 501_000**-0.7)
    assert polynomial(1000, 100, 0.7)(1) == 1.0  # weights of an average end at 1
    assert polynomial(1000, 100, 0.7, ceiling=0.1)(500_000) == 0.1  # the published code's constant
    assert annealed(1.0, 2.0)(10**6) == 0.0 and annealed(0.5, 1.0)(7) == 0.5  # and not an overflow
