"""Spread and margin of logits, the control of the noise, readings of the entropy; and the naive estimate."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from bnnlib import functional as bF
from bnnlib import metrics
from bnnlib import nn as bnn
from bnnlib.nn import match_moments, to_stochastic_batch_norm
from book import lab
from chapters.batch_statistics import noise
from chapters.batch_statistics.experiments import real_noise
from chapters.batch_statistics.experiments.readings import cdf_readings
from chapters.batch_statistics.naive import _choose, predict_naive_batches, predict_stored_batches
from chapters.batch_statistics.numbers import perfect_tail
from chapters.batch_statistics.statistics import collect_statistics
from tests.seeded import normal
from tests.seeded import seeded as generator


def made(images: int = 400, draws: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of three classes: equal noise for all, the first half with a margin of 6, the others with 1."""
    generator = torch.Generator().manual_seed(0)
    mean = torch.zeros(images, 3, dtype=torch.float64)
    mean[: images // 2, 1], mean[images // 2 :, 2] = 6.0, 1.0
    mean[:, 0] = -4.0
    return mean, mean + torch.randn(draws, images, 3, generator=generator, dtype=torch.float64)


def test_distances_are_between_the_two_classes_that_lead_on_average():
    logits = torch.tensor([[[1.0, 3.0, 2.9]], [[0.0, 3.0, 2.0]], [[9.0, 5.0, 9.0]]])  # means 3.3, 3.7, 4.6
    assert noise.leading(logits).tolist() == [[2, 1]]
    assert noise.distances(logits)[:, 0].tolist() == pytest.approx([-0.1, -1.0, 4.0])


def test_exchanged_draws_keep_each_mean_and_all_deviations():
    _, logits = made(40, 20)
    other = noise.exchanged(logits, torch.Generator().manual_seed(1))
    assert torch.allclose(other.mean(0), logits.mean(0))
    deviations = [(one - one.mean(0)).square().sum((0, 2)).sort().values for one in (logits, other)]
    assert torch.allclose(*deviations) and not torch.allclose(other, logits)


def test_equal_noise_says_nothing_and_the_margin_all():
    mean, logits = made()
    found = noise.measures(logits, mean, 200, torch.Generator().manual_seed(2))
    # the difference of two independent noises has the standard deviation sqrt(2), to 4 % with 300 draws
    assert found["spread_known"] == pytest.approx(2**0.5, rel=0.04) == found["spread_unknown"]
    assert found["margin_known"] == pytest.approx(6.0, abs=0.1) and found["margin_unknown"] == pytest.approx(1, abs=0.1)
    assert found["auroc_averages"] == found["auroc_own"] == found["auroc_exchanged"] == 100.0
    assert abs(found["auroc_spread"] - 50) < 9  # three standard errors of the rank statistic with 200 and 200 are 8.7


def test_noise_that_knows_its_image_is_lost_by_the_exchange():
    """Equal margins, unequal noise: only an image's own draws tell the two kinds apart."""
    mean = torch.tensor([0.0, 3.0, -3.0], dtype=torch.float64).expand(400, 3)
    scale = torch.tensor([0.3, 3.0], dtype=torch.float64).repeat_interleave(200)[:, None]
    generator = torch.Generator().manual_seed(3)
    logits = mean + scale * torch.randn(100, 400, 3, generator=generator, dtype=torch.float64)
    logits = logits - logits.mean(0) + mean  # equal to the last digit, also on average
    found = noise.measures(logits, mean, 200, torch.Generator().manual_seed(4))
    assert found["auroc_averages"] == 50.0 and found["auroc_own"] > 99 and found["auroc_spread"] > 99
    assert abs(found["auroc_exchanged"] - 50) < 9


def small() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3)).eval()


def test_averages_are_those_of_the_stored_batches():
    model, batches = small(), torch.randn(50, 16, 3)
    plain = real_noise.averaged(model, collect_statistics(model, batches))
    inputs = model[0](batches).detach()
    assert torch.allclose(plain[1].running_mean, inputs.mean((0, 1)), atol=1e-5)
    assert torch.allclose(plain[1].running_var, inputs.var(1, correction=0).mean(0), atol=1e-5)
    assert torch.equal(model[1].running_mean, torch.zeros(4)) and not plain.training


