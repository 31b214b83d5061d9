"""Theory of the spike and slab: counts of a network, and the counts that are refused."""

import pytest

from bnnlib.functional import (
    inclusion_probability_for,
    num_network_parameters,
    theoretical_inclusion_probability,
)


def test_lambda_opt_from_the_network_s_counts_is_the_same():
    assert num_network_parameters((200, 7, 7, 7, 1)) == 1527
    direct = theoretical_inclusion_probability(1527, 3, 7, 3000, 200)
    assert direct == inclusion_probability_for((200, 7, 7, 7, 1), 3000)


@pytest.mark.parametrize("name", ["num_parameters", "num_samples", "width"])
def test_bad_counts_are_named(name):
    arguments = {"num_parameters": 10, "num_hidden_layers": 1, "width": 3, "num_samples": 5, "num_inputs": 2}
    with pytest.raises(ValueError, match=f"{name} is 0"):
        theoretical_inclusion_probability(**{**arguments, name: 0})
    with pytest.raises(ValueError, match="delta"):
        theoretical_inclusion_probability(**arguments, delta=0.0)
    with pytest.raises(ValueError, match="hidden layer"):
        inclusion_probability_for((3, 1), 10)
