"""Entropy, its distribution function and the ROC area: closed cases, SciPy and scikit-learn, ties, bad input."""

import math

import pytest
import torch

from bnnlib import metrics
from chapters.batch_statistics import formulas
from tests.seeded import seeded


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
    sure_but_split = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])
    total, aleatoric, epistemic = metrics.entropy_split(sure_but_split)
    assert total.item() == pytest.approx(math.log(2)) and aleatoric.item() == 0.0
    assert epistemic.item() == pytest.approx(math.log(2))
    agreed = torch.full((5, 3, 4), 0.25)
    total, aleatoric, epistemic = metrics.entropy_split(agreed)
    torch.testing.assert_close(total, aleatoric)
    assert total.shape == (3,) and (epistemic == 0).all()
