"""Proposals without a density: from the latents of a generator, or from a function of points."""

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from bnnlib._checks import check_count

Decoder = Callable[[Tensor], Tensor]


class LatentProposal:
    """Move in the latent space of a generator: z' = cos(angle) z + sin(angle) v with v ~ N(0, I), and x' = g(z').

    The move leaves N(0, I) as it is, for every angle. At t = pi/2 it forgets where it was: the proposal is independent.

    Args:
        decoder: g, latents (n, k) to points (n, ...); a module is to be in evaluation mode.
        latent_dim: k.
        angle: t in (0, pi/2], in radians.
        device: of the latents; by default that of the decoder's parameters, whose type they take too, or the CPU.
        batch_size: latents that are decoded at once.

    Raises:
        ValueError: the angle is outside of (0, pi/2], or a count below 1.

    Example:
        >>> proposal = LatentProposal(torch.nn.Linear(3, 2), latent_dim=3)
        >>> proposal.decode(proposal.move(proposal.draw(5))).shape
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
            raise ValueError(f"angle is {angle}, but it must be in (0, pi/2], in radians; pi/2 forgets the state.")
        self.decoder, self.angle = decoder, angle
        self.latent_dim = check_count("latent_dim", latent_dim)
        self.batch_size = check_count("batch_size", batch_size)
        parameters = getattr(decoder, "parameters", None)
        own: Iterable[Tensor] = parameters() if callable(parameters) else ()
        like = next((p for p in own if p.is_floating_point()), torch.empty(0, device="cpu"))
        self.device, self.dtype = like.device if device is None else device, like.dtype

    @property
    def independent(self) -> bool:
        """Whether a proposal does not depend on where the chain is."""
        return self.angle == math.pi / 2

    def draw(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Latents from N(0, I), shape (count, k)."""
        return torch.randn(count, self.latent_dim, generator=generator, device=self.device, dtype=self.dtype)

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
                f"the generator gives shape {tuple(points.shape)} for {len(state)} latents: give one point for each."
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
