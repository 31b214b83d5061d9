"""Error and coverage: by hand, at their level, bad input."""

import math

import numpy as np
import pytest
import torch

from bnnlib import metrics
from tests.seeded import normal


def test_rmse_by_hand():
    found = metrics.rmse(torch.tensor([1.0, 2.0, 5.0]), torch.tensor([1.0, 4.0, 1.0]))
    assert found == pytest.approx(math.sqrt(20 / 3))


def test_each_network_of_a_stack_has_its_own():
    generator = torch.Generator().manual_seed(0)
    prediction, target = torch.randn(3, 7, 1, generator=generator), torch.randn(7, 1, generator=generator)
    draws = torch.randn(20, 3, 7, 1, generator=generator)
    prediction[1, 0] = math.nan  # one that has diverged spoils only itself
    errors, shares = metrics.rmse(prediction, target, dim=(1, 2)), metrics.coverage(draws, target, 0.5, dim=(1, 2))
    assert errors.shape == shares.shape == (3,) and errors[1].isnan()
    for r in (0, 2):
        assert errors[r] == metrics.rmse(prediction[r], target) and shares[r] == metrics.coverage(
            draws[:, r], target, 0.5
        )
    low, high = metrics.central_interval(draws, 0.5, dim=0)
    assert torch.equal(100.0 * ((low <= target) & (target <= high)).double().mean(dim=(1, 2)), shares)


@pytest.mark.parametrize("what", ["draws", "target"])
def test_a_network_that_has_diverged_covers_nan_beside_others(what):
    given = {"draws": normal(100, 2, 4, seed=1), "target": normal(2, 4, seed=2)}
    given[what][..., 0, 1] = math.nan
    shares = metrics.coverage(**given, dim=1)
    assert shares.isnan().tolist() == [True, False]


def test_coverage_counts_the_targets_inside_the_band():
    draws = torch.arange(101.0)[:, None].expand(101, 5)  # the 2.5 and 97.5 % quantiles are 2.5 and 97.5
    target = torch.tensor([2.4, 2.6, 50.0, 97.4, 97.6])
    assert metrics.coverage(draws, target) == pytest.approx(60.0)
    assert metrics.coverage(draws, target, level=0.1) == pytest.approx(20.0)
    assert metrics.coverage(draws, torch.tensor([24.9, 25.0, 50.0, 75.0, 75.1]), level=0.5) == pytest.approx(60.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64])
def test_bands_of_draws_of_any_type(dtype):
    draws = torch.arange(101)[:, None].expand(101, 3)  # whole numbers, which all types hold
    low, high = metrics.central_interval(draws.to(dtype))
    torch.testing.assert_close(torch.stack([low, high]), torch.tensor([[2.5] * 3, [97.5] * 3]).double())
    target, noise = torch.tensor([2.4, 50.0, 97.6]), lambda: torch.Generator().manual_seed(1)
    assert metrics.coverage(draws.to(dtype), target) == pytest.approx(100.0 / 3)
    one, other = (metrics.coverage(d, target, 0.9, 1.0, noise()) for d in (draws.to(dtype), draws.double()))
    assert one == other


def test_predictive_coverage_adds_the_noise():
    generator = torch.Generator().manual_seed(2)
    mean = torch.zeros(2000)
    y = torch.randn(2000, generator=generator)
    draws = mean.expand(1000, 2000) + 1e-3 * torch.randn(1000, 2000, generator=generator)
    assert metrics.coverage(draws, y) < 1.0  # the draws know nothing of the noise
    assert metrics.coverage(draws, y, noise_scale=1.0, generator=generator) == pytest.approx(95.0, abs=1.5)


def test_crps_of_a_normal_and_of_draws_alone():
    target = torch.tensor([0.3, -1.2, 2.0]).double()
    # Gneiting and Raftery (2007), equation (21), with a scale of 2
    z, normal = target / 2.0, torch.distributions.Normal(0.0, 1.0)
    closed = 2.0 * (z * (2.0 * normal.cdf(z) - 1.0) + 2.0 * normal.log_prob(z).exp() - math.pi**-0.5)
    found = metrics.crps(torch.zeros(1, 3), target, noise_scale=2.0)
    assert float(found) == pytest.approx(float(closed.mean()), rel=1e-6)
    draws = torch.tensor([[-1.0], [0.5]]).double()
    # without noise it is that of the draws alone: E|X - y| = 1.5 / 2 + .3, half of E|X - X'| is .375
    alone = metrics.crps(draws, torch.tensor([0.2]))
    assert float(alone) == pytest.approx(0.5 * (1.2 + 0.3) - 0.375)
    assert metrics.crps(torch.zeros(2, 4, 3), torch.zeros(4, 3), dim=1).shape == (4,)


def test_lists_and_arrays_keep_their_digits_and_their_order():
    assert metrics.rmse([16777217.0], [16777216.0]) == 1.0  # the same in single precision
    some = np.arange(4.0).reshape(2, 2)
    assert metrics.rmse(some[::-1], some, dim=[0, 1]) == 2.0
