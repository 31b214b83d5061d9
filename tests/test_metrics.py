"""Metrics against values counted by hand, against other implementations, and against bad input."""

import math

import pytest
import torch
import torch.nn.functional as F

from bnnlib import metrics


def rows(seed: int = 0, n: int = 400, classes: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 2.0 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    return logits, torch.multinomial(logits.softmax(dim=1), 1, generator=generator).squeeze(1)


def test_rmse_by_hand():
    assert metrics.rmse(torch.tensor([1.0, 2.0, 5.0]), torch.tensor([1.0, 4.0, 1.0])) == pytest.approx(
        math.sqrt(20 / 3)
    )


def test_coverage_counts_the_targets_inside_the_band():
    draws = torch.arange(101.0)[:, None].expand(101, 5)  # the 2.5 and 97.5 % quantiles are 2.5 and 97.5
    target = torch.tensor([2.4, 2.6, 50.0, 97.4, 97.6])
    assert metrics.coverage(draws, target) == pytest.approx(60.0)
    assert metrics.coverage(draws, target, level=0.1) == pytest.approx(20.0)


def test_coverage_of_a_correct_posterior_is_its_level():
    generator = torch.Generator().manual_seed(1)
    center = torch.randn(2000, generator=generator)
    target = center + torch.randn(2000, generator=generator)
    draws = center + torch.randn(2000, 2000, generator=generator)
    # standard error of a share of 0.95 over 2000 points: 0.5 %; three of them
    assert metrics.coverage(draws, target) == pytest.approx(95.0, abs=1.5)


def test_predictive_coverage_adds_the_noise():
    generator = torch.Generator().manual_seed(2)
    mean = torch.zeros(2000)
    y = torch.randn(2000, generator=generator)
    draws = mean.expand(1000, 2000) + 1e-3 * torch.randn(1000, 2000, generator=generator)
    assert metrics.coverage(draws, y) < 1.0  # the draws know nothing of the noise
    assert metrics.coverage(draws, y, noise_scale=1.0, generator=generator) == pytest.approx(95.0, abs=1.5)


def test_error_rates_of_selection():
    relevant = torch.tensor([True, True, False, False, False, False])
    selected = torch.tensor([True, False, True, False, False, False])
    assert metrics.false_positive_rate(selected, relevant) == pytest.approx(25.0)
    assert metrics.false_negative_rate(selected, relevant) == pytest.approx(50.0)


def test_sparsity_weighs_layers_by_their_size():
    phi = [torch.full((3, 10), 0.1), torch.ones(10)]
    assert metrics.sparsity(phi) == pytest.approx(100.0 * 13 / 40)
    assert metrics.sparsity(torch.tensor([True, False, False, False])) == pytest.approx(25.0)


def test_scores_of_a_classifier_agree_with_torch():
    logits, labels = rows()
    probabilities = logits.softmax(dim=1)
    assert metrics.nll(probabilities, labels) == pytest.approx(float(F.cross_entropy(logits, labels)), rel=1e-12)
    one_hot = F.one_hot(labels, 5).double()
    assert metrics.brier(probabilities, labels) == pytest.approx(
        float((probabilities - one_hot).square().sum(1).mean())
    )
    assert metrics.accuracy(logits, labels) == pytest.approx(
        100.0 * float((logits.argmax(1) == labels).double().mean())
    )


def test_nll_of_an_impossible_label_is_infinite():
    assert metrics.nll(torch.tensor([[1.0, 0.0]]), torch.tensor([1])) == math.inf


def test_ece_by_bins_written_out():
    logits, labels = rows()
    probabilities = logits.softmax(dim=1)
    confidence, choice = probabilities.max(dim=1)
    expected = 0.0
    for k in range(10):
        inside = (confidence > k / 10) & (confidence <= (k + 1) / 10)
        if inside.any():
            gap = (choice == labels)[inside].double().mean() - confidence[inside].mean()
            expected += float(inside.double().mean() * gap.abs())
    assert metrics.ece(probabilities, labels, num_bins=10) == pytest.approx(100.0 * expected)


def test_ece_of_labels_drawn_from_the_probabilities_is_small_and_of_flipped_ones_large():
    logits, labels = rows(n=20_000)
    probabilities = logits.softmax(dim=1)
    assert metrics.ece(probabilities, labels) < 1.5  # sampling noise of 15 bins with about 1,300 rows each
    assert metrics.ece((3.0 * logits).softmax(dim=1), labels) > 10.0  # overconfident


NAN = torch.tensor([[0.5, math.nan]])
TWO = torch.tensor([[0.5, 0.5]])
ONE = torch.tensor([0])


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (metrics.rmse, (torch.zeros(3), torch.zeros(3, 1)), r"\(3,\).*\(3, 1\)"),
        (metrics.rmse, (torch.zeros(0), torch.zeros(0)), "empty"),
        (metrics.rmse, (torch.tensor([math.nan]), torch.zeros(1)), "1 NaN or infinite"),
        (metrics.rmse, (torch.zeros(1), torch.tensor([math.inf])), "target has 1 NaN"),
        (metrics.coverage, (torch.zeros(1, 3), torch.zeros(3)), "at least two draws"),
        (metrics.coverage, (torch.zeros(5, 3), torch.zeros(4)), r"\(5, 3\).*\(4,\)"),
        (metrics.coverage, (torch.full((5, 3), math.nan), torch.zeros(3)), "draws has 15 NaN"),
        (metrics.coverage, (torch.zeros(5, 3), torch.zeros(3), 1.0), "level is 1"),
        (metrics.coverage, (torch.zeros(5, 3), torch.zeros(3), 0.95, -1.0), "noise_scale is -1"),
        (metrics.false_positive_rate, (torch.zeros(3), torch.zeros(3, dtype=torch.bool)), "Boolean mask"),
        (metrics.false_positive_rate, (torch.ones(3, dtype=torch.bool),) * 2, "every input is relevant"),
        (metrics.false_negative_rate, (torch.zeros(3, dtype=torch.bool),) * 2, "no input is relevant"),
        (metrics.sparsity, ([],), "empty"),
        (metrics.sparsity, (torch.tensor([-3.0, 0.5]),), "torch.sigmoid"),
        (metrics.accuracy, (torch.zeros(2, 3, 4), torch.zeros(2, dtype=torch.long)), r"\(n, classes\)"),
        (metrics.accuracy, (TWO, torch.tensor([2])), "classes 0 to 1"),
        (metrics.accuracy, (TWO, torch.tensor([0.0])), "integer class numbers"),
        (metrics.nll, (torch.tensor([[2.0, -1.0]]), ONE), "softmax"),
        (metrics.nll, (NAN, ONE), "NaN"),
        (metrics.brier, (torch.tensor([[0.5, 0.4]]), ONE), "sum to 1"),
        (metrics.ece, (TWO, ONE, 0), "num_bins"),
    ],
)
def test_bad_input_is_refused(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments)
