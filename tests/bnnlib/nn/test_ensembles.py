"""Deep ensembles and Monte Carlo dropout: whose outputs, which masks, and that modes and generators are left alone."""

import pytest
import torch
from torch import nn

from bnnlib import models
from bnnlib import nn as bnn
from tests.seeded import seeded as generator

DOUBLE = torch.float64


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=DOUBLE)


def network(seed=0, dropout=nn.Dropout):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 40), nn.BatchNorm1d(40), nn.Tanh(), dropout(0.5), nn.Linear(40, 2)).double()
    for part in normal(600, 3, seed=9).split(20):
        model(part)
    return model


def stochastic(seed=0, **options):
    model = bnn.to_stochastic_batch_norm(network(seed, **options))
    bnn.match_moments(model, normal(600, 3, seed=9).split(20))
    return model


def test_deterministic_members_give_their_outputs_in_order():
    members, x = [network(seed).train() for seed in range(3)], normal(7, 3)
    outputs = bnn.predict_ensemble(members, x, chunk_size=2)
    assert outputs.shape == (3, 7, 2) and not outputs.requires_grad and all(m.training for m in members[0].modules())
    with torch.no_grad():
        for output, member in zip(outputs, members, strict=True):
            torch.testing.assert_close(output, member.eval()(x), rtol=1e-12, atol=1e-12)


def test_members_that_sample_give_functions():
    members, x = [stochastic(0), network(1), stochastic(2)], normal(7, 3)
    whole = bnn.predict_ensemble(members, x, 4, generator=generator(1))
    parts = bnn.predict_ensemble(members, x, 4, chunk_size=3, generator=generator(1))
    assert whole.shape == (12, 7, 2)
    torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(whole[:4], bnn.predict(members[0], x, 4, generator=generator(1)), rtol=1e-12, atol=1e-12)
    # the deterministic member counts as much as the others
    assert torch.equal(whole[4:8], whole[4].expand(4, 7, 2)) and not torch.allclose(whole[8], whole[9])


def test_mean_mode_makes_a_member_deterministic():
    member, x = stochastic(), normal(7, 3)
    with bnn.mean_weights(member):
        outputs = bnn.predict_ensemble([member], x, 3)
        with torch.no_grad():
            expected = member.eval()(x)
    torch.testing.assert_close(outputs, expected.expand(3, 7, 2), rtol=1e-12, atol=1e-12)
    assert member[1]._held is None


@pytest.mark.parametrize("kind", [nn.Dropout, models.Dropout])
def test_dropout_is_on_and_the_rest_is_not(kind):
    model, x = network(dropout=kind).eval(), normal(5, 3)
    modes = [m.training for m in model.modules()]
    state = torch.get_rng_state()
    draws = bnn.predict_dropout(model, x, 400, generator=generator(1))
    assert torch.equal(torch.get_rng_state(), state) and [m.training for m in model.modules()] == modes
    assert torch.equal(draws, bnn.predict_dropout(model, x, 400, generator=generator(1)))
    assert not torch.equal(draws, bnn.predict_dropout(model, x, 400, generator=generator(2)))
    # above the dropout the network is linear, so the mean over masks is the network without: five standard errors
    with torch.no_grad():
        expected = model(x)
    assert ((draws.mean(dim=0) - expected).abs() < 5 * draws.std(dim=0) / 20).all() and (draws.std(dim=0) > 0).all()


@pytest.mark.parametrize("kind", [nn.Dropout, models.Dropout])
def test_every_row_has_a_mask_of_its_own(kind):
    draws = bnn.predict_dropout(network(dropout=kind), normal(1, 3).expand(6, 3), 2, generator=generator(1))
    assert len(draws.flatten(0, 1).unique(dim=0)) == 12


@pytest.mark.slow
def test_dropout_goes_with_stochastic_statistics():
    model, x = stochastic(dropout=models.Dropout), normal(5, 3)
    both = bnn.predict_dropout(model, x, 3000, generator=generator(1))
    with bnn.mean_weights(model):
        masks = bnn.predict_dropout(model, x, 3000, generator=generator(1))
    statistics = bnn.predict(model, x, 3000, generator=generator(1))
    variances = [draws.var(dim=0).mean().item() for draws in (both, masks, statistics)]
    assert variances[0] > 1.02 * variances[1] and variances[0] > 1.02 * variances[2] and model[1]._held is None
    # one draw of the statistics a sample: without masks, equal rows would have equal outputs
    model[3].probability = 0.0
    same = bnn.predict_dropout(model, x[:1].expand(4, 3), 3, chunk_size=2, generator=generator(1))
    torch.testing.assert_close(same, same[:, :1].expand(3, 4, 2), rtol=1e-12, atol=1e-12)
    assert not torch.allclose(same[0], same[1])


def test_without_a_generator_the_global_one_is_used():
    model, x = network(), normal(5, 3)
    torch.manual_seed(4)
    first = bnn.predict_dropout(model, x, 2)
    second = bnn.predict_dropout(model, x, 2)
    torch.manual_seed(4)
    assert torch.equal(first, bnn.predict_dropout(model, x, 2)) and not torch.equal(first, second)
