"""The spike-and-slab prior on groups: its threshold, the shapes of groups, and what it refuses."""

from __future__ import annotations

import pytest
import torch

from bnnlib import functional as bF


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("prior", [0.5, 0.02])
def test_the_threshold_is_where_the_odds_are_even(size, prior):
    square = bF.group_threshold(1e-2, 2e-4, 1000, size, prior)
    odds = bF.group_slab_log_odds(torch.tensor(square, dtype=torch.float64), 1e-2, 2e-4, 1000, size, prior)
    assert abs(odds.item()) < 1e-9
    # a slab that is certain enough takes every group
    assert bF.group_threshold(1e-2, 2e-4, 1000, 1, 1 - 1e-9) == 0.0


def test_groups_of_a_linear_layer_by_hand():
    weight = torch.tensor([[1.0, 2.0, 0.0], [3.0, 0.0, 0.0]])
    assert bF.group_mean_square(weight, "input").tolist() == [[5.0, 2.0, 0.0]]
    assert bF.group_mean_square(weight, "output").squeeze(1).tolist() == pytest.approx([5 / 3, 3.0])
    assert bF.group_range(weight, "input").tolist() == [[2.0, 2.0, 0.0]]
    assert (bF.group_size(weight, "input"), bF.group_size(weight, "output")) == (2, 3)


@pytest.mark.parametrize("kind", ["input", "output", "kernel"])
@pytest.mark.parametrize("stack", [(), (2,), (2, 3)])
def test_groups_of_a_convolution_broadcast_and_cover_every_weight_once(kind, stack):
    weight = torch.randn(*stack, 4, 5, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    square, size = bF.group_mean_square(weight, kind, len(stack)), bF.group_size(weight, kind, len(stack))
    shape = {"input": (1, 5, 1, 1), "output": (4, 1, 1, 1), "kernel": (4, 5, 1, 1)}[kind]
    assert square.shape == (*stack, *shape)
    assert square.numel() * size == weight.numel()
    torch.testing.assert_close(square.sum() * size, weight.square().sum())
    if stack == (2,):
        assert torch.equal(square[0], bF.group_mean_square(weight[0], kind))
    spread = bF.group_range(weight, kind, len(stack))
    assert spread.shape == square.shape and (spread >= 0).all()
