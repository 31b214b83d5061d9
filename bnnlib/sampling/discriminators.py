"""Discriminators of pairs with values in [b, 1], and their losses: section 1.4 of Neklyudov's thesis.

The first argument of d(x, y) is the point that looks more like data the larger d is.
"""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib._checks import check_choice
from bnnlib.functional.metropolis_hastings import (
    bounded_logit,
    conditional_cross_entropy,
    markov_cross_entropy,
    upper_bound_loss,
)


class GenerativeProposal(Protocol):
    """What a chain needs of a proposal; `LatentProposal` and `PointProposal` are two.

    A state is what the proposal moves: latents of a generator, or the points themselves.

    Example:
        >>> all(hasattr(LatentProposal, name) for name in ("draw", "move", "decode"))
        True
    """

    independent: bool

    def draw(self, count: int, generator: torch.Generator | None = None) -> Tensor: ...

    def move(self, state: Tensor, generator: torch.Generator | None = None) -> Tensor: ...

    def decode(self, state: Tensor) -> Tensor: ...


class PairDiscriminator(nn.Module):
    """Base of discriminators that are made of a score of single points, so that a chain scores each point once.

    Args:
        network: points (n, ...) to numbers (n,) without a bound.
        lower: b in (0, 1/2); larger b means less selective, a tighter bound (28), and a chain that is stuck less.

    Raises:
        ValueError: `lower` is outside of (0, 1/2).

    Example:
        >>> issubclass(IndependentDiscriminator, PairDiscriminator), issubclass(MarkovDiscriminator, PairDiscriminator)
        (True, True)
    """

    def __init__(self, network: nn.Module, lower: float = 0.01) -> None:
        super().__init__()
        bounded_logit(torch.zeros(1), lower)  # refuses what is outside
        self.network, self.lower = network, lower

    def raw(self, points: Tensor) -> Tensor:
        """The network's numbers, shape (n,).

        Raises:
            ValueError: the network gives another shape.
        """
        numbers = self.network(points)
        if numbers.shape != points.shape[:1]:
            raise ValueError(
                f"the network gives shape {tuple(numbers.shape)} for {len(points)} points, but it must be "
                f"({len(points)},), one number a point. End it with nn.Flatten(0)."
            )
        return numbers

    def of_raw(self, raw: Tensor) -> Tensor:
        """The score of what the network gave."""
        return raw

    def score(self, points: Tensor) -> Tensor:
        """What `log_ratio_of_scores` takes, shape (n,)."""
        return self.of_raw(self.raw(points))

    def log_ratio_of_scores(self, first: Tensor, second: Tensor) -> Tensor:
        """log d(x, y) - log d(y, x) of the scores of x and y, in nats; any shapes that broadcast."""
        raise NotImplementedError

    def log_ratio(self, x: Tensor, y: Tensor) -> Tensor:
        """log d(x, y) - log d(y, x), in nats, shape (n,); its bounded exponential accepts a move from y to x."""
        return self.log_ratio_of_scores(self.score(x), self.score(y))


class IndependentDiscriminator(PairDiscriminator):
    """d(x, y) = d(x) (1 - d(y)) with d(x) in [b, 1 - b], for proposals that do not depend on where the chain is.

    The values of pairs are in [b^2, 1], so that the b of the bound (28) is `pair_lower`.

    Example:
        >>> network = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Flatten(0))
        >>> value = IndependentDiscriminator(network, lower=0.01)(torch.randn(5, 2))
        >>> value.shape, bool(((value >= 0.01) & (value <= 0.99)).all())
        (torch.Size([5]), True)
    """

    @property
    def pair_lower(self) -> float:
        """b^2, the least value of d(x, y)."""
        return self.lower**2

    def of_raw(self, raw: Tensor) -> Tensor:
        """logit d(x), bounded."""
        return bounded_logit(raw, self.lower)

    def forward(self, points: Tensor) -> Tensor:
        """d(x), shape (n,): at its best p(x) / (p(x) + q(x))."""
        return self.score(points).sigmoid()

    def pair(self, x: Tensor, y: Tensor) -> Tensor:
        """d(x, y) = d(x) (1 - d(y)), shape (n,)."""
        return self(x) * (-self.score(y)).sigmoid()

    def log_ratio_of_scores(self, first: Tensor, second: Tensor) -> Tensor:
        """logit d(x) - logit d(y)."""
        return first - second


