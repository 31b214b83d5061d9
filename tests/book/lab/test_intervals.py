"""Intervals of few replicates, and what they decide."""

import math

import pytest

from book.lab import intervals

THREE, FIVE = 4.30265, 2.77645  # of Student's t with 2 and 4 degrees of freedom, from printed tables


@pytest.mark.parametrize(("n", "times"), [(3, THREE), (5, FIVE), (2, 12.7062), (30, 2.04523), (math.inf, 1.95996)])
def test_half_an_interval_is_t_standard_errors(n, times):
    assert intervals.half(2.0, n) == pytest.approx(2.0 * times, rel=1e-5)
    assert math.isnan(intervals.half(2.0, 1))


def test_degrees_of_freedom_are_welchs():
    # worked out by hand: (0.04 + 0.01)^2 / (0.04^2 / 2 + 0.01^2 / 9) = 3.0822
    assert intervals.welch([(0.2, 2), (0.1, 9)]) == pytest.approx((math.sqrt(0.05), 3.08219), rel=1e-5)
    assert intervals.welch([(0.2, math.inf)]) == (0.2, math.inf) and intervals.welch([]) == (0.0, math.inf)
    assert intervals.welch([(0.0, 2), (0.1, 9)]) == pytest.approx((0.1, 9.0))


@pytest.mark.parametrize(
    ("gap", "side"),
    [
        ((4.31, 1.0, 3), 1),
        ((-4.31, 1.0, 3), -1),
        ((4.29, 1.0, 3), 0),  # beyond two standard errors
        ((-2.79, 1.0, 5), -1),
        ((2.76, 1.0, 5), 0),
        ((2.0, 1.0, 61), 0),
        ((100.0, 1.0, 2), 0),  # two runs decide nothing
        ((math.nan, math.nan, 0), 0),
    ],
)
def test_a_side_needs_three_runs_and_t_errors(gap, side):
    assert intervals.side(*gap) == side
    for sign in (1, -1, 0):
        assert intervals.shows(gap, sign) is (sign == side or not gap[2])


def test_an_estimate_is_what_decides():
    mean, error, n = intervals.estimate([0.5, 1.0, 2.0])
    assert (mean, n) == (pytest.approx(3.5 / 3), 3) and error == pytest.approx(math.sqrt(7 / 12 / 3))
    assert intervals.estimate([0.5, 1.0, 2.0], overlap=1 / 9)[1] == pytest.approx(math.sqrt(7 / 12 * (1 / 3 + 1 / 9)))
    assert intervals.estimate([1.5])[::2] == (1.5, 1) and math.isnan(intervals.estimate([1.5])[1])
    assert math.isnan(intervals.estimate([])[0]) and intervals.estimate([])[2] == 0
    assert intervals.spread([1.0]) is None and intervals.spread([1.0, math.inf]) is None


def test_a_mean_t_errors_away_is_so_by_chance_in_one_of_twenty_cases():
    assert intervals.chance(2.0 * THREE, 2.0, 2) == pytest.approx(0.05, rel=1e-4)
    assert intervals.chance(FIVE, 1.0, 4) == pytest.approx(0.05, rel=1e-4)
    assert intervals.chance(1.959964, 1.0, math.inf) == pytest.approx(0.05, rel=1e-4)
    assert intervals.chance(1.0, 0.0, 2) == 0.0


@pytest.mark.parametrize(
    ("chances", "of", "together"),
    [
        ((), 5, 0),
        ((0.045,), 1, 1),
        ((0.045,), 2, 0),
        ((0.024, 0.01), 3, 2),  # below .05 / 3 and .05 / 2; by Bonferroni the second would not be
        ((0.026, 0.01), 3, 1),
        ((0.02, 0.02, 0.02), 3, 0),  # the first does not pass, so none does
        ((0.0, 0.0), 100, 2),
    ],
)
def test_tests_hold_together_by_holm(chances, of, together):
    assert intervals.holm(chances, of) == together
