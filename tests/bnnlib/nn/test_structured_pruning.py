"""Structured Bayesian Pruning as a layer: shared noise, modes, threshold, types, errors."""

import math

import pytest
import torch
from torch import nn

from bnnlib import nn as bnn
from chapters.unit_noise import formulas
from tests.seeded import seeded as generator

LAYER = bnn.StructuredBayesianPruning


def spread(num_units=6, dim=1, *, dtype=torch.float64, **settings) -> nn.Module:
    """A layer whose units run from almost no noise (kept) to almost the prior (pruned)."""
    layer = LAYER(num_units, dim, dtype=dtype, **settings)
    with torch.no_grad():
        layer.location.copy_(torch.linspace(0.3, -6.0, num_units))
        layer.log_scale.copy_(torch.linspace(-4.0, 2.0, num_units))
    return layer


PLACES = [((4, 6), 1), ((4, 6), -1), ((6,), -1), ((6,), 0), ((6, 5), 0), ((2, 3, 6), 2)]


@pytest.mark.parametrize(("shape", "dim"), [*PLACES, ((4, 6, 3, 5), 1), ((4, 6, 3, 5), -3)])
def test_all_rows_and_positions_share_one_noise_per_unit(shape, dim):
    layer, x = spread(dim=dim), torch.rand(shape, dtype=torch.float64) + 0.5
    output = layer(x, generator(1))
    assert output.shape == x.shape
    theta = (output / x).movedim(dim, 0).reshape(6, -1)
    torch.testing.assert_close(theta, layer.draw(generator(1))[:, None].expand_as(theta), rtol=1e-12, atol=0)
    assert len(theta[:, 0].unique()) == 6 and not torch.equal(layer(x), layer(x))


def test_modes():
    layer, x = spread(), torch.randn(5, 6, dtype=torch.float64, generator=generator(1))
    location, scale = layer.location.detach(), layer.log_scale.detach().exp()
    mean, snr = formulas.truncated_log_normal_mean(location, scale), formulas.truncated_log_normal_snr(location, scale)
    torch.testing.assert_close(layer.mean(), mean, rtol=1e-12, atol=0)
    torch.testing.assert_close(layer.signal_to_noise(), snr, rtol=1e-12, atol=0)
    kept = snr > 1.0
    assert 0 < kept.sum() < 6 and torch.equal(layer.active(), kept) and layer.num_active() == kept.sum()
    for mode in (layer.train(), layer.eval()):
        assert not torch.equal(mode(x), mode(x))
        with bnn.mean_weights(layer):
            torch.testing.assert_close(mode(x), x * mean, rtol=1e-12, atol=0)
        with bnn.selected_weights(layer):
            output = mode(x)
            torch.testing.assert_close(output, x * mean * kept, rtol=1e-12, atol=0)
            assert (output[:, ~kept] == 0).all() and torch.equal(layer.selected() == 0, ~kept)
    assert layer.weight_mode == "sample"


def test_the_threshold_is_strict_and_of_the_ratio():
    layer = spread()
    ratios = layer.signal_to_noise().tolist()
    for threshold in ratios:
        layer.threshold = threshold
        assert layer.num_active() == sum(ratio > threshold for ratio in ratios)
    assert spread(threshold=0.0).num_active() == 6 and spread(threshold=1e6).num_active() == 0
    prior = LAYER(3, initial_scale=math.exp(5.0))
    torch.testing.assert_close(prior.signal_to_noise(), torch.full((3,), 1 / 3), rtol=1e-2, atol=0)
    assert prior.num_active() == 0 and LAYER(3).num_active() == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_types(dtype):
    layer, x = LAYER(6, dtype=dtype), torch.randn(4, 6, dtype=dtype)
    assert all(p.dtype == dtype for p in layer.parameters()) and layer(x).dtype == dtype
    assert {layer.mean().dtype, layer.signal_to_noise().dtype} == {dtype}
    assert layer.kl_divergence().dtype == torch.promote_types(dtype, torch.float32)  # a sum leaves half precision
    (layer(x).sum() + bnn.kl_gradient(layer)).backward()
    assert all(p.grad.dtype == dtype and p.grad.isfinite().all() for p in layer.parameters())
    before = layer.double().log_scale.detach().clone()
    assert torch.equal(layer.float().double().log_scale, before.float().double())
    assert layer.float()(torch.randn(4, 6, dtype=torch.bfloat16)).dtype == torch.bfloat16  # the input decides


def test_autocast_and_channels_last():
    model = nn.Sequential(nn.Conv2d(3, 6, 3), spread(dtype=torch.float32)).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    output = model(x)
    assert output.is_contiguous(memory_format=torch.channels_last)
    with bnn.held_weights(model, generator(1)):
        plain = model(x.contiguous())
        torch.testing.assert_close(model(x), plain)
        with torch.autocast("cpu", torch.bfloat16):
            lower = model(x)
        assert lower.dtype == torch.bfloat16
        # eight bits of the products
        torch.testing.assert_close(lower.float(), plain, rtol=0.05, atol=0.02)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(x).float().square().mean()
    (loss + bnn.kl_gradient(model)).backward()
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in model.parameters())


def test_what_shows_and_what_counts_as_random_weights():
    layer = LAYER(3, kl_weight=5.0)
    assert repr(layer) == "StructuredBayesianPruning(3, dim=1, threshold=1, kl_weight=5)"
    assert isinstance(layer, bnn.StochasticLayer) and not isinstance(layer, bnn.BayesianLayer)
    model = nn.Sequential(bnn.SparseVDLinear(3, 3), layer)
    assert bnn.bayesian_layers(model) == [model[0], layer]
    assert bnn.percent_active(model) == bnn.percent_active(model[0]) and bnn.percent_active_units(model) == 100.0
    torch.testing.assert_close(bnn.kl_divergence(model), model[0].kl_divergence() + layer.kl_divergence())
    for parameter in layer.parameters():
        parameter.data.fill_(2.0)
    layer.reset_parameters()
    assert (layer.location == 0).all() and torch.allclose(layer.log_scale, torch.full((3,), -5.0))
