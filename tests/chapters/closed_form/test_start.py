"""The start of the means and the slab: what the factor leaves as it was, and what it moves."""

import copy
import math

import torch

from bnnlib.nn import to_bayesian
from chapters.closed_form.experiments import start
from chapters.closed_form.experiments.networks import prior_of
from tests.chapters.cells import CPU, smoke


def test_a_smaller_start_computes_the_same_with_fewer_weights_beyond_the_threshold():
    network = start.network(784, 16, 0)
    assert sum(p.numel() for p in network.parameters()) == 784 * 16 + 16 * 16 + 16 * 10 + 10 + 4 * 16
    smaller, x = copy.deepcopy(network), torch.rand(64, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    start.shrink(smaller, 0.5)
    torch.testing.assert_close(smaller(x), network(x), rtol=0, atol=5e-3)  # the epsilon of batch norm, 1e-5
    assert torch.equal(smaller[1].weight, 0.5 * network[1].weight) and torch.equal(
        smaller[-1].weight, network[-1].weight
    )
    begun = [
        start.in_slab(to_bayesian(one, "gaussian_spike_slab", unsupported="keep", **prior_of(start.PRIOR)))
        for one in (network, smaller)
    ]
    threshold = math.sqrt(2 * 5 / (math.exp(10) - 1))
    expected = (network[1].weight.square() + 0.002**2).sqrt() > threshold
    assert torch.equal(begun[0][: expected.numel()], expected.flatten())
    assert begun[0].float().mean() > begun[1].float().mean()


def test_rows_are_finite():
    whole = start.run_start(smoke("sbnn-start"), CPU, None).rows
    assert all(math.isfinite(row["value"]) for row in whole)
    assert [row["setting"] for row in whole if row["metric"] == "begun_share"] == list(start.FACTORS)
