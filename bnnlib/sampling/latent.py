"""Proposals without a density: from the latents of a generator, or from a function of points; and data's latents."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from bnnlib._checks import check_count, check_non_negative, check_positive

Decoder = Callable[[Tensor], Tensor]


class LatentProposal:
    """Move in the latent space of a generator: z' = cos(angle) z + sin(angle) v with v ~ N(0, I), and x' = g(z').

    The move leaves N(0, I) as it is, for every angle. At t = pi/2 it forgets where it was: the proposal is independent.

    Args:
        decoder: g, latents (n, k) to points (n, ...); a module is to be in evaluation mode.
        latent_dim: k.
        angle: t in (0, pi/2], in radians.
        device: of the latents; by default that of the decoder's parameters, or the CPU.
        batch_size: latents that are decoded at once.

    Raises:
        ValueError: the angle is outside of (0, pi/2], or a count below 1.

    Example:
        >>> proposal = LatentProposal(torch.nn.Linear(3, 2), latent_dim=3)
        >>> latents = proposal.draw(5)
        >>> proposal.decode(proposal.move(latents)).shape
        torch.Size([5, 2])
    """

    latent = True

    def __init__(
        self,
        decoder: Decoder,
        latent_dim: int,
        angle: float = math.pi / 2,
        *,
        device: torch.device | None = None,
        batch_size: int = 1000,
    ) -> None:
        if not 0.0 < angle <= math.pi / 2:
            raise ValueError(
                f"angle is {angle}, but it must be in (0, pi/2], in radians; pi/2, which forgets the state, gives "
                "independent proposals."
            )
        self.decoder, self.angle = decoder, angle
        self.latent_dim = check_count("latent_dim", latent_dim)
        self.batch_size = check_count("batch_size", batch_size)
        self.device = _device_of(decoder) if device is None else device

    @property
    def independent(self) -> bool:
        """Whether a proposal does not depend on where the chain is."""
        return self.angle == math.pi / 2

    def draw(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Latents from N(0, I), shape (count, k)."""
        return torch.randn(count, self.latent_dim, generator=generator, device=self.device)

    def move(self, state: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The proposed latents."""
        noise = torch.randn(state.shape, generator=generator, device=state.device, dtype=state.dtype)
        return noise if self.independent else math.cos(self.angle) * state + math.sin(self.angle) * noise

    @torch.no_grad()
    def decode(self, state: Tensor) -> Tensor:
        """Points g(z), decoded in batches.

        Raises:
            ValueError: the decoder does not give one point for each latent.
        """
        points = torch.cat([self.decoder(part) for part in state.split(self.batch_size)])
        if points.dim() == 0 or len(points) != len(state):
            raise ValueError(
                f"the generator gives shape {tuple(points.shape)} for {len(state)} latents, but it must be "
                f"({len(state)}, ...), one point for each."
            )
        return points


class PointProposal:
    """A proposal that is a function: of the points where the chains are, or of their number alone.

    Args:
        propose: propose(points, generator=...) gives the proposed points, of the same shape; for a Markov proposal.
        draw: draw(count, generator=...) gives points that depend on nothing; for an independent proposal, and for
            chains of a Markov proposal that start over.

    Raises:
        ValueError: both are missing.

    Example:
        >>> proposal = PointProposal(draw=lambda count, generator: torch.randn(count, 2, generator=generator))
        >>> proposal.draw(5).shape
        torch.Size([5, 2])
    """

    latent = False

    def __init__(
        self, propose: Callable[..., Tensor] | None = None, *, draw: Callable[..., Tensor] | None = None
    ) -> None:
        if propose is None and draw is None:
            raise ValueError("propose and draw are both None; pass propose=... for a Markov proposal, or draw=...")
        self._propose, self._draw = propose, draw

    @property
    def independent(self) -> bool:
        """Whether a proposal does not depend on where the chain is."""
        return self._propose is None

    def draw(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Points that depend on nothing.

        Raises:
            ValueError: the proposal has no such function.
        """
        if self._draw is None:
            raise ValueError("this proposal can only move points. Pass draw=... as well, or do not restart chains.")
        return self._draw(count, generator=generator)

    def move(self, state: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The proposed points."""
        if self._propose is None:
            return self.draw(len(state), generator)
        return self._propose(state, generator=generator)

    def decode(self, state: Tensor) -> Tensor:
        """The points themselves."""
        return state


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

    def squares() -> Tensor:
        made = decoder(z)
        if made.shape != x.shape:
            raise ValueError(
                f"the generator gives images of shape {tuple(made.shape[1:])}, but those to invert have "
                f"{tuple(x.shape[1:])}: they must be equal. Use a generator of this size, or resize the images."
            )
        return (made - x).square().flatten(1).sum(dim=1)

    with torch.enable_grad():
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = learning_rate * (1.0 - step / steps)
            loss = squares().sum() + penalty * z.square().sum()
            (z.grad,) = torch.autograd.grad(loss, z)
            optimizer.step()
    with torch.no_grad():
        return z.detach(), squares() / x[0].numel()


def _device_of(decoder: Decoder) -> torch.device:
    parameters = getattr(decoder, "parameters", None)
    first = next(iter(parameters()), None) if callable(parameters) else None
    return torch.device("cpu") if first is None else first.device
