"""What precision costs a unit and what it earns, against brute force over the plane of mu and sigma."""

import numpy as np
import pytest
import torch

from chapters.unit_noise import formulas, prices
from chapters.unit_noise.figures.method import plane
from chapters.unit_noise.figures.results import HALF_BELL


@pytest.mark.parametrize("location", [-2.0, 0.0, 5.0])
def test_the_scale_has_the_ratio_that_was_asked_for(location):
    ratio = torch.tensor([0.4, 1.0, 3.0, 50.0])
    scale = prices.scale_at(ratio, torch.tensor(location))
    found = formulas.truncated_log_normal_snr(torch.full_like(scale, location), scale)
    assert found.numpy() == pytest.approx(ratio.numpy(), rel=1e-6)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 3.0, 10.0])
def test_no_noise_with_this_ratio_is_cheaper(ratio):
    found = plane(np.linspace(-6, 5, 111), np.linspace(-7, 6, 1301))
    brute = found["kl"][found["snr"] >= ratio].min()  # the price rises with the ratio
    # log sigma in steps of 0.01, which is what the divergence changes by
    assert prices.cheapest(np.array([ratio]))[0][0] == pytest.approx(brute, abs=0.012)


def test_what_a_free_location_saves():
    """Said in the chapter: half a bell at large ratios, nothing near two, above the interval below that."""
    ratios = np.array([0.72, 1.0, 2.1, 3.0, 1000.0])
    free, where = prices.cheapest(ratios)
    saved = prices.price_at(torch.as_tensor(ratios), torch.zeros(1)).numpy() - free
    assert saved[:4] == pytest.approx([0.103, 0.088, 0.0, 0.032], abs=0.003)
    assert saved[4] == pytest.approx(HALF_BELL, abs=0.002)
    assert where[:2].tolist() == [5.0] * 2 and -1 < where[3] < 0


def test_a_unit_enters_at_a_gain_above_its_price():
    gain = prices.entry()
    below, above = (float(prices.best_ratio(np.sqrt(2 * (gain + step)))) for step in (-0.02, 0.02))
    assert below < 0.6 and above > 1.3
    # only the gain over the weight counts
    for weight in (0.5, 4.0, 45.0):
        t = np.sqrt(2 * weight * (gain + np.array([-0.02, 0.02])))
        assert prices.best_ratio(t, weight) == pytest.approx([below, above])


def test_a_large_gain_learns_its_t_statistic():
    t = np.array([6.0, 10.0, 20.0])
    # steps of the ratios, 3 %
    assert prices.best_ratio(t) == pytest.approx(np.sqrt(t**2 - 2), rel=0.04)


@pytest.mark.slow
def test_between_two_optima_the_start_decides_what_a_unit_learns():
    low, high = prices.two_optima()
    assert low < prices.entry() < high and (low, high) == pytest.approx((3.01, 3.61), abs=0.02)
    starts = [(0.0, -5.0), (-10.0, 1.8)]  # little noise and much
    narrow, wide = prices.trained_ratios(np.sqrt(2 * 3.1), starts)
    assert narrow > 1 > wide
    # said in the chapter: short training from little noise stays above a little below the range, too, and from much
    # noise even t = 5 goes
    assert prices.trained_ratios(5.0, starts[1:])[0] < 1
    assert prices.trained_ratios(np.sqrt(2 * (low - 0.2)), starts[:1])[0] > 1
    assert max(prices.trained_ratios(np.sqrt(2 * (low - 0.5)), starts)) < 1
    assert min(prices.trained_ratios(np.sqrt(2 * (high + 0.6)), starts[:1])) > 1
