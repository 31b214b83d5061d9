"""Discriminators: their range, and the losses that they are trained on."""

import pytest
import torch
from torch import nn

from bnnlib.sampling import IndependentDiscriminator, MarkovDiscriminator, discriminator_loss
from tests.seeded import seeded as generator


@pytest.mark.parametrize("lower", [0.3, 0.05, 1e-4])
def test_values_are_in_the_range_and_pairs_add_up(lower):
    points = torch.linspace(-300, 300, 41)
    for kind in (IndependentDiscriminator, MarkovDiscriminator):
        discriminator = kind(nn.Flatten(0), lower)
        x, y = points.repeat_interleave(41), points.repeat(41)
        d, back = discriminator.pair(x, y), discriminator.pair(y, x)
        least = discriminator.pair_lower
        assert d.min() >= least * (1 - 1e-4) and d.max() <= 1.0
        assert torch.allclose(d.log() - back.log(), discriminator.log_ratio(x, y), atol=1e-3)
        assert least == (lower**2 if kind is IndependentDiscriminator else lower)
    assert torch.allclose(discriminator(x, y) + discriminator(y, x), torch.ones(len(x)), atol=1e-6)
    single = IndependentDiscriminator(nn.Flatten(0), lower)(points)
    assert single.min() >= lower * (1 - 1e-4) and single.max() <= 1 - lower * (1 - 1e-4)


def test_losses_are_those_of_the_formulas():
    x, y = torch.randn(9, generator=generator(1)), torch.randn(9, generator=generator(2))
    single, pair = IndependentDiscriminator(nn.Flatten(0), 0.01), MarkovDiscriminator(nn.Flatten(0), 0.01)
    cce = -(single(x).log().mean() + (1 - single(y)).log().mean())
    mce = -(pair(x, y).log() + (1 - pair(y, x)).log()).mean()
    assert discriminator_loss(single, x, y, "cce").item() == pytest.approx(cce.item(), rel=1e-5)
    assert discriminator_loss(pair, x, y, "mce").item() == pytest.approx(mce.item(), rel=1e-5)
    for one in (single, pair):
        ratio = one.pair(y, x) / one.pair(x, y)
        assert discriminator_loss(one, x, y, "ub").item() == pytest.approx(
            (ratio.log() + ratio).mean().item(), rel=1e-4
        )
