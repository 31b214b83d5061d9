"""Draws of a posterior out of `fit`: a store among its callbacks, and the adaptive variational optimizer."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib.optim import AdaptiveVariational
from bnnlib.sampling import SampleStore
from bnnlib.train import fit
from tests.bnnlib.train.runs import data
from tests.seeded import seeded


def run(form: str, store: SampleStore):
    model = nn.Linear(6, 3)
    nn.init.zeros_(model.weight), nn.init.zeros_(model.bias)
    optimizer = AdaptiveVariational(model.parameters(), 0.01, 50, form=form, temperature=0.1, generator=seeded(2))
    fit(model, data(), epochs=3, batch_size=16, optimizer=optimizer, generator=seeded(3), callbacks=[store])
    return model


@pytest.mark.parametrize("form", ["sghmc", "natural"])
def test_a_store_among_the_callbacks_keeps_every_so_many_states(form):
    store = SampleStore(max_samples=100, burn_in=4, every=2)
    model = run(form, store)
    assert store.offered == len(store) == 4  # after steps 6, 8, 10 and 12 of 12
    weights = store.stacked("weight")
    assert not torch.equal(weights[2], weights[3])
    # the weights of one form are draws, of the other means: there the draws lie around them
    assert torch.equal(weights[-1], model.weight.detach()) == (form == "sghmc")
    assert store.predict(model, data()[0]).shape == (50, 3)


def test_the_natural_form_takes_its_gradients_at_a_draw():
    """Without the draw the curvature by Stein's identity has nothing to go by, and the optimizer says so."""
    x, seen = torch.randn(200, 1, generator=seeded(0)), []
    model = nn.Linear(1, 1)
    model.register_forward_pre_hook(lambda module, inputs: seen.append(module.weight.detach().clone()))
    options = {"form": "natural", "estimator": "stein", "temperature": 0.5, "generator": seeded(0)}
    optimizer = AdaptiveVariational(model.parameters(), 1e-6, len(x), **options)
    fit(model, (x, 0.7 * x), epochs=50, batch_size=len(x), loss=F.mse_loss, optimizer=optimizer, generator=seeded(1))
    assert torch.cat(seen).std() > 0.1  # about T s, while the mean hardly moves