def test_an_exchange_by_rank_keeps_means_and_gives_the_leading_class_the_noise_of_a_leading_class():
    generator = torch.Generator().manual_seed(0)
    mean = torch.tensor([[5.0, 0.0, -5.0], [-5.0, 5.0, 0.0], [0.0, -5.0, 5.0]]).repeat(40, 1)
    scale = torch.zeros_like(mean).scatter(-1, mean.argmax(-1, keepdim=True), 1.0)  # noise on the leading class alone
    logits = mean + scale * torch.randn(200, *mean.shape, generator=generator)
    moved = noise.exchanged_by_rank(logits, torch.Generator().manual_seed(1))
    assert torch.allclose(moved.mean(0), logits.mean(0), atol=1e-5) and not torch.allclose(moved, logits)
    spread = [noise.distances(one).std(0) for one in (logits, moved, noise.exchanged(logits, generator))]
    assert torch.allclose(*(one.sort().values for one in spread[:2]), atol=1e-5)
    assert spread[2].min() < 0.1 < spread[1].min()  # by class some get none of it


def test_permutations_are_averaged_and_repeat_with_their_seed():
    logits = torch.randn(30, 40, 3, generator=torch.Generator().manual_seed(2))
    each = [noise.ranked(logits, 20, 1, seed) for seed in (5, 6)]
    assert noise.ranked(logits, 20, 2, seed=5) == pytest.approx(sum(each) / 2) and each[0] != each[1]


def test_a_temperature_that_nobody_fitted_is_that_of_the_averaged_probabilities():
    sizes, labels = {"validation": 4, "test": 6, "unknown": 5}, torch.randint(3, (10,), generator=torch.manual_seed(0))
    logits = torch.randn(7, 15, 3)
    found = real_noise._measured(logits, sizes, {"validation": labels[:4], "test": labels[4:]})
    average = logits.double().softmax(-1).mean(0)
    warm = (average.log() / 2).log_softmax(-1)[4:10]
    assert found["nll_T2"] == pytest.approx(-warm[range(6), labels[4:]].mean().item())
    hot = (average.log() / 4).softmax(-1)
    entropy = -(hot * hot.log()).sum(-1)
    assert found["auroc_T4"] == pytest.approx(metrics.auroc(entropy[10:], entropy[4:10]))


def test_a_perfect_law_is_as_far_from_its_draws_as_the_theory_says():
    torch.manual_seed(0)
    stochastic = to_stochastic_batch_norm(torch.nn.Sequential(torch.nn.Linear(3, 400), torch.nn.BatchNorm1d(400)))
    match_moments(stochastic, torch.randn(20, 16, 3))
    m, n = stochastic[1].moments(), 300
    drawn = (m.mean + m.mean_spread * torch.randn(n, 400), m.log_scale + m.log_scale_spread * torch.randn(n, 400))
    found = real_noise._fits(stochastic, {"1": drawn})
    for what in ("mean", "scale"):
        assert found[f"ks_{what}_1_median"] == pytest.approx(0.83 / n**0.5, rel=0.05)
        assert found[f"ks_{what}_1"] == pytest.approx(1.22 / n**0.5, rel=0.08)
    # with moments of as many draws a perfect law is nearer, with fewer it is further away
    assert perfect_tail(n, n) > 1.22 / n**0.5 > perfect_tail(100 * n, n) * 0.95


def test_a_smoke_cell_has_five_ways_and_the_noise_of_two():
    cell = lab.get("sbn-noise").profiles["smoke"]()[0]
    rows = real_noise.run_cell(cell, torch.device("cpu")).rows
    found = {(row["method"], row["metric"]): row["value"] for row in rows}
    assert all(math.isfinite(value) for value in found.values())
    for method in ("BN", "BN, arithmetic", "BN, matched", "SBN", "Real mini-batches"):
        assert {(method, f"auroc{suffix}") for suffix in ("", "_scaled", "_T2", "_T4")} <= set(found)
        assert ((method, "auroc_ranked") in found) == (method in ("SBN", "Real mini-batches"))
    assert {("SBN", f"ks_{what}_{layer}") for what in ("mean", "scale") for layer in (1, 2, 3)} <= set(found)


def test_readings_are_of_each_network_between_the_points_of_the_grid():
    curve = np.array([[0.0, 0.1, 0.0], [1.0, 0.5, 0.2], [2.0, 1.0, 1.0]])  # the grid, and two networks
    arrays = {("net", "BN", 4, "SBN|entropy_cdf_unknown"): curve, ("net", "BN", 4, "SBN|entropy_cdf_test"): curve}
    found = {(row["replicate"], row["metric"]): row["value"] for row in cdf_readings(arrays)}
    assert len(found) == 6  # the known images have no reading
    assert np.isclose(found[4, "entropy_cdf_25"], 30.0)
    assert np.isclose(found[4, "entropy_cdf_50"], 50.0)
    assert np.isclose(found[5, "entropy_cdf_25"], 10.0)
    assert np.isclose(found[5, "entropy_cdf_75"], 60.0)
    assert all((row["setting"], row["method"]) == ("net", "SBN") for row in cdf_readings(arrays))


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
