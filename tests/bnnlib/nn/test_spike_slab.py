"""The spike-and-slab layers: gates, modes, priors down to 1e-200, the sparse solution of a sparse problem."""

import pytest
import torch

from bnnlib import nn as bnn
from bnnlib.functional import spike_slab_kl


def layer_of(prior=0.1, size=(40, 30), **settings):
    torch.manual_seed(0)
    return bnn.SpikeSlabLinear(*size, prior_inclusion_probability=prior, dtype=torch.float64, **settings)


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
    assert layer.percent_active() == pytest.approx(expected.item(), rel=1e-12)


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
