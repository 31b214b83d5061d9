"""Schedules as functions of the step."""

import pytest

from bnnlib.sampling import polynomial
from chapters.learned_priors.formulas import annealed, constant


def test_constant_and_the_published_sequence():
    assert constant(0.3)(1) == constant(0.3)(10**6) == 0.3
    assert polynomial(10, 1000, 0.7)(500_000) == pytest.approx(10 * 501_000**-0.7)
    assert polynomial(1000, 100, 0.7)(1) == 1.0  # weights of an average end at 1
    assert polynomial(1000, 100, 0.7, ceiling=0.1)(500_000) == 0.1  # the published code's constant


def test_annealed_divides_the_temperature():
    temperature = annealed(2.0, 1.003)
    assert temperature(1) == pytest.approx(2.0 / 1.003) and temperature(1000) == pytest.approx(2.0 * 1.003**-1000)
    assert annealed(1.0, 2.0)(10**6) == 0.0  # and not an overflow
    assert annealed(0.5, 1.0)(7) == 0.5
