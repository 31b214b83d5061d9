"""The layers with a Gaussian spike and slab: p* follows the weights, gradients through the token, what is selected."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib import functional as bF
from bnnlib import nn as bnn

PRIOR = {"slab_scale": 1.0, "spike_scale": 0.1, "prior_inclusion_probability": 0.3}
ALL = [
    bnn.GaussianSpikeSlabLinear,
    bnn.ScaleMixtureLinear,
    lambda *a, **k: bnn.GaussianSpikeSlabConv2d(*a, 3, **k),
    lambda *a, **k: bnn.ScaleMixtureConv2d(*a, 3, **k),
]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


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
    assert layer.sparsity() == pytest.approx(100 * expected.item() / (layer.weight.numel() + 10), rel=1e-12)


def test_log_odds_rank_weights_whose_probability_rounds_to_one():
    layer = layer_of(size=(3, 1), spike_scale=math.exp(-6)).float()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 3.0, 2.0]]))
    assert (layer.inclusion_probability == 1.0).all()
    assert layer.inclusion_log_odds()[0].argsort().tolist() == [[0, 2, 1]]


def test_divergence_is_the_profile_penalty_of_weights_and_biases():
    layer = layer_of()
    prior = bF.mixture_prior(*PRIOR.values())
    expected = sum((bF.spike_slab_profile_penalty(m, F.softplus(r), prior) - 0.5).sum() for m, r in layer._groups())
    torch.testing.assert_close(layer.kl_divergence(), expected, rtol=1e-13, atol=0)
    # no other indicator probabilities come below it
    for p in (0.1, 0.5, 0.9):
        other = sum(bF.spike_slab_penalty(m, F.softplus(r), torch.full_like(m, p), prior).sum() - 0.5 * m.numel()
                    for m, r in layer._groups())  # fmt: skip
        assert other > expected


@pytest.mark.parametrize("estimator", ["weight", "local", "flipout"])
def test_a_pass_s_token_is_used_once_and_only_while_it_is_fresh(estimator):
    layer, x = layer_of(estimator=estimator), torch.randn(4, 6, generator=generator(1), dtype=torch.float64)

    def gradients(value):
        found = torch.autograd.grad(value, list(layer.parameters()), retain_graph=True, allow_unused=True)
        return [torch.zeros_like(p) if g is None else g for g, p in zip(found, layer.parameters(), strict=True)]

    def same(first, second):
        return all(torch.allclose(a, b, rtol=1e-11, atol=1e-13) for a, b in zip(first, second, strict=True))

    layer(x)
    token = layer.kl_gradient()
    assert "GaussianDraw" in str(token.grad_fn.next_functions) and token.item() == 0.0
    assert same(gradients(token), gradients(layer.kl_divergence()))
    assert "ClosedFormSum" in str(layer.kl_gradient().grad_fn.next_functions)  # taken: evaluated on its own
    layer(x)
    with torch.no_grad():
        layer.weight.mul_(1.5)
    stale = layer.kl_gradient()
    assert "ClosedFormSum" in str(stale.grad_fn.next_functions)
    assert same(gradients(stale), gradients(layer.kl_divergence()))


def replayed(layer, seed):
    """The noise of a pass with that seed."""
    source = generator(seed)
    return [torch.empty_like(mean).normal_(generator=source) for mean, _ in layer._groups()]


def test_bayes_by_backprop_takes_the_gradient_at_the_weights_of_the_pass():
    layer, x = layer_of(bnn.ScaleMixtureLinear), torch.randn(4, 6, generator=generator(1), dtype=torch.float64)
    with bnn.use_generator(generator(3)):
        loss = layer(x).sin().mean()
    (loss + bnn.kl_gradient(layer) / 10).backward()
    found = [p.grad.clone() for p in (layer.weight, layer.bias, layer.weight_rho, layer.bias_rho)]
    layer.zero_grad()
    noise, prior = replayed(layer, 3), bF.mixture_prior(*PRIOR.values())
    scales = [F.softplus(rho) for _, rho in layer._groups()]
    drawn = [mean + s * z for (mean, _), s, z in zip(layer._groups(), scales, noise, strict=True)]
    total = F.linear(x, *drawn).sin().mean()
    for (mean, _), s, z in zip(layer._groups(), scales, noise, strict=True):
        total = total + bF.scale_mixture_kl_sample(mean, s, z, prior).sum() / 10
    total.backward()
    for ours, p in zip(found, (layer.weight, layer.bias, layer.weight_rho, layer.bias_rho), strict=True):
        torch.testing.assert_close(ours, p.grad, rtol=1e-10, atol=1e-13)


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
    for a, b in zip(*(torch.autograd.grad(v, list(layer.parameters())) for v in (gradient, expected)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)
    assert bnn.kl_divergence(layer) != bnn.kl_divergence(layer)


def test_closed_form_gradients_scatter_less_than_bayes_by_backprop_s():
    """Section 3.3: the expectation over Z is exact in one and a draw in the other, with the same data term."""
    scatter = {}
    for kind in (bnn.GaussianSpikeSlabLinear, bnn.ScaleMixtureLinear):
        layer, noise = layer_of(kind), generator(3)
        draws = []
        for _ in range(300):
            layer(torch.zeros(1, 6, dtype=torch.float64), noise)
            draws.append(torch.autograd.grad(bnn.kl_gradient(layer), layer.weight)[0])
        scatter[kind] = torch.stack(draws).std(dim=0)
    assert scatter[bnn.GaussianSpikeSlabLinear].max() < 1e-12 < 1e-2 < scatter[bnn.ScaleMixtureLinear].min()


def test_conversion_goes_there_and_back():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2)).double()
    images = torch.randn(2, 1, 6, 6, generator=generator(1), dtype=torch.float64)
    for kind in ("gaussian_spike_slab", "scale_mixture"):
        model = bnn.to_bayesian(plain, kind, **PRIOR)
        layers = bnn.bayesian_layers(model)
        assert [layer.inclusion_probability.shape for layer in layers] == [(3, 1, 3, 3), (2, 48)]
        assert all((layer.slab_scale, layer.prior_inclusion_probability) == (1.0, 0.3) for layer in layers)
        back = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2)).double()
        back.load_state_dict(model.state_dict(), strict=False)
        assert torch.equal(back(images), plain(images))
        with pytest.raises(TypeError, match="slab_scale"):
            bnn.to_bayesian(plain, kind)
    with pytest.raises(TypeError, match="estimator"):
        bnn.to_bayesian(plain, "scale_mixture", estimator="local", **PRIOR)


@pytest.mark.parametrize("kind", ALL)
def test_settings_show_in_the_representation_and_survive_casts(kind):
    layer = layer_of(kind).float().double()
    for text in ("slab_scale=1", "spike_scale=0.1", "prior_inclusion_probability=0.3", "estimator='weight'"):
        assert text in repr(layer)
    assert layer._prior == bF.mixture_prior(*PRIOR.values())


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


@pytest.mark.parametrize("kind", [bnn.GaussianSpikeSlabLinear, bnn.ScaleMixtureLinear])
def test_relevant_inputs_are_selected_in_sparse_regression(kind):
    n, p = 200, 20
    x = torch.randn(n, p, generator=generator(1), dtype=torch.float64)
    truth = torch.zeros(p, 1, dtype=torch.float64)
    truth[[2, 7, 11]] = torch.tensor([[1.5], [-2.0], [1.0]], dtype=torch.float64)
    y = x @ truth + 0.5 * torch.randn(n, 1, generator=generator(2), dtype=torch.float64)
    # threshold of p* at 0.12, between the true zeros (errors of 0.035) and the true effects
    layer = layer_of(kind, size=(p, 1), spike_scale=0.05, prior_inclusion_probability=0.5)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.03)
    with bnn.use_generator(generator(3)):
        for _ in range(800):
            nll = 0.5 * ((layer(x) - y) / 0.5).square().mean()
            optimizer.zero_grad()
            (nll + bnn.kl_gradient(layer) / n).backward()
            optimizer.step()
    inclusion = layer.inclusion_probability.flatten()
    assert (inclusion > 0.5).nonzero().flatten().tolist() == [2, 7, 11] and (inclusion[[2, 7, 11]] > 0.99).all()
    selected = layer.selected()[0].flatten()[[2, 7, 11]]
    # the least-squares error of a coefficient is 0.5 / sqrt(200) = 0.035: four of them
    assert (selected - truth.flatten()[[2, 7, 11]]).abs().max() < 0.14


@pytest.mark.parametrize("kind", ALL)
def test_bad_arguments_are_refused(kind):
    for bad in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match=r"prior_inclusion_probability is .*strictly between 0 and 1"):
            kind(2, 2, **{**PRIOR, "prior_inclusion_probability": bad})
    for name in ("slab_scale", "spike_scale", "initial_scale"):
        for bad in (0.0, -2.0, math.nan, math.inf):
            with pytest.raises(ValueError, match=f"{name} is .*finite and above 0"):
                kind(2, 2, **{**PRIOR, name: bad})
    for spike in (1.0, 2.0):
        with pytest.raises(ValueError, match=r"spike_scale is .* and slab_scale 1, but the spike must be narrower"):
            kind(2, 2, slab_scale=1.0, spike_scale=spike)
    with pytest.raises(TypeError, match="slab_scale"):
        kind(2, 2)


def test_an_unknown_estimator_is_refused():
    with pytest.raises(ValueError, match="estimator is 'lrt', but it must be one of"):
        bnn.GaussianSpikeSlabLinear(2, 2, estimator="lrt", **PRIOR)
    with pytest.raises(TypeError, match="estimator"):
        bnn.ScaleMixtureLinear(2, 2, estimator="local", **PRIOR)
