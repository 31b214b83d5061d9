"""The virtual batch: its definition replayed, no trace left behind."""

import pytest
import torch
from torch import nn

from bnnlib import functional as bF
from bnnlib import nn as bnn
from tests.seeded import normal
from tests.seeded import seeded as generator

DOUBLE = torch.float64


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 2)).double()


TRAIN = normal(600, 3, seed=4)


def fitted(size=20):
    model = bnn.to_stochastic_batch_norm(network())
    bnn.match_moments(model, TRAIN.split(size))
    return model


@pytest.mark.parametrize("chunk_size", [1000, 7, 1])
def test_copies_have_draws_of_their_own_and_rows_keep_their_place(chunk_size):
    model, x = fitted(), normal(5, 3, seed=1)
    draws = bnn.predict_virtual_batch(model, x, 4, chunk_size, generator(1))
    assert draws.shape == (4, 5, 2) and not draws.requires_grad and len(draws.flatten(0, 1).unique(dim=0)) == 20
    # without spread every copy is the deterministic network's output
    model[1].running_mean_variance.zero_()
    model[1].running_log_scale_variance.zero_()
    with bnn.mean_weights(model.eval()), torch.no_grad():
        expected = model(x)
    draws = bnn.predict_virtual_batch(model, x, 4, chunk_size, generator(1))
    torch.testing.assert_close(draws, expected.expand(4, 5, 2), rtol=1e-10, atol=1e-12)


def test_the_virtual_batch_is_one_pass_with_a_row_a_copy():
    model, x = fitted(), normal(5, 3, seed=1)
    rows = []
    model[0].register_forward_hook(lambda module, inputs, output: rows.append(len(output)))
    draws = bnn.predict_virtual_batch(model, x, 4, 100, generator(1))
    assert rows == [20]
    bnn.predict_virtual_batch(model, x, 4, 8, generator(1))
    assert rows == [20, 8, 8, 4]
    # replayed: copies of an object are neighbors
    noise = torch.empty(2, 20, 4, dtype=DOUBLE).normal_(generator=generator(1))
    mean, scale = bF.sample_statistics(model[1].moments(), noise)
    with torch.no_grad():
        hidden = bF.batch_norm(model[0](x.repeat_interleave(4, 0)), mean, scale, model[1].weight, model[1].bias)
        expected = model[4](hidden.tanh()).view(5, 4, 2).transpose(0, 1)
    torch.testing.assert_close(draws, expected, rtol=1e-12, atol=1e-12)


def test_modes_are_restored_also_after_an_error():
    model = fitted().train()
    model[3].eval()
    model[1].weight_mode = "mean"
    before = [m.training for m in model.modules()]
    bnn.predict_virtual_batch(model, normal(2, 3), 3)
    with pytest.raises(RuntimeError):
        bnn.predict_virtual_batch(model, normal(2, 7), 3)
    assert [m.training for m in model.modules()] == before
    assert (model[1].draws, model[1].weight_mode, model[1]._held) == ("batch", "mean", None)
