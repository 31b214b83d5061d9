"""Where noise lies in memory: that of images with their channels last is drawn as fast as any, and keeps its layout."""

import pytest
import torch

from bnnlib._noise import draw_normal


@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (4, 1, 6, 6), (3, 8, 1, 1)])
def test_channels_last_gets_the_numbers_of_its_order_in_memory(shape):
    n, channels, height, width = shape
    like = torch.empty(shape).to(memory_format=torch.channels_last)
    found = draw_normal(like, torch.Generator().manual_seed(1))
    flat = torch.empty(n, height, width, channels)
    assert torch.equal(found, draw_normal(flat, torch.Generator().manual_seed(1)).permute(0, 3, 1, 2))
    assert found.shape == like.shape and found.stride() == like.stride()


def test_other_layouts_are_filled_all_the_same():
    like = torch.empty(6, 5, 4, 50).permute(3, 1, 2, 0)
    found = draw_normal(like, torch.Generator().manual_seed(2))
    assert found.stride() == like.stride()
    assert abs(float(found.mean())) < 0.06 and abs(float(found.std()) - 1) < 0.04  # 6,000 numbers: over four errors
