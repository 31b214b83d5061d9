"""Temperature scaling: closed cases, SciPy, recovery, extreme scores, the ends of the range, bad input."""

import math

import pytest
import torch
from scipy.optimize import minimize_scalar

from bnnlib import metrics


def rows(seed=0, n=2000, classes=5, temperature=1.0):
    generator = torch.Generator().manual_seed(seed)
    logits = 3.0 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial((logits / temperature).softmax(dim=1), 1, generator=generator).squeeze(1)
    return logits, labels


def loss(logits, labels, temperature):
    return metrics.nll(metrics.apply_temperature(logits, temperature), labels)


@pytest.mark.parametrize(("gap", "right"), [(2.0, 0.9), (8.0, 0.9), (0.3, 0.75), (200.0, 0.99)])
def test_two_classes_with_one_gap_have_a_closed_form(gap, right):
    # softmax(gap / T) must be the share of right labels
    n = 100
    logits = torch.tensor([gap, 0.0], dtype=torch.float64).repeat(n, 1)
    labels = (torch.arange(n) >= round(right * n)).long()
    expected = gap / math.log(right / (1 - right))
    assert metrics.fit_temperature(logits, labels) == pytest.approx(expected, rel=1e-12)  # bisection to the last bits


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_minimum_that_scipy_finds(seed):
    logits, labels = rows(seed, n=200, temperature=1.0 + seed)
    found = minimize_scalar(lambda t: loss(logits, labels, math.exp(t)), bounds=(-4, 4), method="bounded")
    # a minimum can be found from its values only to the root of the rounding error
    assert metrics.fit_temperature(logits, labels) == pytest.approx(math.exp(found.x), rel=1e-4)
    best = metrics.fit_temperature(logits, labels)
    assert loss(logits, labels, best) <= min(loss(logits, labels, best * k) for k in (0.99, 1.0, 1.01)) + 1e-15


def test_probabilities_and_their_logits_are_the_same():
    logits, labels = rows(temperature=2.0)
    probabilities = logits.softmax(dim=1)
    best = metrics.fit_temperature(probabilities, labels, given="probabilities")
    assert best == pytest.approx(metrics.fit_temperature(logits, labels), rel=1e-12)


def test_it_mends_an_overconfident_classifier_and_keeps_its_choices():
    logits, labels = rows(n=20_000)
    sharp = 4.0 * logits
    mended = metrics.apply_temperature(sharp, metrics.fit_temperature(sharp, labels))
    assert metrics.ece(sharp.softmax(dim=1), labels) > 10.0
    assert metrics.ece(mended, labels) < 1.5  # sampling noise of 15 bins with about 1,300 rows each
    assert torch.equal(mended.argmax(dim=1), sharp.argmax(dim=1))


def test_extreme_scores_stay_finite():
    logits, labels = rows(temperature=2.0)
    for factor in (1e-3, 10.0):
        assert metrics.fit_temperature(factor * logits, labels) == pytest.approx(
            factor * metrics.fit_temperature(logits, labels), rel=1e-10
        )
    # probabilities that are exactly 0 in float32, at the label too
    hard = (100.0 * logits).float().softmax(dim=1)
    assert (hard.gather(1, labels[:, None]) == 0).any()
    best = metrics.fit_temperature(hard, labels, given="probabilities")
    assert 1.0 < best < 100.0
    assert math.isfinite(metrics.nll(metrics.apply_temperature(hard, best, given="probabilities"), labels))


def test_scores_without_a_class_have_temperature_one():
    assert metrics.fit_temperature(torch.full((6, 3), 2.0), torch.arange(6) % 3) == 1.0
    uniform = torch.full((6, 4), 0.25)
    assert metrics.fit_temperature(uniform, torch.arange(6) % 4, given="probabilities") == 1.0


def test_the_ends_of_the_range_are_returned_with_a_warning():
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    with pytest.warns(RuntimeWarning, match="best temperature is 0"):
        assert metrics.fit_temperature(logits, torch.tensor([0, 1])) == 1e-4
    with pytest.warns(RuntimeWarning, match="no more"):
        assert metrics.fit_temperature(logits, torch.tensor([1, 0])) == 100.0


@pytest.mark.parametrize(("factor", "end", "words"), [(1e-5, 1e-4, "below 0.0001"), (1e3, 100.0, "above 100")])
def test_a_temperature_beyond_the_range_is_said_to_be_there(factor, end, words):
    logits, labels = torch.tensor([[4.0, 0.0]]).repeat(4, 1), torch.tensor([0, 0, 0, 1])
    with pytest.warns(RuntimeWarning, match=words):  # factor times 3.64
        assert metrics.fit_temperature(factor * logits, labels) == end
