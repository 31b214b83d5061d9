"""Rates of selection and active weights: by hand, bad input."""

import pytest
import torch

from bnnlib import metrics


def test_discoveries_that_are_false():
    selected = torch.tensor([[True, True, True, False], [False] * 4])
    relevant = torch.tensor([True, False, False, True])
    rates = metrics.false_discovery_rate(selected, relevant, dim=1)
    assert rates.tolist() == pytest.approx([200.0 / 3.0, 0.0])  # nothing selected, nothing false
    assert float(metrics.false_discovery_rate(selected[0], relevant)) == pytest.approx(200.0 / 3.0)


def test_error_rates_of_each_network():
    relevant = torch.tensor([True, True, False])
    selected = torch.tensor([[True, False, True], [False, False, False]])
    assert metrics.false_positive_rate(selected, relevant, dim=1).tolist() == [100.0, 0.0]
    assert metrics.false_negative_rate(selected, relevant, dim=1).tolist() == [50.0, 100.0]
    assert float(metrics.false_positive_rate(selected[0], relevant)) == 100.0
