"""The spike-and-slab prior on groups: the shapes of groups."""

import pytest
import torch

from bnnlib import functional as bF


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
