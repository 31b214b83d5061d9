"""Augmentation of a whole batch of images on its own device, every image by a draw of its own.

`crop` does what it is told; classes draw it and are called as
augment(x, generator=generator) on images (n, channels, height, width). Nothing loops over images.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib._checks import check_count, check_positive, check_probability


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
