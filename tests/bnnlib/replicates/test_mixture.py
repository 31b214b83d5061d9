"""Stacks under the Gaussian spike and slab and under Bayes by Backprop's mixture: priors of each replicate."""

import math

import pytest
import torch

from bnnlib import nn as bnn
from bnnlib.replicates import Layout, StackedGaussianSpikeSlab, StackedMLP, StackedScaleMixture, fit_stacked, unstack
from tests.seeded import seeded as generator

KINDS = [StackedGaussianSpikeSlab, StackedScaleMixture]
# one prior a replicate
PRIORS = ([1.0, 2.7, 0.5], [0.1, 0.05, 0.2], [0.5, 0.1, 0.6])
KL_SCALE = torch.tensor([[1.0], [0.1], [3.0]], dtype=torch.float64)


def stack_of(kind=StackedGaussianSpikeSlab, sizes=(5, 4, 1), priors=PRIORS, dtype=torch.float64):
    layout = Layout(sizes, 3)
    return StackedMLP(kind(layout, layout.kaiming_uniform(generator(), dtype), *priors, 0.05), "tanh")


def data(n=50):
    x = torch.randn(n, 3, 5, generator=generator(1), dtype=torch.float64)
    return x, x[..., :1].tanh() + 0.1 * torch.randn(n, 3, 1, generator=generator(2), dtype=torch.float64)


def test_one_prior_for_all_is_the_same_as_that_prior_for_each():
    (x, y), stacks = data(), []
    for priors in ((1.0, 0.1, 0.3), ([1.0] * 3, torch.tensor([0.1] * 3, dtype=torch.float64), 0.3)):
        stack = stack_of(priors=priors)
        fit_stacked(stack, x, y, epochs=2, batch_size=16, learning_rate=0.01, generator=generator(5))
        stacks.append(stack)
    assert torch.equal(stacks[0].posterior.weight, stacks[1].posterior.weight)
    assert torch.equal(stacks[0].posterior.inclusion_log_odds(), stacks[1].posterior.inclusion_log_odds())


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_and_a_column_of_it_are_the_same_weight_of_the_divergence(kind):
    found = []
    for kl_scale in (0.3, torch.full((3, 1), 0.3, dtype=torch.float64)):
        stack = stack_of(kind)
        output = stack(data()[0].transpose(0, 1), generator(4))
        (output.sin().sum() + stack.posterior.kl_gradient(kl_scale)).backward()
        found.append([p.grad for p in stack.parameters()])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-13, atol=1e-14)


def test_a_weight_of_zero_leaves_the_prior_out_of_that_replicate():
    x, y = data()
    stack = stack_of()
    before = stack.posterior.weight_rho.detach().clone()
    column = torch.tensor([[0.0], [1.0], [0.0]], dtype=torch.float64)
    fit_stacked(
        stack, x * 0, y * 0, epochs=2, batch_size=50, learning_rate=0.01, generator=generator(), kl_scale=column
    )
    moved = (stack.posterior.weight_rho != before)[:, :20]  # inputs of zero: no other gradient in the first layer
    assert moved[1].all() and not moved[[0, 2]].any()


@pytest.mark.parametrize("kind", KINDS)
def test_inclusion_selection_and_sparsity_are_the_layers_(kind):
    stack = stack_of(kind)
    with torch.no_grad():
        stack.posterior.weight.normal_(0.0, 0.3, generator=generator(3))
    posterior = stack.posterior
    p = posterior.layout.layers(posterior.inclusion_probability)
    assert not posterior.inclusion_log_odds().requires_grad
    assert torch.equal(posterior.active(), posterior.inclusion_probability > 0.5)
    assert posterior.active().any(dim=1).all() and not posterior.active().all(dim=1).any()
    for r in range(3):
        network = unstack(stack, r)
        for layer, (weight, bias) in zip((network[0], network[2]), p, strict=True):
            torch.testing.assert_close(layer.inclusion_probability, weight[r], rtol=1e-10, atol=1e-14)
            torch.testing.assert_close(layer.bias_inclusion_probability, bias[r, :, 0], rtol=1e-10, atol=1e-14)
        assert bnn.percent_active(network) == pytest.approx(posterior.percent_active()[r].item(), rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_float32_steps_are_finite_at_extreme_priors_and_weights(kind):
    priors = ([math.exp(3), 1.0, math.exp(-3)], [math.exp(-8), 1e-12, math.exp(-3.2)], [1e-8, 0.5, 1 - 1e-6])
    stack = stack_of(kind, priors=priors, dtype=torch.float32)
    with torch.no_grad():
        stack.posterior.weight[:, ::2] = 0.0
        stack.posterior.weight[:, 1::4] = 50.0
    output = stack(data()[0].float().transpose(0, 1), generator())
    (output.square().mean() + stack.posterior.kl_gradient(0.1)).backward()
    assert all(p.grad.isfinite().all() for p in stack.parameters())
    assert stack.posterior.kl_divergence().isfinite().all() and stack.posterior.inclusion_probability.isfinite().all()


def test_the_prior_travels_with_the_state_and_resuming_goes_on_under_it():
    (x, y), stack = data(), stack_of()
    other = stack_of(priors=(5.0, 0.01, [0.2] * 3))
    other.posterior.load_state_dict(
        {k: v for k, v in stack.posterior.state_dict().items() if k.startswith("weight")}, strict=False
    )
    assert not torch.equal(other.posterior.kl_divergence(), stack.posterior.kl_divergence())
    whole = stack_of(priors=([1.0] * 3, [0.1] * 3, [0.2] * 3))
    whole.load_state_dict(stack.state_dict())
    assert torch.equal(whole.posterior.kl_divergence(), stack.posterior.kl_divergence())
    for model in (stack, whole):
        fit_stacked(model, x, y, epochs=2, batch_size=16, learning_rate=0.01, generator=generator(7))
    assert torch.equal(stack.posterior.weight_rho, whole.posterior.weight_rho)
