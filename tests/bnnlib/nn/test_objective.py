"""The objective: exact sum, exact gradient on both of its paths, ELBO arithmetic, conjugate posteriors."""

import math

import pytest
import torch
from torch import nn

from bnnlib import nn as bnn
from tests.seeded import seeded as generator


def gradients(model, run):
    """What the parameters have after backward passes that `run` makes."""
    model.zero_grad(set_to_none=True)
    with bnn.use_generator(generator(3)):
        run()
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def assert_same(first, second):
    torch.testing.assert_close(first, second, rtol=1e-10, atol=1e-13)  # other orders of summation in float64


def test_divergence_is_the_sum_over_all_weights_and_layers():
    model = nn.Sequential(bnn.GaussianLinear(30, 20, prior_scale=1.7), nn.ReLU(), bnn.GaussianLinear(20, 3)).double()
    normal, total = torch.distributions.Normal, 0.0
    for layer in (model[0], model[2]):
        for mean, scale in zip((layer.weight, layer.bias), layer.scale(), strict=True):
            prior = normal(torch.zeros_like(mean), torch.full_like(mean, layer.prior_scale))
            total += torch.distributions.kl_divergence(normal(mean, scale), prior).sum()
    torch.testing.assert_close(bnn.kl_divergence(model), total, rtol=1e-12, atol=0)


def test_a_layer_used_twice_counts_once():
    layer = bnn.GaussianLinear(3, 3)
    assert bnn.kl_divergence(nn.Sequential(layer, nn.ReLU(), layer)) == layer.kl_divergence()


def test_kl_gradient_is_exact_however_the_passes_are_ordered(exact_network, x):
    def nll():
        return exact_network(x).sin().mean()

    def reference():
        (nll() + nll() + bnn.kl_divergence(exact_network) / 10).backward()

    def accumulated():  # the second pass's graph is gone when the divergence is asked for
        nll().backward()
        nll().backward()
        (bnn.kl_gradient(exact_network) / 10).backward()

    def one_loss():
        loss = nll() + nll()
        divergence = bnn.kl_gradient(exact_network)
        assert divergence.item() == 0.0
        (loss + divergence / 10).backward()

    def before_the_pass():
        divergence = bnn.kl_gradient(exact_network) / 10
        (nll() + nll() + divergence).backward()

    def separately():
        loss = nll() + nll()
        (bnn.kl_gradient(exact_network) / 10).backward(retain_graph=True)
        loss.backward()

    def halves():
        loss = nll() + nll()
        loss = loss + bnn.kl_gradient(exact_network) / 20
        (loss + bnn.kl_gradient(exact_network) / 20).backward()

    expected = gradients(exact_network, reference)
    for run in (accumulated, one_loss, before_the_pass, separately, halves):
        assert_same(gradients(exact_network, run), expected)


@pytest.mark.parametrize("replaced", [False, True])
def test_kl_gradient_follows_parameters_that_changed_after_the_pass(exact_network, x, replaced):
    exact_network(x)
    with torch.no_grad():
        for layer in (part for part in exact_network.modules() if part._parameters) if replaced else ():
            for name, p in [pair for pair in layer._parameters.items() if pair[1] is not None]:
                setattr(layer, name, torch.nn.Parameter(1.1 * p))
        for p in () if replaced else exact_network.parameters():
            p.mul_(1.1)
    ours = torch.autograd.grad(bnn.kl_gradient(exact_network), list(exact_network.parameters()), allow_unused=True)
    theirs = torch.autograd.grad(bnn.kl_divergence(exact_network), list(exact_network.parameters()), allow_unused=True)
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None and b is None) or torch.allclose(a, b, rtol=1e-12, atol=1e-14)


