"""The sparse layers find the inputs that matter in a regression."""

import pytest
import torch
from torch import nn

from bnnlib import nn as bnn
from tests.seeded import seeded as generator

# threshold of p* at 0.12, between the true zeros (errors of 0.035) and the true effects
MIXTURE = {"slab_scale": 1.0, "spike_scale": 0.05, "initial_scale": 0.05}
ACTIVE = {2: 1.5, 7: -2.0, 11: 1.0}


def trained(make, steps, learning_rate, p=20, effects=ACTIVE):
    """A model of one output after training on p inputs, with noise of 0.5; and the data."""
    n = 200
    x = torch.randn(n, p, generator=generator(1), dtype=torch.float64)
    y = sum(effect * x[:, [j]] for j, effect in effects.items())
    y = y + 0.5 * torch.randn(n, 1, generator=generator(2), dtype=torch.float64)
    torch.manual_seed(0)
    model = make(p)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    with bnn.use_generator(generator(3)):
        for _ in range(steps):
            nll = 0.5 * ((model(x) - y) / 0.5).square().mean()
            optimizer.zero_grad()
            (nll + bnn.kl_gradient(model) / n).backward()
            optimizer.step()
    return model, x, y


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "settings", "steps", "learning_rate"),
    [
        (bnn.GaussianSpikeSlabLinear, MIXTURE, 300, 0.08),
        (bnn.ScaleMixtureLinear, MIXTURE, 300, 0.08),
        (bnn.SpikeSlabLinear, {"prior_inclusion_probability": 0.05, "initial_inclusion_probability": 0.9}, 500, 0.1),
    ],
)
def test_relevant_inputs_are_selected(kind, settings, steps, learning_rate):
    layer, *_ = trained(lambda p: kind(p, 1, dtype=torch.float64, **settings), steps, learning_rate)
    active = list(ACTIVE)
    assert layer.active()[0].flatten().nonzero().flatten().tolist() == active
    if kind is not bnn.SpikeSlabLinear:
        assert (layer.inclusion_probability.flatten()[active] > 0.99).all()
    selected = layer.selected()[0].flatten()[active]
    # the least-squares error of a coefficient is 0.5 / sqrt(200) = 0.035: four of them
    assert selected.tolist() == pytest.approx(list(ACTIVE.values()), abs=0.14)


@pytest.mark.slow
def test_variational_dropout_loses_no_relevant_input():
    make = lambda p: bnn.SparseVDLinear(p, 1, dtype=torch.float64)  # noqa: E731
    layer, *_ = trained(make, 2500, 0.02, p=12, effects={2: 1.5, 7: -2.0})
    active = set(layer.active()[0].flatten().nonzero().flatten().tolist())
    # the log-uniform prior keeps a few irrelevant inputs too, its known weakness
    assert {2, 7} <= active and len(active) <= 6


@pytest.mark.slow
def test_noise_on_units_prunes_the_inputs_without_signal():
    make = lambda p: nn.Sequential(bnn.StructuredBayesianPruning(p, -1), nn.Linear(p, 1)).double()  # noqa: E731
    model, x, y = trained(make, 400, 0.05, p=8, effects={1: 2.0, 6: -1.5})
    assert model[0].active().nonzero().flatten().tolist() == [1, 6]
    assert bnn.unit_counts(model) == {"0": (2, 8)} and bnn.percent_active_units(model) == 25.0
    with bnn.selected_weights(model), torch.no_grad():
        # the standard deviation of the noise is 0.5
        assert (model(x) - y).square().mean().sqrt() < 0.58
