"""Training with noise on units: it finds the inputs that carry signal, and a killed run resumes bit for bit."""

import pytest
import torch
from torch import nn

from bnnlib import nn as bnn
from bnnlib.train.fit import fit
from tests.seeded import seeded as generator

LAYER = bnn.StructuredBayesianPruning


def problem(rows=120) -> tuple[torch.Tensor, torch.Tensor]:
    """Two of eight inputs carry the target."""
    x = torch.randn(rows, 8, generator=generator(1))
    return x, 2.0 * x[:, [1]] - 1.5 * x[:, [6]] + 0.3 * torch.randn(rows, 1, generator=generator(2))


def trained(epochs, checkpoint=None):
    torch.manual_seed(0)
    model = nn.Sequential(LAYER(8, -1), nn.Linear(8, 1))
    run = fit(
        model,
        problem(),
        epochs=epochs,
        batch_size=40,
        optimizer=torch.optim.Adam(model.parameters(), lr=0.05),
        loss=lambda output, y: 0.5 * ((output - y) / 0.3).square().mean(),
        generator=generator(3),
        checkpoint=checkpoint,
    )
    return model, run


@pytest.mark.slow
def test_training_prunes_the_inputs_without_signal():
    model, run = trained(90)
    assert model[0].active().nonzero().flatten().tolist() == [1, 6]
    assert bnn.unit_counts(model) == {"0": (2, 8)} and bnn.percent_active_units(model) == 25.0
    assert run.history[-1]["kl"] > 0
    x, y = problem(500)
    with bnn.selected_weights(model), torch.no_grad():
        # the s.d. of the noise is 0.3
        assert (model(x) - y).square().mean().sqrt() < 0.35