class MarkovDiscriminator(PairDiscriminator):
    """d(x, y) = sigmoid(s(x) - s(y)), its logit bounded, so that d(y, x) = 1 - d(x, y) and both are in [b, 1 - b].

    Example:
        >>> discriminator = MarkovDiscriminator(torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Flatten(0)))
        >>> x, y = torch.randn(5, 2), torch.randn(5, 2)
        >>> bool(torch.allclose(discriminator(x, y), 1 - discriminator(y, x)))
        True
    """

    @property
    def pair_lower(self) -> float:
        """b, the least value of d(x, y)."""
        return self.lower

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """d(x, y), shape (n,): at its best p(x) q(y | x) / (p(x) q(y | x) + p(y) q(x | y))."""
        return self.log_ratio(x, y).sigmoid()

    pair = forward

    def log_ratio_of_scores(self, first: Tensor, second: Tensor) -> Tensor:
        """The bounded difference s(x) - s(y)."""
        return bounded_logit(first - second, self.lower)


def discriminator_loss(
    discriminator: PairDiscriminator, data: Tensor, proposed: Tensor, loss: str, logit_penalty: float = 0.0
) -> Tensor:
    """Loss of pairs x ~ p, y ~ q(y | x), a scalar in nats: what training minimizes over the discriminator's parameters.

    Args:
        discriminator: `IndependentDiscriminator` for "cce" and "ub", `MarkovDiscriminator` for "ub" and "mce".
        data, proposed: x and y, shape (n, ...).
        loss: "ub" for (28), "mce" and "cce" for the cross-entropies above it.
        logit_penalty: factor of the mean square of what the network gives, which is added.

    Raises:
        ValueError: there is no such loss, or it is not one of this discriminator.

    Example:
        >>> discriminator = IndependentDiscriminator(torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Flatten(0)))
        >>> discriminator_loss(discriminator, torch.randn(8, 2), torch.randn(8, 2), "ub").shape
        torch.Size([])
    """
    check_choice("loss", loss, ("ub", "mce", "cce"))
    raw = discriminator.raw(torch.cat([data, proposed]))  # one pass; no network here mixes its rows
    penalty = logit_penalty * raw.square().mean() if logit_penalty else 0.0
    first, second = discriminator.of_raw(raw).split([len(data), len(proposed)])
    if loss == "cce":
        if not isinstance(discriminator, IndependentDiscriminator):
            raise ValueError("loss 'cce' is of points and needs an IndependentDiscriminator; take 'mce' or 'ub'.")
        return conditional_cross_entropy(first, second) + penalty
    ratio = discriminator.log_ratio_of_scores(first, second)
    if loss == "ub":
        return upper_bound_loss(ratio) + penalty
    if not isinstance(discriminator, MarkovDiscriminator):
        raise ValueError("loss 'mce' is of pairs and needs a MarkovDiscriminator; take 'cce' or 'ub'.")
    log_forward = F.logsigmoid(ratio)
    return markov_cross_entropy(log_forward, log_forward) + penalty


def states_of(proposal: GenerativeProposal, points: Tensor, latents: Tensor | None, name: str) -> Tensor | None:
    """The states that a proposal moves from these points; None for an independent one, which needs none."""
    if proposal.independent:
        return None
    if not getattr(proposal, "latent", False):
        return points
    if latents is None:
        raise ValueError(f"the proposal moves latents, but {name} came without them. Pass those of its points.")
    if latents.dim() != 2 or len(latents) != len(points):
        raise ValueError(
            f"the latents of {name} have shape {tuple(latents.shape)}, but there are {len(points)} rows: it must be "
            f"({len(points)}, latent_dim)."
        )
    return latents


def check_rows(name: str, points: Tensor) -> None:
    """Refuse no rows at all."""
    if points.dim() == 0 or len(points) == 0:
        raise ValueError(f"{name} has shape {tuple(points.shape)}, but it needs at least one row.")


def check_same_rows(proposed: Tensor, points: Tensor) -> None:
    """Refuse proposals whose shape is not that of the points they are compared with."""
    if proposed.shape != points.shape:
        raise ValueError(
            f"the proposal gives shape {tuple(proposed.shape)}, but the points it is compared with have shape "
            f"{tuple(points.shape)}: they must be equal. Use a generator of images of this size, or resize the data."
        )
