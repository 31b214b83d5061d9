"""Rates of selection and active weights: by hand, bad input."""

import pytest
import torch

from bnnlib import metrics
from tests.seeded import seeded


def test_discoveries_that_are_false():
    selected = torch.tensor([[True, True, True, False], [False] * 4])
    relevant = torch.tensor([True, False, False, True])
    rates = metrics.false_discovery_rate(selected, relevant, dim=1)
    assert rates.tolist() == pytest.approx([200.0 / 3.0, 0.0])  # nothing selected, nothing false
    assert float(metrics.false_discovery_rate(selected[0], relevant)) == pytest.approx(200.0 / 3.0)


@pytest.mark.parametrize("shapes", [((2, 1), (3,)), ((3,), (2, 3)), ((1, 3), (2, 1)), ((2, 3), (3,))])
def test_masks_broadcast_in_every_rate(shapes):
    selected, relevant = (torch.rand(shape, generator=seeded(k)) < 0.5 for k, shape in enumerate(shapes))
    relevant.flatten()[0], relevant.flatten()[-1] = True, False
    whole = [mask.expand(2, 3) for mask in (selected, relevant)]
    for rate in (metrics.false_discovery_rate, metrics.false_positive_rate, metrics.false_negative_rate):
        torch.testing.assert_close(rate(selected, relevant, dim=(0, 1)), rate(*whole))


def test_error_rates_of_each_network():
    relevant = torch.tensor([True, True, False])
    selected = torch.tensor([[True, False, True], [False, False, False]])
    assert metrics.false_positive_rate(selected, relevant, dim=1).tolist() == [100.0, 0.0]
    assert metrics.false_negative_rate(selected, relevant, dim=1).tolist() == [50.0, 100.0]
    assert float(metrics.false_positive_rate(selected[0], relevant)) == 100.0
