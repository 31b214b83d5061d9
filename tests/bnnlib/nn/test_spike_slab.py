"""The spike-and-slab layers: gates, modes, priors down to 1e-200, the sparse solution of a sparse problem."""

import math

import pytest
import torch

from bnnlib import nn as bnn
from bnnlib.functional import log_odds, spike_slab_kl


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def layer_of(prior=0.1, size=(40, 30), **settings):
    torch.manual_seed(0)
    return bnn.SpikeSlabLinear(*size, prior_inclusion_probability=prior, dtype=torch.float64, **settings)


def test_gates_are_open_with_probability_phi():
    layer = layer_of(size=(200, 100))
    with torch.no_grad():
        layer.weight_logit.fill_(log_odds(0.3))
        weight, bias = layer.draw(generator(1))
    # five standard errors of a share of 20,000; biases start at 0.99
    assert (weight != 0).double().mean().item() == pytest.approx(0.3, abs=5 * (0.21 / 20_000) ** 0.5)
    assert (bias != 0).double().mean() > 0.9
    assert torch.allclose(layer.inclusion_probability, torch.tensor(0.3, dtype=torch.float64))
    assert layer.bias_inclusion_probability.shape == (100,)


def test_mean_and_selected_modes_use_phi_and_the_median_model():
    layer, x = layer_of(size=(3, 2)), torch.eye(3, dtype=torch.float64)
    with torch.no_grad():
        layer.weight_logit.copy_(torch.tensor([[2.0, -2.0, 0.1], [-0.1, 5.0, -5.0]]))
        layer.bias_logit.fill_(-1.0)
    phi = torch.sigmoid(layer.weight_logit)
    with bnn.mean_weights(layer):
        torch.testing.assert_close(layer(x), (layer.weight * phi).T + layer.bias * torch.sigmoid(layer.bias_logit))
    with bnn.selected_weights(layer):
        torch.testing.assert_close(layer(x), (layer.weight * (phi > 0.5)).T)
    assert layer.active()[0].sum() == 3 and not layer.active()[1].any()
    expected = 100 * (phi.sum() + torch.sigmoid(layer.bias_logit).sum()) / 8
    assert layer.sparsity() == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.parametrize("prior", [1e-200, 1e-5, 0.5, 0.99])
def test_divergence_sums_weights_and_biases_at_any_prior(prior):
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        layer = layer_of(prior, prior_scale=1.3).to(dtype)
        expected = 0.0
        for mean, rho, logit in layer._groups():
            scale = torch.nn.functional.softplus(rho)
            expected += spike_slab_kl(mean.double(), scale.double(), logit.double(), prior, 1.3).sum().item()
        assert layer.kl_divergence().item() == pytest.approx(expected, rel=tolerance)
        layer.kl_divergence().backward()
        assert all(p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("logit", [-100.0, 100.0])
def test_training_step_is_finite_at_extreme_logits(logit):
    layer = bnn.SpikeSlabLinear(6, 4, prior_inclusion_probability=1e-8)
    with torch.no_grad():
        layer.weight_logit.fill_(logit)
        layer.bias_logit.fill_(logit)
    (layer(torch.randn(5, 6)).square().mean() + bnn.kl_gradient(layer) / 10).backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())
    weight = layer.draw()[0]
    assert bool((weight == 0).all()) is (logit < 0)


def test_prior_survives_copies_and_dtype_changes():
    layer = layer_of(1e-200).float().double()
    assert layer.prior_inclusion_probability == 1e-200
    assert "prior_inclusion_probability=1e-200" in repr(layer)


def test_relevant_inputs_are_selected_in_sparse_regression():
    n, p = 200, 20
    x = torch.randn(n, p, generator=generator(1), dtype=torch.float64)
    truth = torch.zeros(p, 1, dtype=torch.float64)
    truth[[2, 7, 11]] = torch.tensor([[1.5], [-2.0], [1.0]], dtype=torch.float64)
    y = x @ truth + 0.5 * torch.randn(n, 1, generator=generator(2), dtype=torch.float64)
    layer = layer_of(0.05, size=(p, 1), initial_inclusion_probability=0.9)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.03)
    with bnn.use_generator(generator(3)):
        for _ in range(1500):
            nll = 0.5 * ((layer(x) - y) / 0.5).square().mean()
            optimizer.zero_grad()
            (nll + bnn.kl_gradient(layer) / n).backward()
            optimizer.step()
    active = layer.active()[0].flatten().nonzero().flatten().tolist()
    assert active == [2, 7, 11]
    selected = layer.selected()[0].flatten()[[2, 7, 11]]
    # the least-squares error of a coefficient is 0.5 / sqrt(200) = 0.035: four of them
    assert (selected - truth.flatten()[[2, 7, 11]]).abs().max() < 0.14


@pytest.mark.parametrize("kind", [bnn.SpikeSlabLinear, lambda *a, **k: bnn.SpikeSlabConv2d(*a, 3, **k)])
def test_bad_arguments_are_refused(kind):
    for bad in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match=r"prior_inclusion_probability is .*strictly between 0 and 1"):
            kind(2, 2, prior_inclusion_probability=bad)
        with pytest.raises(ValueError, match=r"initial_inclusion_probability is .*strictly between 0 and 1"):
            kind(2, 2, prior_inclusion_probability=0.1, initial_inclusion_probability=bad)
    for name in ("prior_scale", "initial_scale", "temperature"):
        with pytest.raises(ValueError, match=f"{name} is -2"):
            kind(2, 2, prior_inclusion_probability=0.1, **{name: -2.0})
    with pytest.raises(TypeError, match=r"prior_inclusion_probability"):
        kind(2, 2)
