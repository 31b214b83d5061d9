"""Inversion of a generator: the latents whose images are nearest to given ones."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from bnnlib._checks import check_count, check_non_negative, check_positive

Decoder = Callable[[Tensor], Tensor]


class Inversion(NamedTuple):
    """Latents (n, k) of images, and the mean squared error of a pixel of each reconstruction, (n,).

    Example:
        >>> decoder = torch.nn.Linear(3, 8)
        >>> found = invert(decoder, torch.randn(4, 8), latent_dim=3, steps=5)
        >>> found.latents.shape, found.errors.shape
        (torch.Size([4, 3]), torch.Size([4]))
    """

    latents: Tensor
    errors: Tensor


def invert(
    decoder: Decoder,
    images: Tensor,
    latent_dim: int,
    *,
    steps: int = 100,
    learning_rate: float = 0.1,
    penalty: float = 0.0,
    start: Tensor | None = None,
    batch_size: int = 500,
    generator: torch.Generator | None = None,
) -> Inversion:
    """Latents whose images are nearest to the given ones: Adam on sum (x - g(z))^2 + penalty |z|^2, all rows at once.

    Args:
        decoder: g, in evaluation mode; its parameters stay as they are.
        images: shape (n, ...).
        latent_dim: k.
        steps: of Adam; the learning rate falls to 0 along a line.
        learning_rate: of the latents, which have standard deviation 1.
        penalty: 0 for reconstruction alone; above, latents stay nearer to N(0, I).
        start: latents to begin with, (n, k), say an encoder's; by default N(0, I).
        batch_size: images that are inverted together.
        generator: of the start, on the device of the images; by default PyTorch's own.

    Raises:
        ValueError: no images, a start of another shape, or a decoder that gives images of another shape.

    Example:
        >>> decoder = torch.nn.Linear(3, 8)
        >>> found = invert(decoder, decoder(torch.randn(4, 3)).detach(), latent_dim=3, steps=200)
        >>> bool(found.errors.max() < 0.01)
        True
    """
    check_count("steps", steps)
    check_count("batch_size", batch_size)
    check_positive("learning_rate", learning_rate)
    check_non_negative("penalty", penalty)
    if images.dim() == 0 or len(images) == 0:
        raise ValueError(f"images have shape {tuple(images.shape)}, but at least one is needed.")
    shape = (len(images), check_count("latent_dim", latent_dim))
    if start is None:
        start = torch.randn(shape, generator=generator, device=images.device)
    if start.shape != shape:
        raise ValueError(f"start has shape {tuple(start.shape)}, but it must be {shape}, one latent for each image.")
    latents, errors = [], []
    for x, z in zip(images.split(batch_size), start.split(batch_size), strict=True):
        found, error = _inverted(decoder, x, z.detach().clone(), steps, learning_rate, penalty)
        latents.append(found)
        errors.append(error)
    return Inversion(torch.cat(latents), torch.cat(errors))


def _inverted(decoder: Decoder, x: Tensor, z: Tensor, steps: int, learning_rate: float, penalty: float):
    z.requires_grad_()
    optimizer = torch.optim.Adam([z], lr=learning_rate)
    falling = torch.optim.lr_scheduler.PolynomialLR(optimizer, steps)  # to zero, in a line

    def squares() -> Tensor:
        made = decoder(z)
        if made.shape != x.shape:
            raise ValueError(
                f"the generator gives images of shape {tuple(made.shape[1:])}, but those to invert have "
                f"{tuple(x.shape[1:])}: they must be equal. Use a generator of this size, or resize the images."
            )
        return (made - x).square().flatten(1).sum(dim=1)

    with torch.enable_grad():
        for _ in range(steps):
            loss = squares().sum() + penalty * z.square().sum()
            (z.grad,) = torch.autograd.grad(loss, z)
            optimizer.step()
            falling.step()
    with torch.no_grad():
        return z.detach(), squares() / x[0].numel()
