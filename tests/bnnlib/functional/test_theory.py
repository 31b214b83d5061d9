"""Theory of the spike and slab: counts of a network, and the counts that are refused."""

from bnnlib.functional import inclusion_probability_for, num_network_parameters, theoretical_inclusion_probability


def test_lambda_opt_from_the_network_s_counts_is_the_same():
    assert num_network_parameters((200, 7, 7, 7, 1)) == 1527
    direct = theoretical_inclusion_probability(1527, 3, 7, 3000, 200)
    assert direct == inclusion_probability_for((200, 7, 7, 7, 1), 3000)
