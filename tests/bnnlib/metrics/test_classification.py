"""Accuracy, likelihood and calibration: against torch, written out, bad input."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F

from bnnlib import metrics


def rows(seed: int = 0, n: int = 400, classes: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 2.0 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    return logits, torch.multinomial(logits.softmax(dim=1), 1, generator=generator).squeeze(1)


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


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_labels_may_be_of_any_integer_type(dtype):
    logits, labels = rows()
    probabilities = logits.softmax(dim=1)
    for score in (metrics.nll, metrics.brier, metrics.ece, metrics.accuracy):
        assert score(probabilities, labels.to(dtype)) == score(probabilities, labels)


def test_nll_of_an_impossible_label_is_infinite():
    assert metrics.nll(torch.tensor([[1.0, 0.0]]), torch.tensor([1])) == math.inf


def test_ece_in_bins_of_equal_mass():
    # confidences .6, .7, .8, .9; the first two are wrong, the others right: two bins of two rows
    top = torch.tensor([0.9, 0.6, 0.8, 0.7])
    labels = torch.tensor([0, 1, 0, 1])
    found = metrics.ece(torch.stack([top, 1.0 - top], dim=1), labels, num_bins=2, equal_mass=True)
    assert found == pytest.approx(100.0 * 0.5 * (0.65 + 0.15), rel=1e-5)


def test_arrays_and_lists_are_tensors_too():
    logits, labels = rows()
    probabilities = logits.softmax(dim=1)
    assert metrics.nll(probabilities.numpy(), labels=labels.numpy()) == metrics.nll(probabilities, labels)
    assert metrics.accuracy(probabilities.tolist(), labels.tolist()) == metrics.accuracy(probabilities, labels)
    unsigned = labels.numpy().astype("u2")
    assert metrics.accuracy(pd.DataFrame(probabilities), unsigned) == metrics.accuracy(probabilities, labels)
    assert metrics.rmse(np.ones(3, ">f8"), (1.0, 1.0, 1.0)) == 0.0
    assert metrics.rmse([0.0, 0.0], [3.0, 3.0]) == 3.0
