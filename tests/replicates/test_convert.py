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


def test_divergence_and_sparsity_agree(bayesian_stack):
    posterior = bayesian_stack.posterior
    for replicate in range(3):
        network = unstack(bayesian_stack, replicate)
        assert bnn.kl_divergence(network).item() == pytest.approx(
            posterior.kl_divergence()[replicate].item(), rel=1e-12
        )
        assert bnn.sparsity(network) == pytest.approx(posterior.sparsity()[replicate].item(), rel=1e-9)


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


def test_the_copy_is_independent(bayesian_stack, x):
    network = unstack(bayesian_stack, 1)
    expected = bayesian_stack.mean_forward(x).clone()
    with torch.no_grad():
        for p in network.parameters():
            p.zero_()
    assert torch.equal(bayesian_stack.mean_forward(x), expected)


def test_predictive_moments_agree(bayesian_stack, x):
    bayesian_stack.eval()
    n = 1500
    ours = bnn.predict(unstack(bayesian_stack, 2), x, n, generator=torch.Generator().manual_seed(1))
    theirs = bayesian_stack.predict(x, n, torch.Generator().manual_seed(2))[:, 2]
    error = ((ours.var(dim=0) + theirs.var(dim=0)) / n).sqrt()
    # five standard errors over 14 numbers
    assert ((ours.mean(dim=0) - theirs.mean(dim=0)).abs() < 5 * error).all()


def test_bad_arguments_are_explained(bayesian_stack):
    for replicate in (-1, 3):
        with pytest.raises(ValueError, match=f"replicate is {replicate}, but the stack has 3 networks"):
            unstack(bayesian_stack, replicate)

    class Own(StackedPosterior):
        pass

    own = Own()
    own.layout, own.weight = bayesian_stack.posterior.layout, bayesian_stack.posterior.weight
    bayesian_stack.posterior = own
    with pytest.raises(TypeError, match="Own has no layers"):
        unstack(bayesian_stack, 0)
