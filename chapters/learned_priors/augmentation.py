"""Rotated and erased images, beside what `chapters.shared.augmentation` has for all chapters."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib._checks import check_non_negative, check_positive, check_probability
from chapters.shared.augmentation import _channels, _check_generator, _check_images, _uniform

INTERPOLATIONS = ("nearest", "bilinear")
_ATTEMPTS = 10  # rectangles drawn for an image before it is left whole; about one in twenty does not fit


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
