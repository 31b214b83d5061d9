"""Posterior predictive draws: one function a sample, whatever the chunks."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from bnnlib import nn as bnn
from tests.seeded import seeded as generator


def test_samples_do_not_depend_on_the_chunks(any_network, x):
    network = any_network
    whole = bnn.predict(network, x, 5, chunk_size=100, generator=generator(1))
    assert whole.shape == (5, 7, 2) and not whole.requires_grad
    for chunk_size in (1, 3, 7):
        parts = bnn.predict(network, x, 5, chunk_size=chunk_size, generator=generator(1))
        # only the order of summation within a product may differ
        torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-12)
    assert not torch.allclose(whole[0], whole[1])


def test_a_table_is_read_as_its_array_is(x):
    network = bnn.to_bayesian(nn.Linear(x.shape[1], 2)).to(x.dtype)
    array = x.numpy()
    draws = [bnn.predict(network, one, 3, generator=generator(0)) for one in (pd.DataFrame(array), array.tolist(), x)]
    assert torch.equal(draws[0], draws[2]) and torch.equal(draws[1], draws[2])
    draws = [bnn.predict(network.float(), one, 3, generator=generator(0)) for one in (array, x.float())]
    assert torch.equal(*draws)  # an array is taken as the model reads numbers
    tokens = bnn.to_bayesian(nn.Sequential(nn.Embedding(5, 2)))
    assert bnn.predict(tokens, np.array([[0, 4]]), 2).shape == (2, 1, 2, 2)
    mixed = pd.DataFrame(array).assign(last=array[:, -1] > 0)
    bnn.predict(bnn.to_bayesian(nn.Linear(mixed.shape[1], 2)), mixed, 3)
    with pytest.raises(TypeError, match=r"x is a DataFrame that holds more than numbers.*'Bern'"):
        bnn.predict(network, mixed.assign(last="Bern"), 3)


def test_modes_are_restored_and_eval_is_used_inside():
    seen = []

    class Probe(nn.Module):
        def forward(self, x):
            seen.append(self.training)
            return x

    model = nn.Sequential(bnn.GaussianLinear(2, 2), Probe(), nn.Dropout(0.9)).train()
    model[2].eval()
    bnn.predict(model, torch.randn(3, 2), 2)
    assert seen == [False, False] and [m.training for m in model] == [True, True, False]


def test_images_and_one_dimensional_outputs():
    model = nn.Sequential(bnn.GaussianConv2d(1, 2, 3), nn.Flatten(), bnn.GaussianLinear(2 * 36, 1), nn.Flatten(0))
    assert bnn.predict(model, torch.randn(5, 1, 8, 8), 3, chunk_size=2).shape == (3, 5)


LINEAR = nn.Sequential(bnn.GaussianLinear(4, 8), nn.ReLU(), bnn.GaussianLinear(8, 1))
IMAGE, WIDE = nn.Sequential(bnn.GaussianConv2d(1, 2, 2), nn.Flatten()), bnn.GaussianLinear(400, 300)


@pytest.mark.parametrize(
    ("model", "shape", "expected"),
    [(LINEAR, (128, 4), 25), (LINEAR, (129, 4), 1), (WIDE, (128, 400), 1), (IMAGE, (1, 1, 2, 2), 1)],
)
def test_auto_is_a_rule_of_sizes(model, shape, expected):
    x = torch.randn(shape)
    draws = [
        bnn.predict(model, x, 26, generator=generator(1), draws_at_once=at_once)
        for at_once in ("auto", expected, 26 - expected)
    ]
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])


@pytest.mark.filterwarnings("error:There is a performance drop:UserWarning")
def test_draws_at_once_are_draws_of_the_same_functions(any_network, x):
    n, some = 400, generator(1)
    # twice the rows, in chunks that part them: a draw is one function of all rows
    draws = bnn.predict(any_network, torch.cat([x, x]), n, 5, some, draws_at_once=150)
    assert draws.shape == (n, 14, 2) and not draws.requires_grad
    torch.testing.assert_close(draws[:, :7], draws[:, 7:], rtol=1e-12, atol=1e-12)
    assert torch.equal(draws, bnn.predict(any_network, torch.cat([x, x]), n, 5, generator(1), draws_at_once=150))
    assert not torch.allclose(draws[0], draws[1]) and not torch.allclose(draws[0], draws[150])
    one_by_one = bnn.predict(any_network, x, n, generator=generator(2))
    # the share above the other median, which heavy tails do not move; five standard errors of it
    above = (draws[:, :7] > one_by_one.median(dim=0).values).double().mean(dim=0)
    assert ((above - 0.5).abs() < 5 * (0.5 / n) ** 0.5).all()


def test_a_prediction_draws_as_one_layer_after_another_does(any_network, x):
    """What it computes once for all draws changes no bit of them."""
    found, noise = bnn.predict(any_network, x, 3, generator=generator(1)), generator(1)
    any_network.eval()
    for outputs in found:
        with torch.no_grad(), bnn.held_weights(any_network, noise):
            assert torch.equal(outputs, any_network(x))


def test_a_layer_of_one_s_own_draws_as_it_says(x):
    class Doubled(bnn.GaussianLinear):
        def draw(self, generator=None):
            weight, bias = super().draw(generator)
            return 2.0 * weight, bias

    network = Doubled(5, 2, dtype=torch.float64)
    with torch.no_grad(), bnn.held_weights(network, generator(1)):
        expected = network(x)
    assert torch.equal(bnn.predict(network, x, 1, generator=generator(1))[0], expected)
