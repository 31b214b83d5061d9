"""Scores of classifiers and of regression, rates of selection, entropy, temperatures: against others, and by hand."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import minimize_scalar

from bnnlib import metrics
from chapters.batch_statistics import formulas
from tests.seeded import normal, seeded


def rows(seed: int = 0, n: int = 2000, temperature: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of five classes, and labels that they predict at a temperature."""
    generator = seeded(seed)
    logits = 3.0 * torch.randn(n, 5, generator=generator, dtype=torch.float64)
    return logits, torch.multinomial((logits / temperature).softmax(dim=1), 1, generator=generator).squeeze(1)


def test_scores_of_a_classifier_agree_with_torch():
    assert metrics.nll(torch.tensor([[1.0, 0.0]]), torch.tensor([1])) == math.inf  # of an impossible label
    logits, labels = rows()
    probabilities = logits.softmax(dim=1)
    assert metrics.nll(probabilities, labels) == pytest.approx(float(F.cross_entropy(logits, labels)), rel=1e-12)
    one_hot = F.one_hot(labels, 5).double()
    squares, right = (probabilities - one_hot).square().sum(1), (logits.argmax(1) == labels).double()
    assert metrics.brier(probabilities, labels) == pytest.approx(float(squares.mean()))
    assert metrics.accuracy(logits, labels) == pytest.approx(100.0 * float(right.mean()))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_labels_may_be_of_any_integer_type(dtype):
    logits, labels = rows()
    probabilities = logits.softmax(dim=1)
    for score in (metrics.nll, metrics.brier, metrics.ece, metrics.accuracy):
        assert score(probabilities, labels.to(dtype)) == score(probabilities, labels)


@pytest.mark.filterwarnings("ignore:the best temperature is above")
@pytest.mark.parametrize("given", metrics.temperature.KINDS)
def test_whole_numbers_are_scores_as_their_floats_are(given):
    scores, labels = [[1, 0], [0, 1], [1, 0]], [0, 1, 1]
    scores = [[3 * a - 1, 3 * b] for a, b in scores] if given == "logits" else scores
    floats = torch.tensor(scores, dtype=torch.float64)
    fitted = metrics.fit_temperature(floats, labels, given=given)
    assert metrics.fit_temperature(scores, labels, given=given) == fitted
    tempered = metrics.apply_temperature(floats, 2.0, given=given)
    assert torch.equal(metrics.apply_temperature(scores, 2.0, given=given), tempered)
    assert tempered.min() > 0.0
    if given == "probabilities":
        split = zip(metrics.entropy_split([scores]), metrics.entropy_split(floats[None]), strict=True)
        assert all(torch.equal(one, other) for one, other in split)


def test_probabilities_of_bfloat16_sum_to_one_as_far_as_they_can():
    logits, labels = rows()
    rounded = logits.softmax(dim=1).bfloat16()
    assert (rounded.sum(dim=1, dtype=torch.float64) - 1.0).abs().max() > 1e-3
    assert metrics.nll(rounded, labels) == pytest.approx(metrics.nll(logits.softmax(dim=1), labels), rel=1e-2)


def test_ece_in_bins_of_equal_mass():
    # confidences .6, .7, .8, .9; the first two are wrong, the others right: two bins of two rows
    top = torch.tensor([0.9, 0.6, 0.8, 0.7])
    labels = torch.tensor([0, 1, 0, 1])
    found = metrics.ece(torch.stack([top, 1.0 - top], dim=1), labels, num_bins=2, equal_mass=True)
    assert found == pytest.approx(100.0 * 0.5 * (0.65 + 0.15), rel=1e-5)


def test_arrays_and_lists_are_tensors_too_with_their_digits_and_their_order():
    logits, labels = rows()
    probabilities = logits.softmax(dim=1)
    assert metrics.nll(probabilities.numpy(), labels=labels.numpy()) == metrics.nll(probabilities, labels)
    assert metrics.accuracy(probabilities.tolist(), labels.tolist()) == metrics.accuracy(probabilities, labels)
    unsigned = labels.numpy().astype("u2")
    assert metrics.accuracy(pd.DataFrame(probabilities), unsigned) == metrics.accuracy(probabilities, labels)
    assert metrics.rmse(np.ones(3, ">f8"), (1.0, 1.0, 1.0)) == 0.0
    assert metrics.rmse([1.0, 2.0, 5.0], [1.0, 4.0, 1.0]) == pytest.approx(math.sqrt(20 / 3))
    assert metrics.rmse([16777217.0], [16777216.0]) == 1.0  # the same in single precision
    some = np.arange(4.0).reshape(2, 2)
    assert metrics.rmse(some[::-1], some, dim=[0, 1]) == 2.0


