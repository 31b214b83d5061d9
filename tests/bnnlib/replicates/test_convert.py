"""One network of a stack as ordinary layers: equal in every mode that draws nothing, and independent of the stack."""

import pytest
import torch
from torch import nn

from bnnlib import nn as bnn
from bnnlib.replicates import StackedPosterior
from bnnlib.replicates.convert import unstack


def test_unstacked_networks_equal_the_stack_in_mean_mode(bayesian_stack, x):
    expected = bayesian_stack.mean_forward(x)
    for replicate in range(3):
        network = unstack(bayesian_stack, replicate)
        with bnn.mean_weights(network):
            # the products are summed in another order
            torch.testing.assert_close(network(x), expected[replicate], rtol=1e-12, atol=1e-13)


def test_divergence_and_sparsity_agree(exact_stack):
    posterior = exact_stack.posterior
    for replicate in range(3):
        network = unstack(exact_stack, replicate)
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


def test_mixture_stacks_become_their_layers_with_the_prior_of_the_replicate():
    from bnnlib.replicates import Layout, StackedGaussianSpikeSlab, StackedMLP, StackedScaleMixture

    layout, kinds = Layout((5, 4, 1), 2), (bnn.GaussianSpikeSlabLinear, bnn.ScaleMixtureLinear)
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.float64, 1e-14)):
        weight = layout.kaiming_uniform(torch.Generator().manual_seed(0), dtype)
        for kind, layer_kind in zip((StackedGaussianSpikeSlab, StackedScaleMixture), kinds, strict=True):
            for r, pi in enumerate((1e-8, 1 - 1e-6)):
                stack = StackedMLP(kind(layout, weight, [1.0, 2.7], 2.5e-3, [1e-8, 1 - 1e-6]))
                network = unstack(stack, r)
                assert [type(m) for m in network] == [layer_kind, nn.ReLU, layer_kind]
                layer = network[0]
                assert layer.slab_scale == pytest.approx((1.0, 2.7)[r], rel=tolerance)
                assert layer.spike_scale == pytest.approx(2.5e-3, rel=tolerance)
                # the stack keeps log(tau / pi), about 20 nats, in the precision of its weights
                given = layer.prior_inclusion_probability
                assert given == pytest.approx(pi, rel=50 * tolerance)
                assert 1 - given == pytest.approx(1 - pi, rel=50 * tolerance + 1e-9)


def test_dropout_stacks_become_plain_layers_with_dropout_between(x):
    from bnnlib.replicates import Layout, StackedDropout, StackedMLP

    layout = Layout((5, 4, 2), 3)
    weight = layout.kaiming_uniform(torch.Generator().manual_seed(0), torch.float64)
    stack = StackedMLP(StackedDropout(layout, weight, torch.tensor([0.0, 0.2, 0.5])), "tanh")
    network = unstack(stack, 2)
    assert [type(m) for m in network] == [nn.Linear, nn.Tanh, nn.Dropout, nn.Linear] and network[2].p == 0.5
    torch.testing.assert_close(network.eval()(x), stack.mean_forward(x)[2], rtol=1e-12, atol=1e-13)
    stack.posterior.inputs = True
    network = unstack(stack, 1)
    assert [type(m) for m in network] == [nn.Dropout, nn.Linear, nn.Tanh, nn.Dropout, nn.Linear]
    assert network[0].p == network[3].p == pytest.approx(0.2)


def test_the_copy_is_independent(bayesian_stack, x):
    network = unstack(bayesian_stack, 1)
    expected = bayesian_stack.mean_forward(x).clone()
    with torch.no_grad():
        for p in network.parameters():
            p.zero_()
    assert torch.equal(bayesian_stack.mean_forward(x), expected)


def test_bad_arguments_are_explained(bayesian_stack):
    for replicate in (-1, 3):
        with pytest.raises(ValueError, match=f"replicate is {replicate}, but the stack has 3 networks"):
            unstack(bayesian_stack, replicate)

    class Own(StackedPosterior):
        pass

    bayesian_stack.posterior = Own(bayesian_stack.posterior.layout, bayesian_stack.posterior.weight)
    with pytest.raises(TypeError, match="Own has no layers"):
        unstack(bayesian_stack, 0)
