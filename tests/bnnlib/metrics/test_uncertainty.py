"""Entropy, its distribution function and the ROC area: closed cases, SciPy and scikit-learn, ties, bad input."""

import math

import pytest
import torch
from sklearn.metrics import roc_auc_score

from bnnlib import metrics
from chapters.batch_statistics import formulas
from tests.seeded import seeded


def auroc_by_scikit_learn(unknown, known):
    labels = [1] * len(unknown) + [0] * len(known)
    return 100.0 * roc_auc_score(labels, torch.cat([unknown, known]).numpy())


def test_distribution_function_counts_ties_and_takes_any_order():
    values, grid = torch.tensor([0.5, 0.1, 0.5, 2.0]), torch.tensor([2.0, 0.0, 0.5, 0.4999, 0.1])
    expected = torch.tensor([1.0, 0.0, 0.75, 0.25, 0.25], dtype=torch.float64)
    assert torch.equal(formulas.entropy_cdf(values, grid), expected)


@pytest.mark.parametrize("decimals", [12, 1, 0])  # no ties, some, almost nothing else
@pytest.mark.parametrize("sizes", [(400, 300), (1, 50), (50, 1)])
def test_roc_area_agrees_with_scikit_learn(decimals, sizes):
    generator = seeded(sum(sizes) + decimals)
    unknown = (torch.randn(sizes[0], generator=generator, dtype=torch.float64) + 0.5).round(decimals=decimals)
    known = torch.randn(sizes[1], generator=generator, dtype=torch.float64).round(decimals=decimals)
    value = metrics.auroc(unknown, known)
    # counts and one division here, sums of trapezoids there
    assert value == pytest.approx(auroc_by_scikit_learn(unknown, known), abs=1e-10)
    assert value + metrics.auroc(known, unknown) == pytest.approx(100.0, abs=1e-12)


def test_roc_area_sees_ranks_only():
    unknown, known = torch.randn(90, generator=seeded(1)), torch.randn(80, generator=seeded(2))
    assert metrics.auroc(unknown.double().exp(), known.double().exp()) == metrics.auroc(unknown, known)
    infinite = torch.tensor([math.inf, 0.0])
    assert metrics.auroc(infinite, torch.tensor([-math.inf, math.inf])) == 100.0 * 2.5 / 4


def test_entropy_splits_into_what_stays_and_what_the_draws_disagree_about():
    sure_but_split = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])
    total, aleatoric, epistemic = metrics.entropy_split(sure_but_split)
    assert total.item() == pytest.approx(math.log(2)) and aleatoric.item() == 0.0
    assert epistemic.item() == pytest.approx(math.log(2))
    agreed = torch.full((5, 3, 4), 0.25)
    total, aleatoric, epistemic = metrics.entropy_split(agreed)
    torch.testing.assert_close(total, aleatoric)
    assert total.shape == (3,) and (epistemic == 0).all()
