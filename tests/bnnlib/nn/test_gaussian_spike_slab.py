"""The layers with a Gaussian spike and slab: p* follows the weights, gradients through the token, what is selected."""

import math

import pytest
import torch
import torch.nn.functional as F

from bnnlib import functional as bF
from bnnlib import nn as bnn
from tests.seeded import seeded as generator

PRIOR = {"slab_scale": 1.0, "spike_scale": 0.1, "prior_inclusion_probability": 0.3}
ALL = [
    bnn.GaussianSpikeSlabLinear,
    bnn.ScaleMixtureLinear,
    lambda *a, **k: bnn.GaussianSpikeSlabConv2d(*a, 3, **k),
    lambda *a, **k: bnn.ScaleMixtureConv2d(*a, 3, **k),
]


def layer_of(kind=bnn.GaussianSpikeSlabLinear, size=(6, 5), **settings):
    torch.manual_seed(0)
    return kind(*size, dtype=torch.float64, **{**PRIOR, "initial_scale": 0.05, **settings})


@pytest.mark.parametrize("kind", ALL)
def test_inclusion_is_computed_from_the_weights_and_stored_nowhere(kind):
    layer = layer_of(kind)
    names = {"weight", "bias", "weight_rho", "bias_rho"}
    assert set(layer.state_dict()) == names | {"_extra_state"} and names == {n for n, _ in layer.named_parameters()}
    assert not list(layer.buffers())
    prior = bF.mixture_prior(*PRIOR.values())

    def check():
        for p, (mean, rho) in zip((layer.inclusion_probability, layer.bias_inclusion_probability), layer._groups(),
                                  strict=True):  # fmt: skip
            assert p.shape == mean.shape and not p.requires_grad
            torch.testing.assert_close(p, bF.closed_form_inclusion(mean, F.softplus(rho), prior).detach(), rtol=1e-13,
                                       atol=0)  # fmt: skip

    check()
    before = layer.inclusion_probability
    with torch.no_grad():
        layer.weight.mul_(2.0)
        layer.bias_rho.add_(1.0)
    check()
    assert (layer.inclusion_probability > before).all()
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    layer.kl_divergence().backward()
    optimizer.step()
    check()
    with pytest.raises(AttributeError):
        layer.inclusion_probability = before


def test_layers_without_a_bias():
    layer = layer_of(bias=False)
    assert layer.bias_inclusion_probability is None and layer.inclusion_log_odds()[1] is None
    assert layer.active()[1] is None and layer.selected()[1] is None
    assert layer.num_active().item() == pytest.approx(layer.inclusion_probability.sum().item(), rel=1e-13)


@pytest.mark.parametrize("kind", ALL)
def test_selection_is_by_the_median_probability(kind):
    layer = layer_of(kind, size=(10, 10))
    with torch.no_grad():  # on both sides of the threshold, r = 0.25
        layer.weight.normal_(0.0, 0.3, generator=generator(1))
    weight, bias = layer.active()
    assert torch.equal(weight, layer.inclusion_probability > 0.5) and weight.any() and not weight.all()
    assert torch.equal(bias, layer.bias_inclusion_probability > 0.5)
    assert torch.equal(layer.selected()[0], torch.where(weight, layer.weight, 0.0))
    assert torch.equal(layer.selected()[1], torch.where(bias, layer.bias, 0.0))
    expected = layer.inclusion_probability.sum() + layer.bias_inclusion_probability.sum()
    assert layer.num_active().item() == pytest.approx(expected.item(), rel=1e-12)
    assert layer.percent_active() == pytest.approx(100 * expected.item() / (layer.weight.numel() + 10), rel=1e-12)


def test_log_odds_rank_weights_whose_probability_rounds_to_one():
    layer = layer_of(size=(3, 1), spike_scale=math.exp(-6)).float()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 3.0, 2.0]]))
    assert (layer.inclusion_probability == 1.0).all()
    assert layer.inclusion_log_odds()[0].argsort().tolist() == [[0, 2, 1]]


