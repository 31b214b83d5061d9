"""Stacked networks: the same numbers as separate ones, no leak from one replicate into another."""

import pytest
import torch

from bnnlib import functional as bF
from bnnlib import nn as bnn
from bnnlib.replicates import Layout, StackedGaussian, StackedMLP, StackedSpikeSlab
from bnnlib.replicates.convert import unstack


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_shapes_with_shared_and_with_own_inputs(stack, x):
    assert stack(x, generator()).shape == (3, 7, 2)
    assert stack(x.expand(3, 7, 5), generator()).shape == (3, 7, 2)
    torch.testing.assert_close(stack.mean_forward(x), stack.mean_forward(x.expand(3, 7, 5)))
    posterior = stack.posterior
    assert posterior.kl_divergence().shape == posterior.sparsity().shape == (3,)
    assert posterior.active().shape == posterior.mean().shape == (3, posterior.layout.num_parameters)
    draws = stack.eval().predict(x, 4, generator(), chunk_size=3)
    assert draws.shape == (4, 3, 7, 2) and not draws.requires_grad


def test_predictions_do_not_depend_on_the_chunks(stack, x):
    stack.train()
    whole = stack.predict(x, 3, generator(1))
    torch.testing.assert_close(stack.predict(x, 3, generator(1), chunk_size=2), whole, rtol=1e-12, atol=1e-13)
    assert stack.training


@pytest.mark.parametrize("kind", ["gaussian", "spike-slab"])
def test_gradients_equal_those_of_separate_networks_given_the_same_noise(kind, x):
    layout, n = Layout((5, 4, 2), 3), 50
    weight = layout.kaiming_uniform(generator(), torch.float64)
    if kind == "gaussian":
        stack = StackedMLP(StackedGaussian(layout, weight, 1.3, 0.1), "tanh")
    else:
        stack = StackedMLP(StackedSpikeSlab(layout, weight, [1e-6, 0.1, 0.5], 1.3, 0.1, 0.6), "tanh")
    y = torch.randn(3, 7, 2, generator=generator(2), dtype=torch.float64)
    nll = 0.5 * (stack(x, generator(9)) - y).square().sum() / 7
    (nll + stack.posterior.kl_gradient(1 / n)).backward()
    noise = torch.empty_like(weight).normal_(generator=(source := generator(9)))
    uniform = torch.empty_like(weight).uniform_(generator=source)
    for r in range(3):
        network = unstack(stack, r)
        normals, uniforms = (layout.layers(values) for values in (noise, uniform))
        h, divergence = x, bnn.kl_divergence(network) / n
        for index, layer in enumerate((network[0], network[2])):
            drawn = []
            parts = layer._groups()
            for part, (parameters, z, u) in enumerate(zip(parts, normals[index], uniforms[index], strict=True)):
                z, u = (t[r] if part == 0 else t[r, :, 0] for t in (z, u))
                if kind == "gaussian":
                    drawn.append(bF.gaussian_weight(*parameters, z))
                else:
                    drawn.append(bF.spike_slab_weight(*parameters, z, bF.logistic_noise(u)))
            h = torch.nn.functional.linear(h, *drawn)
            h = torch.tanh(h) if index == 0 else h
        (0.5 * (h - y[r]).square().sum() / 7 + divergence).backward()
        for name in ("weight", "weight_rho", "weight_logit"):
            if hasattr(stack.posterior, name):
                flat = layout.layers(getattr(stack.posterior, name).grad)
                for index, layer in enumerate((network[0], network[2])):
                    for grad, suffix in zip(flat[index], ("weight", "bias"), strict=True):
                        own = getattr(layer, name.replace("weight", suffix)).grad
                        torch.testing.assert_close(grad[r].reshape(own.shape), own, rtol=1e-10, atol=1e-13)


def test_a_replicate_s_loss_has_no_gradient_in_another_replicate(bayesian_stack, x):
    output = bayesian_stack(x, generator())
    loss = output[1].square().sum() + bayesian_stack.posterior.kl_divergence()[1]
    loss.backward()
    for name, p in bayesian_stack.posterior.named_parameters():
        assert (p.grad[[0, 2]] == 0).all(), name
    assert bayesian_stack.posterior.weight.grad[1].abs().max() > 0


def test_draws_are_independent_between_replicates():
    layout = Layout((50, 40), 2)
    posterior = StackedGaussian(layout, torch.zeros(2, layout.num_parameters, dtype=torch.float64), 1.0, 1.0)
    draw = posterior.draw(generator()).detach()
    # five standard errors of a correlation over 2,040 weights
    assert abs(torch.corrcoef(draw)[0, 1].item()) < 5 / 2040**0.5


def test_bad_arguments_are_refused():
    layout = Layout((2, 1), 3)
    weight = layout.kaiming_uniform(generator())
    with pytest.raises(ValueError, match="2 values, but there are 3 replicates"):
        StackedSpikeSlab(layout, weight, [0.1, 0.2])
    with pytest.raises(ValueError, match=r"prior_inclusion_probability is .*strictly between"):
        StackedSpikeSlab(layout, weight, [0.1, 0.2, 1.0])
    with pytest.raises(ValueError, match="prior_scale is -1"):
        StackedGaussian(layout, weight, -1.0)
    with pytest.raises(ValueError, match="activation is 'swish'"):
        StackedMLP(StackedGaussian(layout, weight), "swish")
