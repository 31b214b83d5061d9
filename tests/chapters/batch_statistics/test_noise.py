"""Spread and margin of logits, and the control with exchanged draws, on logits made by hand."""

import pytest
import torch

from chapters.batch_statistics import noise


def made(images: int = 400, draws: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of three classes: equal noise for all, the first half with a margin of 6, the others with 1."""
    generator = torch.Generator().manual_seed(0)
    mean = torch.zeros(images, 3, dtype=torch.float64)
    mean[: images // 2, 1], mean[images // 2 :, 2] = 6.0, 1.0
    mean[:, 0] = -4.0
    return mean, mean + torch.randn(draws, images, 3, generator=generator, dtype=torch.float64)


def test_distances_are_between_the_two_classes_that_lead_on_average():
    logits = torch.tensor([[[1.0, 3.0, 2.9]], [[0.0, 3.0, 2.0]], [[9.0, 5.0, 9.0]]])  # means 3.3, 3.7, 4.6
    assert noise.leading(logits).tolist() == [[2, 1]]
    assert noise.distances(logits)[:, 0].tolist() == pytest.approx([-0.1, -1.0, 4.0])


def test_exchanged_draws_keep_each_mean_and_all_deviations():
    _, logits = made(40, 20)
    other = noise.exchanged(logits, torch.Generator().manual_seed(1))
    assert torch.allclose(other.mean(0), logits.mean(0))
    deviations = [(one - one.mean(0)).square().sum((0, 2)).sort().values for one in (logits, other)]
    assert torch.allclose(*deviations) and not torch.allclose(other, logits)


def test_equal_noise_says_nothing_and_the_margin_all():
    mean, logits = made()
    found = noise.measures(logits, mean, 200, torch.Generator().manual_seed(2))
    # the difference of two independent noises has the standard deviation sqrt(2), to 4 % with 300 draws
    assert found["spread_known"] == pytest.approx(2**0.5, rel=0.04) == found["spread_unknown"]
    assert found["margin_known"] == pytest.approx(6.0, abs=0.1) and found["margin_unknown"] == pytest.approx(1, abs=0.1)
    assert found["auroc_averages"] == found["auroc_own"] == found["auroc_exchanged"] == 100.0
    assert abs(found["auroc_spread"] - 50) < 9  # three standard errors of the rank statistic with 200 and 200 are 8.7


def test_noise_that_knows_its_image_is_lost_by_the_exchange():
    """Equal margins, unequal noise: only an image's own draws tell the two kinds apart."""
    mean = torch.tensor([0.0, 3.0, -3.0], dtype=torch.float64).expand(400, 3)
    scale = torch.tensor([0.3, 3.0], dtype=torch.float64).repeat_interleave(200)[:, None]
    generator = torch.Generator().manual_seed(3)
    logits = mean + scale * torch.randn(100, 400, 3, generator=generator, dtype=torch.float64)
    logits = logits - logits.mean(0) + mean  # equal to the last digit, also on average
    found = noise.measures(logits, mean, 200, torch.Generator().manual_seed(4))
    assert found["auroc_averages"] == 50.0 and found["auroc_own"] > 99 and found["auroc_spread"] > 99
    assert abs(found["auroc_exchanged"] - 50) < 9
