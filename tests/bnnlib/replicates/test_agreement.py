"""One network of a stack as ordinary layers: equal in every mode that draws nothing, and independent of the stack."""

import pytest
import torch
from torch import nn

from bnnlib import nn as bnn
from tests.bnnlib.replicates.unstacked import unstack


def test_unstacked_networks_equal_the_stack_in_mean_mode(bayesian_stack, x):
    expected = bayesian_stack.mean_forward(x)
    for replicate in range(3):
        network = unstack(bayesian_stack, replicate)
        with bnn.mean_weights(network):
            # the products are summed in another order
            torch.testing.assert_close(network(x), expected[replicate], rtol=1e-12, atol=1e-13)


def test_divergence_and_sparsity_agree(bayesian_stack):
    posterior = bayesian_stack.posterior
    for replicate in range(3):
        network = unstack(bayesian_stack, replicate)
        assert bnn.kl_divergence(network).item() == pytest.approx(
            posterior.kl_divergence()[replicate].item(), rel=1e-12
        )
        assert bnn.percent_active(network) == pytest.approx(posterior.percent_active()[replicate].item(), rel=1e-9)


def test_deterministic_stacks_become_plain_layers_with_their_mask(x):
    from bnnlib.replicates import Layout, StackedDeterministic, StackedMLP

    layout = Layout((5, 4, 1), 2)
    posterior = StackedDeterministic(layout, layout.kaiming_uniform(torch.Generator().manual_seed(0), torch.float64))
    posterior.mask[:, ::2] = False
    stack = StackedMLP(posterior, "relu")
    network = unstack(stack, 1)
    assert [type(m) for m in network] == [nn.Linear, nn.ReLU, nn.Linear]
    torch.testing.assert_close(network(x), stack.mean_forward(x)[1], rtol=1e-12, atol=1e-13)
    assert (network[0].weight == 0).any()


def test_a_mixture_stack_becomes_its_layers_with_the_prior_of_the_replicate():
    from bnnlib.replicates import Layout, StackedGaussianSpikeSlab, StackedMLP

    layout = Layout((5, 4, 1), 2)
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.float64, 1e-14)):
        weight = layout.kaiming_uniform(torch.Generator().manual_seed(0), dtype)
        for r, pi in enumerate((1e-8, 1 - 1e-6)):
            stack = StackedMLP(StackedGaussianSpikeSlab(layout, weight, [1.0, 2.7], 2.5e-3, [1e-8, 1 - 1e-6]))
            network = unstack(stack, r)
            assert [type(m) for m in network] == [bnn.GaussianSpikeSlabLinear, nn.ReLU, bnn.GaussianSpikeSlabLinear]
            layer = network[0]
            assert layer.slab_scale == pytest.approx((1.0, 2.7)[r], rel=tolerance)
            assert layer.spike_scale == pytest.approx(2.5e-3, rel=tolerance)
            # the stack keeps log(tau / pi), about 20 nats, in the precision of its weights
            given = layer.prior_inclusion_probability
            assert given == pytest.approx(pi, rel=50 * tolerance)
            assert 1 - given == pytest.approx(1 - pi, rel=50 * tolerance + 1e-9)
