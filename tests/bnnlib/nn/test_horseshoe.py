"""The horseshoe layer: its product structure, its mean, its divergence, units that switch off."""

import pytest
import torch

from bnnlib import nn as bnn
from bnnlib.functional import gaussian_kl, half_cauchy_kl
from tests.seeded import seeded as generator


def layer_of():
    torch.manual_seed(0)
    layer = bnn.HorseshoeLinear(5, 4, unit_scale=0.5, layer_scale=0.2, initial_scale=0.1, dtype=torch.float64)
    with torch.no_grad():
        layer.unit_location.copy_(torch.tensor([-4.0, -1.0, 0.0, 1.0]))
        layer.unit_log_scale.fill_(-1.5)
        layer.layer_location.fill_(0.3)
    return layer


def test_divergence_is_that_of_its_parts():
    layer = layer_of()
    expected = sum(
        gaussian_kl(mean, torch.nn.functional.softplus(rho), 1.0).sum()
        for mean, rho in ((layer.weight, layer.weight_rho), (layer.bias, layer.bias_rho))
    )
    expected = expected + half_cauchy_kl(layer.unit_location, layer.unit_log_scale, 0.5).sum()
    expected = expected + half_cauchy_kl(layer.layer_location, layer.layer_log_scale, 0.2)
    torch.testing.assert_close(layer.kl_divergence(), expected, rtol=1e-12, atol=0)


def test_a_unit_is_off_below_the_threshold():
    layer = layer_of()
    assert layer.active()[1].tolist() == [False, True, True, True]  # exp(-4 + 0.3) = 0.025 < 0.05
    assert (layer.selected()[0][0] == 0).all() and layer.percent_active() == pytest.approx(75.0)


@pytest.mark.slow
def test_training_switches_useless_units_off():
    x = torch.randn(300, 2, generator=generator(1), dtype=torch.float64)
    y = torch.relu(x[:, :1] - 0.3) * 2 + 0.1 * torch.randn(300, 1, generator=generator(2), dtype=torch.float64)
    torch.manual_seed(0)
    hidden = bnn.HorseshoeLinear(2, 12, layer_scale=0.1, dtype=torch.float64)
    model = torch.nn.Sequential(hidden, torch.nn.ReLU(), bnn.GaussianLinear(12, 1, dtype=torch.float64))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    with bnn.use_generator(generator(3)):
        for _ in range(2500):
            optimizer.zero_grad()
            nll = 0.5 * ((model(x) - y) / 0.1).square().mean()
            (nll + bnn.kl_gradient(model) / 300).backward()
            optimizer.step()
    scales = (hidden.unit_location + hidden.layer_location).exp().sort().values
    # one or a few units carry the function: the largest scale is far above the median unit's
    assert scales[-1] > 5 * scales[5]
    with bnn.mean_weights(model):
        assert (model(x) - y).square().mean() < 0.05
