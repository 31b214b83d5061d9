"""Augmentation of a whole batch of images on its own device, every image by a draw of its own.

Functions do what they are told (`crop`, `rotate`, `erase`); classes draw it and are called as
augment(x, generator=generator) on images (n, channels, height, width). Nothing loops over images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib._checks import check_count, check_non_negative, check_positive, check_probability

INTERPOLATIONS = ("nearest", "bilinear")
_ATTEMPTS = 10  # rectangles drawn for an image before it is left whole; about one in twenty does not fit


def _check_images(x: Tensor, *, floating: bool = False) -> None:
    if x.dim() != 4:
        raise ValueError(
            f"x has shape {tuple(x.shape)}, but images are (n, channels, height, width). Give one image as x[None]."
        )
    if floating and not x.is_floating_point():
        raise ValueError(f"x has type {x.dtype}, but this needs real numbers. Use x.float() / 255 on byte images.")


def _check_generator(x: Tensor, generator: torch.Generator | None) -> None:
    if generator is not None and generator.device.type != x.device.type:
        raise ValueError(
            f"generator lives on {generator.device}, but the images are on {x.device}: what happens to an image is "
            f"drawn where it is. Make the generator with torch.Generator(device={str(x.device)!r})."
        )


def _uniform(x: Tensor, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
    return torch.rand(shape, generator=generator, device=x.device)


def _channels(name: str, values: float | Sequence[float], x: Tensor) -> Tensor:
    found = torch.as_tensor(values, dtype=x.dtype, device=x.device).reshape(-1)
    if len(found) not in (1, x.shape[1]):
        raise ValueError(f"{name} has {len(found)} values, but the images have {x.shape[1]} channels; give 1 or that.")
    return found[:, None, None]


def crop(x: Tensor, top: Tensor, left: Tensor, padding: int) -> Tensor:
    """Pad every image with `padding` zeros on each side and cut out a window of the old size.

    Args:
        x: images, shape (n, c, h, w), any dtype.
        top, left: first row and column of the windows in the padded images, integers in [0, 2 padding], shape (n,).
        padding: pixels on each side.

    Returns:
        Tensor, shape (n, c, h, w).

    Example:
        >>> image = torch.arange(4.0).reshape(1, 1, 2, 2)
        >>> crop(image, top=torch.tensor([0]), left=torch.tensor([1]), padding=1)[0, 0]
        tensor([[0., 0.],
                [0., 1.]])
    """
    height, width = x.shape[2:]
    windows = F.pad(x, (padding,) * 4).unfold(2, height, 1).unfold(3, width, 1)  # a view of all windows
    return windows[torch.arange(len(x), device=x.device), :, top, left]


def rotate(x: Tensor, degrees: Tensor, interpolation: str = "nearest") -> Tensor:
    """Turn every image about its center, counterclockwise, with zeros where nothing is known.

    Args:
        x: images, shape (n, c, h, w), real.
        degrees: angles, shape (n,).
        interpolation: "nearest" or "bilinear".

    Returns:
        Tensor, shape (n, c, h, w).

    Example:
        >>> image = torch.arange(4.0).reshape(1, 1, 2, 2)
        >>> rotate(image, torch.tensor([90.0]))[0, 0]
        tensor([[1., 3.],
                [0., 2.]])
    """
    height, width = x.shape[2:]
    radians = torch.deg2rad(degrees)[:, None, None]
    cos, sin = radians.cos(), radians.sin()
    rows = (torch.arange(height, device=x.device) - (height - 1) / 2)[:, None]
    columns = torch.arange(width, device=x.device) - (width - 1) / 2
    # where each new pixel comes from, in pixels from the center; grid_sample wants them in halves of the side
    grid = torch.stack(
        ((cos * columns - sin * rows) * (2 / width), (sin * columns + cos * rows) * (2 / height)), dim=-1
    )
    return F.grid_sample(x, grid.to(x.dtype), mode=interpolation, padding_mode="zeros", align_corners=False)


def erase(x: Tensor, top: Tensor, left: Tensor, height: Tensor, width: Tensor, value: float | Tensor) -> Tensor:
    """Put `value` into one rectangle of every image.

    Args:
        x: images, shape (n, c, h, w).
        top, left, height, width: of the rectangles in pixels, shape (n,); a height of 0 erases nothing.
        value: broadcast to the images, such as a number or shape (c, 1, 1).

    Returns:
        Tensor, shape (n, c, h, w).

    Example:
        >>> one, two = torch.tensor([1]), torch.tensor([2])
        >>> erase(torch.ones(1, 1, 3, 3), top=one, left=one, height=one, width=two, value=0.0)[0, 0]
        tensor([[1., 1., 1.],
                [1., 0., 0.],
                [1., 1., 1.]])
    """
    rows, columns = (torch.arange(side, device=x.device) for side in x.shape[2:])
    inside_rows = (rows >= top[:, None]) & (rows < (top + height)[:, None])
    inside_columns = (columns >= left[:, None]) & (columns < (left + width)[:, None])
    inside = inside_rows[:, None, :, None] & inside_columns[:, None, None, :]
    return torch.where(inside, value, x)


class RandomCrop:
    """Shift every image by up to `padding` pixels each way, with zeros coming in: each of the offsets equally likely.

    Args:
        padding: pixels, at least 1.

    Raises:
        ValueError: padding is no count; when called, x is not (n, c, h, w) or the generator is elsewhere.

    Example:
        >>> RandomCrop(2)(torch.rand(8, 1, 28, 28), generator=torch.Generator().manual_seed(0)).shape
        torch.Size([8, 1, 28, 28])
    """

    def __init__(self, padding: int) -> None:
        self.padding = check_count("padding", padding)

    def __call__(self, x: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        _check_images(x)
        _check_generator(x, generator)
        offsets = torch.randint(2 * self.padding + 1, (2, len(x)), generator=generator, device=x.device)
        return crop(x, offsets[0], offsets[1], self.padding)


class RandomHorizontalFlip:
    """Mirror every image left to right with probability `p`.

    Raises:
        ValueError: p is no probability; when called, x is not (n, c, h, w) or the generator is elsewhere.

    Example:
        >>> RandomHorizontalFlip(p=1.0)(torch.arange(4.0).reshape(1, 1, 2, 2), generator=torch.Generator())[0, 0]
        tensor([[1., 0.],
                [3., 2.]])
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p = check_probability("p", p)

    def __call__(self, x: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        _check_images(x)
        _check_generator(x, generator)
        turned = _uniform(x, (len(x),), generator) < self.p
        return torch.where(turned[:, None, None, None], x.flip(3), x)


class RandomRotation:
    """Turn every image about its center by an angle from U(-degrees, degrees), with zeros coming in.

    Args:
        degrees: largest angle.
        interpolation: "nearest" as published, or "bilinear".

    Raises:
        ValueError: degrees is negative or the interpolation unknown; when called, x is not real (n, c, h, w) or the
            generator is elsewhere.

    Example:
        >>> RandomRotation(15.0)(torch.rand(8, 1, 28, 28), generator=torch.Generator().manual_seed(0)).shape
        torch.Size([8, 1, 28, 28])
    """

    def __init__(self, degrees: float, interpolation: str = "nearest") -> None:
        if interpolation not in INTERPOLATIONS:
            raise ValueError(f"interpolation is {interpolation!r}, but it must be one of {', '.join(INTERPOLATIONS)}.")
        self.degrees, self.interpolation = check_non_negative("degrees", degrees), interpolation

    def __call__(self, x: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        _check_images(x, floating=True)
        _check_generator(x, generator)
        degrees = (2.0 * _uniform(x, (len(x),), generator) - 1.0) * self.degrees
        return rotate(x, degrees, self.interpolation)


class RandomErasing:
    """Overwrite a random rectangle of every image with probability `p` (Zhong, Zheng, Kang, Li and Yang, 2020).

    The rectangle's share of the area is U(scale), its height over width U(ratio), as in that paper and in the code of
    Deng et al. (2019); torchvision draws the ratio's logarithm uniformly instead. It is smaller than the image both
    ways and lies anywhere inside. Rectangles that do not fit are drawn anew.

    Args:
        p: probability of erasing anything.
        scale: smallest and largest share of the image's area, in (0, 1].
        ratio: smallest and largest height over width, above 0.
        value: what is written, a number or one per channel.

    Raises:
        ValueError: p is no probability or a range is not two increasing numbers; when called, x is not real
            (n, c, h, w), the values do not fit the channels, or the generator is elsewhere.

    Example:
        >>> erased = RandomErasing(p=1.0)(torch.ones(8, 1, 28, 28), generator=torch.Generator().manual_seed(0))
        >>> bool((erased == 0).flatten(1).any(dim=1).all())
        True
    """

    def __init__(
        self,
        p: float = 0.5,
        scale: tuple[float, float] = (0.02, 0.4),
        ratio: tuple[float, float] = (0.3, 1 / 0.3),
        value: float | Sequence[float] = 0.0,
    ) -> None:
        self.p = check_probability("p", p)
        for name, limits in (("scale", scale), ("ratio", ratio)):
            if len(limits) != 2 or limits[0] > limits[1]:
                raise ValueError(f"{name} is {tuple(limits)}, but it must be (smallest, largest).")
            check_positive(f"{name}[0]", limits[0])
        check_probability("scale[1]", scale[1])
        self.scale, self.ratio, self.value = tuple(scale), tuple(ratio), value

    def __call__(self, x: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        _check_images(x, floating=True)
        _check_generator(x, generator)
        chosen = _uniform(x, (len(x),), generator) < self.p
        return erase(x, *self.rectangles(x, chosen, generator), _channels("value", self.value, x))

    def rectangles(
        self, x: Tensor, chosen: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rectangles of the images that are `chosen` (bool, shape (n,)): top, left, height, width, each shape (n,)."""
        rows, columns = x.shape[2:]
        draws = _uniform(x, (2, len(x), _ATTEMPTS), generator)
        area = rows * columns * (self.scale[0] + (self.scale[1] - self.scale[0]) * draws[0])
        ratio = self.ratio[0] + (self.ratio[1] - self.ratio[0]) * draws[1]
        heights, widths = (area * ratio).sqrt().round().long(), (area / ratio).sqrt().round().long()
        fits = (heights < rows) & (widths < columns)
        first = fits.int().argmax(dim=1, keepdim=True)
        height, width = heights.gather(1, first).squeeze(1), widths.gather(1, first).squeeze(1)
        height = height * (chosen & fits.any(dim=1))
        places = _uniform(x, (2, len(x)), generator)
        # a float32 product may round up to the number of places itself
        top = (places[0] * (rows - height + 1)).long().clamp_max(rows - 1)
        left = (places[1] * (columns - width + 1)).long().clamp_max(columns - 1)
        return torch.minimum(top, rows - height), torch.minimum(left, (columns - width).clamp_min(0)), height, width


class Normalize:
    """(x - mean) / std by channel; it draws nothing.

    Args:
        mean, std: numbers, or one per channel; std above 0.

    Raises:
        ValueError: a std is not above 0; when called, x is not real (n, c, h, w) or has other channels.

    Example:
        >>> Normalize(0.5, 0.25)(torch.ones(1, 1, 1, 2))
        tensor([[[[2., 2.]]]])
    """

    def __init__(self, mean: float | Sequence[float], std: float | Sequence[float]) -> None:
        check_positive("std", torch.as_tensor(std, dtype=torch.float64))
        self.mean, self.std = mean, std

    def __call__(self, x: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        _check_images(x, floating=True)
        return (x - _channels("mean", self.mean, x)) / _channels("std", self.std, x)


class Compose:
    """One augmentation after the other, all from the same generator.

    Args:
        steps: called in this order as step(x, generator=generator).

    Example:
        >>> augment = Compose([RandomCrop(2), RandomHorizontalFlip(), Normalize(0.1307, 0.3081)])
        >>> augment(torch.rand(8, 1, 28, 28), generator=torch.Generator().manual_seed(0)).shape
        torch.Size([8, 1, 28, 28])
    """

    def __init__(self, steps: Sequence[Callable[..., Tensor]]) -> None:
        self.steps = list(steps)

    def __call__(self, x: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        for step in self.steps:
            x = step(x, generator=generator)
        return x
