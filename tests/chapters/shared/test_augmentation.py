"""Augmentation of batches against one image at a time, and the laws of its draws."""

import math

import pytest
import torch

from chapters.learned_priors.augmentation import RandomErasing, RandomRotation, erase, rotate
from chapters.shared.augmentation import Compose, Normalize, RandomCrop, RandomHorizontalFlip, crop
from tests.seeded import seeded

ALL = [RandomCrop(4), RandomHorizontalFlip(), RandomRotation(15.0), RandomErasing(0.5, value=0.4)]


def images(n=12, channels=3, height=10, width=8):
    return torch.rand(n, channels, height, width, generator=seeded(9)) + 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8])
def test_crop_is_that_of_single_images(dtype):
    x = (images() * 100).to(dtype)
    top, left = (torch.randint(7, (12,), generator=seeded(seed)) for seed in (1, 2))
    out = crop(x, top, left, 3)
    for i, image in enumerate(x):
        large = torch.zeros(3, 16, 14, dtype=dtype)
        large[:, 3:13, 3:11] = image
        assert torch.equal(out[i], large[:, top[i] : top[i] + 10, left[i] : left[i] + 8])
    assert out.dtype == dtype
    assert torch.equal(crop(x, torch.full((12,), 3), torch.full((12,), 3), 3), x)


def test_random_crop_takes_every_offset_equally_often():
    pixel = torch.zeros(20_000, 1, 5, 5)
    pixel[:, :, 2, 2] = 1.0
    places = RandomCrop(2)(pixel, generator=seeded()).flatten(1).argmax(1)
    counts = places.bincount(minlength=25).double()
    assert len(counts) == 25
    statistic = float(((counts - 800) ** 2 / 800).sum())
    assert statistic < 51.2  # chi-square with 24 degrees of freedom is above with probability 0.001


def test_flip_is_that_of_single_images_with_its_probability():
    x = images(4000, 1, 2, 3)
    out = RandomHorizontalFlip(0.3)(x, generator=seeded())
    turned = (out == x.flip(3)).flatten(1).all(1)
    assert torch.equal(out[~turned], x[~turned])
    assert float(turned.float().mean()) == pytest.approx(0.3, abs=0.029)  # four standard errors
    assert torch.equal(RandomHorizontalFlip(1.0)(x), x.flip(3)) and torch.equal(RandomHorizontalFlip(0.0)(x), x)


def by_pixels(image, degrees):
    """Nearest neighbors of one image, pixel by pixel, in the plane whose second axis points up."""
    height, width = image.shape[1:]
    out, angle = torch.zeros_like(image), math.radians(degrees)
    for row in range(height):
        for column in range(width):
            right, up = column - (width - 1) / 2, (height - 1) / 2 - row
            # turned back by the angle
            old_right = math.cos(angle) * right + math.sin(angle) * up
            old_up = -math.sin(angle) * right + math.cos(angle) * up
            old_row, old_column = round((height - 1) / 2 - old_up), round((width - 1) / 2 + old_right)
            if 0 <= old_row < height and 0 <= old_column < width:
                out[:, row, column] = image[:, old_row, old_column]
    return out


def test_rotation_is_that_of_single_images():
    x = images(6, 2, 9, 12).double()
    degrees = torch.tensor([0.0, 7.3, -14.9, 31.0, 77.7, -123.0], dtype=torch.float64)
    out = rotate(x, degrees)
    for image, angle, turned in zip(x, degrees, out, strict=True):
        torch.testing.assert_close(turned, by_pixels(image, float(angle)), rtol=0, atol=0)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_a_quarter_turn_is_exact(interpolation):
    x = images(3, 2, 7, 7).double()
    out = rotate(x, torch.full((3,), 90.0, dtype=torch.float64), interpolation)
    torch.testing.assert_close(out, torch.rot90(x, 1, (2, 3)), rtol=1e-12, atol=1e-12)  # cos(90 degrees) is 6e-17


def test_random_rotation_stays_within_its_angle_and_reaches_both_ends():
    x = torch.zeros(500, 1, 101, 101)
    x[:, :, 50, 100] = 1.0  # a pixel 50 to the right of the center moves 50 sin(angle) up
    out = RandomRotation(15.0, "bilinear")(x, generator=seeded())
    rows = torch.arange(101.0)
    up = 50.0 - (out.sum(3)[:, 0] * rows).sum(1) / out.sum((1, 2, 3)).clamp_min(1e-6)
    limit = 50.0 * math.sin(math.radians(15.0))
    assert up.abs().max() <= limit + 1.0 and up.max() > 0.95 * limit and up.min() < -0.95 * limit
    # the mean of 500 angles has a standard error of 8.7 / sqrt(500) = 0.39 degrees = 0.34 pixels
    assert abs(float(up.mean())) < 1.3
    assert torch.equal(RandomRotation(0.0)(images()), images())