@pytest.mark.parametrize("estimator", ["weight", "local", "flipout"])
def test_a_pass_s_token_is_used_once_and_only_while_it_is_fresh(estimator):
    """Its gradient is tested in test_objective.py; this is which way it took, since one of them is slower."""
    layer, x = layer_of(estimator=estimator), torch.randn(4, 6, generator=generator(1), dtype=torch.float64)
    layer(x)
    assert "GaussianDraw" in str(layer.kl_gradient().grad_fn.next_functions)
    assert "ClosedFormSum" in str(layer.kl_gradient().grad_fn.next_functions)  # taken: evaluated on its own
    layer(x)
    with torch.no_grad():
        layer.weight.mul_(1.5)
    assert "ClosedFormSum" in str(layer.kl_gradient().grad_fn.next_functions)


def replayed(layer, seed):
    """The noise of a pass with that seed."""
    source = generator(seed)
    return [torch.empty_like(mean).normal_(generator=source) for mean, _ in layer._groups()]


def test_bayes_by_backprop_takes_the_gradient_at_the_weights_of_the_pass():
    layer, x = layer_of(bnn.ScaleMixtureLinear), torch.randn(4, 6, generator=generator(1), dtype=torch.float64)
    with bnn.use_generator(generator(3)):
        loss = layer(x).sin().mean()
    (loss + bnn.kl_gradient(layer) / 10).backward()
    found = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    noise, prior = replayed(layer, 3), bF.mixture_prior(*PRIOR.values())
    scales = [F.softplus(rho) for _, rho in layer._groups()]
    drawn = [mean + s * z for (mean, _), s, z in zip(layer._groups(), scales, noise, strict=True)]
    total = F.linear(x, *drawn).sin().mean()
    for (mean, _), s, z in zip(layer._groups(), scales, noise, strict=True):
        total = total + bF.scale_mixture_kl_sample(mean, s, z, prior).sum() / 10
    total.backward()
    torch.testing.assert_close(found, [p.grad for p in layer.parameters()], rtol=1e-10, atol=1e-13)


def test_bayes_by_backprop_draws_anew_where_there_is_no_fresh_pass():
    layer, x = layer_of(bnn.ScaleMixtureLinear), torch.randn(4, 6, generator=generator(1), dtype=torch.float64)
    prior = bF.mixture_prior(*PRIOR.values())
    layer(x)
    with torch.no_grad():
        layer.weight.mul_(1.5)
    with bnn.use_generator(generator(5)):
        gradient = bnn.kl_gradient(layer)
    with bnn.use_generator(generator(5)):
        value = bnn.kl_divergence(layer)
    expected = sum(bF.scale_mixture_kl_sample(mean, F.softplus(rho), z, prior).sum()
                   for (mean, rho), z in zip(layer._groups(), replayed(layer, 5), strict=True))  # fmt: skip
    assert gradient.item() == 0.0 and torch.equal(value, expected)
    found = (torch.autograd.grad(value, list(layer.parameters())) for value in (gradient, expected))
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-14)
    assert bnn.kl_divergence(layer) != bnn.kl_divergence(layer)


@pytest.mark.parametrize("kind", [bnn.GaussianSpikeSlabLinear, bnn.ScaleMixtureLinear])
@pytest.mark.parametrize("mean", [0.0, 1e-6, 100.0])
@pytest.mark.parametrize("spike_scale", [math.exp(-8), 1e-12])
def test_a_step_in_float32_is_finite_at_extreme_weights(kind, mean, spike_scale):
    layer = kind(6, 4, slab_scale=math.exp(3), spike_scale=spike_scale, prior_inclusion_probability=1e-6)
    with torch.no_grad():
        layer.weight.fill_(mean)
    (layer(torch.randn(5, 6)).square().mean() + bnn.kl_gradient(layer) / 10).backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())
    assert layer.kl_divergence().isfinite() and layer.inclusion_probability.isfinite().all()
