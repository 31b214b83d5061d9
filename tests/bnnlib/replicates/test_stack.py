"""Stacked networks: the same numbers as separate ones, no leak from one replicate into another."""

import torch

from bnnlib import nn as bnn
from bnnlib.replicates import StackedDeterministic
from tests.seeded import seeded as generator


def test_shapes_with_shared_and_with_own_inputs(stack, x):
    assert stack(x, generator()).shape == (3, 7, 2)
    assert stack(x.expand(3, 7, 5), generator()).shape == (3, 7, 2)
    torch.testing.assert_close(stack.mean_forward(x), stack.mean_forward(x.expand(3, 7, 5)))
    posterior = stack.posterior
    assert posterior.kl_divergence().shape == posterior.percent_active().shape == (3,)
    assert posterior.active().shape == posterior.mean().shape == (3, posterior.layout.num_parameters)
    draws = stack.eval().predict(x, 4, generator(), chunk_size=3)
    assert draws.shape == (4, 3, 7, 2) and not draws.requires_grad


def test_predictions_do_not_depend_on_the_chunks(stack, x):
    stack.train()
    whole = stack.predict(x, 3, generator(1))
    torch.testing.assert_close(stack.predict(x, 3, generator(1), chunk_size=2), whole, rtol=1e-12, atol=1e-13)
    assert stack.training


def test_the_token_of_a_draw_is_the_gradient_of_the_divergence(bayesian_stack):
    posterior, found = bayesian_stack.posterior, []
    for divergence in (posterior.kl_gradient, lambda scale: scale * posterior.kl_divergence().sum()):
        loss = posterior.draw(generator(2)).sin().sum() + divergence(0.1)
        found.append(torch.autograd.grad(loss, list(posterior.parameters())))
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-12)


def test_a_replicate_s_loss_has_no_gradient_in_another_replicate(bayesian_stack, x):
    output = bayesian_stack(x, generator())
    loss = output[1].square().sum() + bayesian_stack.posterior.kl_divergence()[1]
    loss.backward()
    for name, p in bayesian_stack.posterior.named_parameters():
        assert (p.grad[[0, 2]] == 0).all(), name
    assert bayesian_stack.posterior.weight.grad[1].abs().max() > 0


def test_a_key_fixes_the_noise_of_every_stack(stack, x):
    stack.train()
    with bnn.redraw(stack, seed=0, step=7):
        first, again = stack(x), stack(x)
    with bnn.redraw(stack, seed=0, step=8):
        other = stack(x)
    assert torch.equal(first, again)
    assert torch.equal(first, other) == (type(stack.posterior) is StackedDeterministic)