@pytest.mark.parametrize("shapes", [((2, 1), (3,)), ((3,), (2, 3)), ((1, 3), (2, 1)), ((2, 3), (3,))])
def test_masks_broadcast_in_every_rate(shapes):
    selected, relevant = (torch.rand(shape, generator=seeded(k)) < 0.5 for k, shape in enumerate(shapes))
    relevant.flatten()[0], relevant.flatten()[-1] = True, False
    whole = [mask.expand(2, 3) for mask in (selected, relevant)]
    for rate in (metrics.false_discovery_rate, metrics.false_positive_rate, metrics.false_negative_rate):
        torch.testing.assert_close(rate(selected, relevant, dim=(0, 1)), rate(*whole))


def test_error_rates_of_each_network():
    relevant = torch.tensor([True, False, False, True])
    selected = torch.tensor([[True, True, True, False], [False] * 4])
    assert metrics.false_positive_rate(selected, relevant, dim=1).tolist() == [100.0, 0.0]
    assert metrics.false_negative_rate(selected, relevant, dim=1).tolist() == [50.0, 100.0]
    found = metrics.false_discovery_rate(selected, relevant, dim=1)
    assert found.tolist() == pytest.approx([200.0 / 3.0, 0.0])  # nothing selected, nothing false
    assert float(metrics.false_positive_rate(selected[0], relevant)) == 100.0


def test_distribution_function_counts_ties_and_takes_any_order():
    values, grid = torch.tensor([0.5, 0.1, 0.5, 2.0]), torch.tensor([2.0, 0.0, 0.5, 0.4999, 0.1])
    expected = torch.tensor([1.0, 0.0, 0.75, 0.25, 0.25], dtype=torch.float64)
    assert torch.equal(formulas.entropy_cdf(values, grid), expected)


def test_roc_area_sees_ranks_only():
    unknown, known = torch.randn(90, generator=seeded(1)), torch.randn(80, generator=seeded(2))
    assert metrics.auroc(unknown.double().exp(), known.double().exp()) == metrics.auroc(unknown, known)
    infinite = torch.tensor([math.inf, 0.0])
    assert metrics.auroc(infinite, torch.tensor([-math.inf, math.inf])) == 100.0 * 2.5 / 4


def test_entropy_splits_into_what_stays_and_what_the_draws_disagree_about():
    # two draws of three rows: sure but split, agreed, and sure in one draw alone
    draws = torch.tensor([[[1.0, 0.0], [0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.5, 0.5], [0.5, 0.5]]])
    total, aleatoric, epistemic = metrics.entropy_split(draws)
    assert total.tolist() == pytest.approx([math.log(2), math.log(2), math.log(4) - 0.75 * math.log(3)])
    assert aleatoric.tolist() == pytest.approx([0.0, math.log(2), math.log(2) / 2])
    assert torch.equal(epistemic, total - aleatoric)


def test_each_network_of_a_stack_has_its_own():
    prediction, target, draws = normal(3, 7, 1, seed=0), normal(7, 1, seed=1), normal(20, 3, 7, 1, seed=2)
    prediction[1, 0] = math.nan  # one that has diverged spoils only itself
    errors, shares = metrics.rmse(prediction, target, dim=(1, 2)), metrics.coverage(draws, target, 0.5, dim=(1, 2))
    assert errors.shape == shares.shape == (3,) and errors[1].isnan()
    for r in (0, 2):
        assert errors[r] == metrics.rmse(prediction[r], target)
        assert shares[r] == metrics.coverage(draws[:, r], target, 0.5)
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
    y, draws = normal(2000, seed=2), 1e-3 * normal(1000, 2000, seed=3)
    assert metrics.coverage(draws, y) < 1.0  # the draws know nothing of the noise
    assert metrics.coverage(draws, y, noise_scale=1.0, generator=seeded(4)) == pytest.approx(95.0, abs=1.5)


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