def test_erase_is_that_of_single_images():
    x = images()
    generator = seeded(3)
    top, left = torch.randint(5, (12,), generator=generator), torch.randint(4, (12,), generator=generator)
    height, width = torch.randint(6, (12,), generator=generator), torch.randint(5, (12,), generator=generator)
    out = erase(x, top, left, height, width, torch.tensor([1.0, 2.0, 3.0])[:, None, None])
    for i in range(12):
        expected = x[i].clone()
        for channel in range(3):
            expected[channel, top[i] : top[i] + height[i], left[i] : left[i] + width[i]] = channel + 1.0
        assert torch.equal(out[i], expected)


def test_random_erasing_draws_the_published_rectangles():
    x = torch.zeros(20_000, 1, 32, 32)
    top, left, height, width = RandomErasing().rectangles(x, torch.ones(20_000, dtype=torch.bool), seeded())
    assert height.min() >= 1 and width.min() >= 1 and height.max() < 32 and width.max() < 32
    assert (top >= 0).all() and (left >= 0).all() and (top + height <= 32).all() and (left + width <= 32).all()
    reference = []
    python = torch.Generator().manual_seed(5)  # the loop of the published code, one image at a time
    draws = torch.rand(60_000, 2, generator=python, dtype=torch.float64).tolist()
    for share, shape in draws:
        area, ratio = 1024 * (0.02 + 0.38 * share), 0.3 + (1 / 0.3 - 0.3) * shape
        h, w = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if h < 32 and w < 32:
            reference.append((h, w))
    reference = torch.tensor(reference[:20_000], dtype=torch.float64)
    assert len(reference) == 20_000
    for ours, theirs in ((height, reference[:, 0]), (width, reference[:, 1])):
        ours = ours.double()
        error = float((ours.var() / 20_000 + theirs.var() / 20_000).sqrt())
        assert abs(float(ours.mean() - theirs.mean())) < 4 * error
        assert float(ours.std()) == pytest.approx(float(theirs.std()), rel=0.03)
    # the place is uniform over what fits: its quantile has mean 1/2 and standard error 0.29 / sqrt(20,000) = 0.002
    for start, side in ((top, height), (left, width)):
        assert float(((start + 0.5) / (33 - side)).mean()) == pytest.approx(0.5, abs=0.009)


def test_random_erasing_writes_its_values_with_its_probability():
    x = images(4000, 3, 12, 12)
    out = RandomErasing(0.25, value=(7.0, 8.0, 9.0))(x, generator=seeded())
    changed = (out != x).flatten(1).any(1)
    assert float(changed.float().mean()) == pytest.approx(0.25, abs=0.028)  # four standard errors
    for channel, value in enumerate((7.0, 8.0, 9.0)):
        assert (out[:, channel][out[:, channel] != x[:, channel]] == value).all()
    assert torch.equal(RandomErasing(0.0)(x), x)


def test_tiny_images_and_rectangles_that_never_fit_are_left_alone():
    x = images(50, 1, 2, 20)
    out = RandomErasing(1.0, scale=(0.9, 1.0), ratio=(1.0, 1.0))(x, generator=seeded())
    assert torch.equal(out, x)


def test_normalize_by_channel():
    x = images().double()
    out = Normalize((0.1, 0.2, 0.3), (1.0, 2.0, 4.0))(x)
    for channel, (mean, std) in enumerate(((0.1, 1.0), (0.2, 2.0), (0.3, 4.0))):
        torch.testing.assert_close(out[:, channel], (x[:, channel] - mean) / std, rtol=1e-14, atol=1e-14)
    assert torch.equal(Normalize(0.5, 0.5)(x), (x - 0.5) / 0.5)


@pytest.mark.parametrize("augment", [*ALL, Compose(ALL)], ids=lambda a: type(a).__name__)
def test_seeds_shapes_and_independence_of_images(augment):
    x = images(1)[:, :, :8].expand(200, -1, -1, -1)
    out = augment(x, generator=seeded(1))
    assert out.shape == x.shape and out.dtype == x.dtype
    assert torch.equal(out, augment(x, generator=seeded(1)))
    assert not torch.equal(out, augment(x, generator=seeded(2)))
    assert len(out.flatten(1).unique(dim=0)) > 1  # the same image became several
    torch.manual_seed(0)
    state = torch.get_rng_state()
    augment(x, generator=seeded(1))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(x, images(1)[:, :, :8].expand(200, -1, -1, -1))  # the batch itself is untouched


def test_compose_draws_one_after_the_other():
    x, generator = images(), seeded(4)
    expected = ALL[1](ALL[0](x, generator=generator), generator=generator)
    assert torch.equal(Compose(ALL[:2])(x, generator=seeded(4)), expected)


def test_channels_last_gives_the_same():
    x = images()
    last = x.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(Compose(ALL)(last, generator=seeded()), Compose(ALL)(x, generator=seeded()))
