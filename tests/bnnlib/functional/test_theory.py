"""Section 4 of the paper: the published values of lambda_opt and the monotonicity of the rates."""

import math

import pytest

from bnnlib.functional import (
    estimation_error_rate,
    inclusion_probability_for,
    num_network_parameters,
    theoretical_inclusion_probability,
    variational_error_rate,
)


@pytest.mark.parametrize(
    ("sizes", "num_samples", "expected"),
    [
        ((20, 6, 6, 1), 3000, 1.658e-3),
        ((200, 7, 7, 7, 1), 3000, 1.186e-4),
        ((784, 512, 512, 10), 60_000, 6.81e-8),
    ],
)
def test_lambda_opt_of_the_paper_s_three_networks(sizes, num_samples, expected):
    # published to four digits, the last one to three
    tolerance = 5e-4 if expected > 1e-6 else 1e-3
    assert inclusion_probability_for(sizes, num_samples) == pytest.approx(expected, rel=tolerance)


def test_lambda_opt_from_the_network_s_counts_is_the_same():
    assert num_network_parameters((200, 7, 7, 7, 1)) == 1527
    direct = theoretical_inclusion_probability(1527, 3, 7, 3000, 200)
    assert direct == inclusion_probability_for((200, 7, 7, 7, 1), 3000)


def test_rates_grow_with_the_active_weights_and_fall_with_the_sample():
    rates = [variational_error_rate(3000, 200, 3, 7, s) for s in (10, 50, 200)]
    assert rates == sorted(rates)
    rates = [variational_error_rate(n, 200, 3, 7, 50) for n in (1000, 3000, 30_000)]
    assert rates == sorted(rates, reverse=True)
    assert estimation_error_rate(rates[0], 1000) > rates[0]


def test_rate_by_hand():
    share = 50 / 3000
    expected = share * 4 * math.log(7) + share * math.log(200 * math.sqrt(3000 / 50))
    assert variational_error_rate(3000, 200, 3, 7, 50) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["num_parameters", "num_samples", "width"])
def test_bad_counts_are_named(name):
    arguments = {"num_parameters": 10, "num_hidden_layers": 1, "width": 3, "num_samples": 5, "num_inputs": 2}
    with pytest.raises(ValueError, match=f"{name} is 0"):
        theoretical_inclusion_probability(**{**arguments, name: 0})
    with pytest.raises(ValueError, match="delta"):
        theoretical_inclusion_probability(**arguments, delta=0.0)
    with pytest.raises(ValueError, match="hidden layer"):
        inclusion_probability_for((3, 1), 10)
