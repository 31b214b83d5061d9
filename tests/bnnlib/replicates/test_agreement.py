"""One network of a stack as ordinary layers: equal in every mode that draws nothing, and independent of the stack."""

import pytest
import torch

from bnnlib import nn as bnn
from bnnlib.replicates import Layout, StackedDeterministic, StackedMLP
from tests.bnnlib.replicates.unstacked import unstack
from tests.seeded import seeded


def test_unstacked_networks_equal_the_stack_in_mean_mode_divergence_and_sparsity(bayesian_stack, x):
    expected, posterior = bayesian_stack.mean_forward(x), bayesian_stack.posterior
    for replicate in range(3):
        network = unstack(bayesian_stack, replicate)
        with bnn.mean_weights(network):
            # the products are summed in another order
            torch.testing.assert_close(network(x), expected[replicate], rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(bnn.kl_divergence(network), posterior.kl_divergence()[replicate], rtol=1e-12, atol=0)
        assert bnn.percent_active(network) == pytest.approx(posterior.percent_active()[replicate].item(), rel=1e-9)


def test_the_mask_of_a_deterministic_stack_is_zeros_in_its_layers(x):
    layout = Layout((5, 4, 1), 2)
    posterior = StackedDeterministic(layout, layout.kaiming_uniform(seeded(), torch.float64))
    posterior.mask[:, ::2] = False
    stack = StackedMLP(posterior, "relu")
    network = unstack(stack, 1)
    torch.testing.assert_close(network(x), stack.mean_forward(x)[1], rtol=1e-12, atol=1e-13)
    assert (network[0].weight == 0).any()