def test_frozen_parameters_and_no_grad_passes(network, x):
    with torch.no_grad():
        network(x)
    bnn.kl_gradient(network).backward()
    assert all(p.grad is not None for name, p in network.named_parameters() if "rho" in name)
    network.zero_grad(set_to_none=True)
    network[0].weight.requires_grad_(False)
    (network(x).sum() + bnn.kl_gradient(network)).backward()
    assert network[0].weight.grad is None and network[2].weight.grad is not None


@pytest.mark.slow
def test_a_training_step_s_draw_is_not_kept_alive_by_the_model(x):
    import gc
    import weakref

    layer = bnn.GaussianLinear(5, 4, dtype=torch.float64)
    output = layer(x)
    node = weakref.ref(output)
    (output.sum() + bnn.kl_gradient(layer)).backward()
    del output
    gc.collect()
    assert node() is None


def test_elbo_is_nll_plus_scaled_divergence(exact_network, x):
    nll = torch.tensor(2.0, dtype=torch.float64)
    divergence = bnn.kl_divergence(exact_network).item()
    assert bnn.elbo_loss(nll, exact_network, 50).item() == pytest.approx(2.0 + divergence / 50, rel=1e-12)
    tempered = bnn.elbo_loss(nll, exact_network, 50, kl_scale=0.1).item()
    assert tempered == pytest.approx(2.0 + divergence / 500, rel=1e-12)
    assert bnn.elbo_loss(nll, exact_network, 50, with_value=False).item() == 2.0

    def step(with_value):
        return lambda: bnn.elbo_loss(exact_network(x).sin().mean(), exact_network, 50, 0.3, with_value).backward()

    assert_same(*(gradients(exact_network, step(with_value)) for with_value in (False, True)))


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["weight", "local", "flipout"])
def test_conjugate_posterior_is_recovered(estimator):
    """Linear regression with an orthogonal design: the exact posterior factorises, so the family contains it."""
    n, p, noise, prior = 64, 3, 0.5, 1.5
    design = torch.linalg.qr(torch.randn(n, p, generator=generator(), dtype=torch.float64))[0] * math.sqrt(n)
    y = design @ torch.tensor([[1.0], [-0.5], [0.2]], dtype=torch.float64)
    y = y + noise * torch.randn(n, 1, generator=generator(1), dtype=torch.float64)
    precision = n / noise**2 + 1 / prior**2
    exact_mean, exact_scale = (design.T @ y / noise**2 / precision).T, precision**-0.5
    layer = bnn.GaussianLinear(p, 1, bias=False, prior_scale=prior, initial_scale=0.1, estimator=estimator).double()
    steps, kept = 3000, []
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    with bnn.use_generator(generator(2)):
        for step in range(steps):
            nll = 0.5 * ((layer(design) - y) / noise).square().mean()
            optimizer.zero_grad()
            (nll + bnn.kl_gradient(layer) / n).backward()
            optimizer.step()
            schedule.step()
            if step >= steps // 2:
                kept.append((layer.weight.detach().clone(), layer.scale()[0].detach().clone()))
    mean, scale = (torch.stack(values).mean(dim=0) for values in zip(*kept, strict=True))
    # the averaged iterates scatter by 3 % of a standard deviation and, with one draw for all rows, 5 % of the scale;
    # a divergence that is off by a factor of two would move the scale by 40 %
    assert ((mean - exact_mean).abs() < 0.1 * exact_scale).all()
    assert (scale / exact_scale - 1).abs().max() < 0.1


def test_active_weights_are_counted_over_all_layers_and_biases():
    options = {"prior_inclusion_probability": 0.1}
    layers = [bnn.SpikeSlabLinear(3, 4, initial_inclusion_probability=p, **options) for p in (0.5, 0.25)]
    # 3 * 4 weights and 4 biases each, 3 * 4 of a Gaussian layer, whose weights all count
    model = nn.Sequential(*layers, nn.ReLU(), bnn.GaussianLinear(3, 4, bias=False))
    assert bnn.percent_active(model) == pytest.approx(100 * (16 * 0.5 + 16 * 0.25 + 12) / 44)
