"""The naive estimate of the predictive distribution: its definition replayed, no trace left behind."""

import copy
import math

import pytest
import torch
from torch import nn

from bnnlib import functional as bF
from bnnlib import nn as bnn
from chapters.batch_statistics.naive import _choose, predict_naive_batches, predict_stored_batches
from chapters.batch_statistics.statistics import collect_statistics
from tests.seeded import normal
from tests.seeded import seeded as generator

TRAIN = normal(600, 3, seed=4)


def network(plain: bool = True) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 2)).double()
    if plain:
        return model
    bnn.match_moments(model := bnn.to_stochastic_batch_norm(model), TRAIN.split(20))
    return model


@pytest.mark.parametrize("plain", [True, False])
def test_it_is_a_training_batch_around_the_object(plain):
    model = network(plain)
    model[1].running_mean.fill_(100.0)
    before, x = copy.deepcopy(model.state_dict()), normal(3, 3, seed=1)
    draws = predict_naive_batches(model, x, TRAIN, 4, 30, generator(1))
    assert draws.shape == (4, 3, 2) and not draws.requires_grad
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), before.values(), strict=True))
    random = generator(1)
    with torch.no_grad():
        for i in range(3):
            for k in range(4):
                others = torch.randperm(600, generator=random)[:29]
                hidden = model[0](torch.cat([x[i : i + 1], TRAIN[others]]))
                mean, log_scale = bF.batch_statistics(hidden)
                row = bF.batch_norm(hidden[:1], mean, log_scale.exp(), model[1].weight, model[1].bias).tanh()
                torch.testing.assert_close(draws[k, i], model[4](row)[0], rtol=1e-11, atol=1e-12)


def test_few_of_many_rows_are_distinct_and_uniform():
    counts = torch.zeros(400)
    for seed in range(500):
        chosen = _choose(400, 15, generator(seed), torch.device("cpu"))
        assert len(chosen.unique()) == 15
        counts[chosen] += 1
    # binomial with mean 18.75: chi-squared with 399 degrees of freedom, five standard deviations
    assert ((counts - 18.75).square() / 18.75).sum() < 399 + 5 * math.sqrt(2 * 399)


def test_modes_are_restored_also_after_an_error():
    model = network(plain=False).train()
    model[3].eval()
    model[1].weight_mode = "mean"
    before = [m.training for m in model.modules()]
    predict_naive_batches(model, normal(2, 3), TRAIN, 2, 10)
    with pytest.raises(RuntimeError):
        predict_naive_batches(model, normal(2, 7), normal(50, 7), 3, 10)
    assert [m.training for m in model.modules()] == before
    assert model[1].weight_mode == "mean" and model[1].track_running_stats


def test_collected_statistics_leave_the_network_alone():
    model = network(plain=False).train()
    before = copy.deepcopy(model.state_dict())
    found = collect_statistics(model, TRAIN.split(20))
    assert found["1"][0].shape == found["1"][1].shape == (30, 4)
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), before.values(), strict=True))
    assert not model[1]._forward_pre_hooks and model[1].training


def deep() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(*(nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2), nn.Tanh()) for _ in range(2))).double()


def test_stored_statistics_of_one_batch_give_its_training_pass():
    model, batch = deep(), normal(6, 2, 3, 3, seed=2)
    stored = collect_statistics(model, [batch])
    draws = predict_stored_batches(model, batch[:4], stored, 3, "all", generator(0))
    torch.testing.assert_close(draws, copy.deepcopy(model).train()(batch)[:4].detach().expand(3, -1, -1, -1, -1))
    assert model.training, "its mode stays"


@pytest.mark.parametrize(("together", "ways"), [("all", 2), ("layer", 2**2), ("nothing", 2**8)])
def test_stored_statistics_are_drawn_together_or_apart(together, ways):
    """Of two batches and two layers of two units with two statistics each: the number of different outputs."""
    model = deep()
    stored = collect_statistics(model, normal(20, 2, 3, 3, seed=3).split(10))
    draws = predict_stored_batches(model, normal(1, 2, 3, 3, seed=5), stored, 4_000, together, generator(0))
    assert len(draws.reshape(4_000, -1).unique(dim=0)) == ways
