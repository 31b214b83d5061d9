"""Ways to propose a point: near where the chain is (random walk, Markov), or wherever it is (independent)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bnnlib._checks import check_scale


class Proposal:
    """A conditional density q(x' | x) that can be drawn from.

    Attributes:
        symmetric: q(x' | x) = q(x | x'), so that it leaves the ratio.

    Example:
        >>> isinstance(RandomWalk(1.0), Proposal)
        True
    """

    symmetric = False

    def draw(self, given: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Points x' ~ q(. | given), of the shape of `given`, (chains, ...)."""
        raise NotImplementedError

    def log_density(self, point: Tensor, given: Tensor) -> Tensor:
        """log q(point | given), shape (chains,), in nats."""
        raise NotImplementedError


class RandomWalk(Proposal):
    """x' = x + scale * xi with standard normal xi, equation (mh-random-walk).

    Args:
        scale: standard deviation of a step: a number, or a tensor that broadcasts to (chains, ...).

    Raises:
        ValueError: the scale is not positive and finite.

    Example:
        >>> RandomWalk(0.5).draw(torch.zeros(4, 2), torch.Generator().manual_seed(0)).shape
        torch.Size([4, 2])
    """

    symmetric = True

    def __init__(self, scale: float | Tensor) -> None:
        self.scale = check_scale("scale", scale)

    def draw(self, given: Tensor, generator: torch.Generator | None = None) -> Tensor:
        noise = torch.randn(given.shape, generator=generator, device=given.device, dtype=given.dtype)
        return given + self.scale * noise


class Markov(Proposal):
    """Any conditional density, given by two functions.

    Args:
        draw: called as draw(given, generator).
        log_density: called as log_density(point, given); must be normalized, or at least have one constant for all
            `given`.

    Example:
        >>> half = Markov(
        ...     lambda x, generator: x / 2 + torch.randn(x.shape, generator=generator),
        ...     lambda point, given: -(point - given / 2).square().sum(dim=-1) / 2,
        ... )
        >>> half.draw(torch.zeros(4, 2)).shape
        torch.Size([4, 2])
    """

    def __init__(
        self, draw: Callable[[Tensor, torch.Generator | None], Tensor], log_density: Callable[[Tensor, Tensor], Tensor]
    ) -> None:
        for name, value in (("draw", draw), ("log_density", log_density)):
            if not callable(value):
                raise TypeError(f"{name} is {value!r}, but it must be a function: Markov(draw, log_density).")
        self._draw, self._log_density = draw, log_density

    def draw(self, given: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self._draw(given, generator)

    def log_density(self, point: Tensor, given: Tensor) -> Tensor:
        return self._log_density(point, given)


class Independent(Proposal):
    """q(x') whatever x is, equation (mh-independent): accepted points are as good as independent.

    Args:
        distribution: has ``rsample(count, generator)``, points (count, ...), and ``log_prob(points)``, (count,) in
            nats; those of `bnnlib.sampling` do. One that has ``rsample_with_log_prob(count, generator)`` saves the
            density's pass over its own draws.

    Raises:
        TypeError: it lacks one of the two, or is of torch.distributions.

    Example:
        >>> Independent(DiagonalGaussian(2)).draw(torch.zeros(4, 2)).shape
        torch.Size([4, 2])
    """

    def __init__(self, distribution: Any) -> None:
        if isinstance(distribution, torch.distributions.Distribution):
            raise TypeError(
                f"distribution is a {type(distribution).__name__} of torch.distributions, whose draws take no "
                "generator. Use FullGaussian, or a class with rsample(count, generator) and log_prob around it."
            )
        for method in ("rsample", "log_prob"):
            if not callable(getattr(distribution, method, None)):
                raise TypeError(
                    f"distribution is a {type(distribution).__name__} without {method}, but the acceptance test needs "
                    "draws and their density. Without one, use implicit_metropolis_hastings with a discriminator."
                )
        self.distribution = distribution

    def draw(self, given: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self.distribution.rsample(len(given), generator)

    def log_density(self, point: Tensor, given: Tensor) -> Tensor:
        return self.distribution.log_prob(point)

    def log_prob(self, point: Tensor) -> Tensor:
        """log q(point), shape (count,), in nats."""
        return self.distribution.log_prob(point)

    def draw_with_log_prob(self, count: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """`count` points and their log densities."""
        if (both := getattr(self.distribution, "rsample_with_log_prob", None)) is not None:
            return both(count, generator)
        points = self.distribution.rsample(count, generator)
        return points, self.distribution.log_prob(points)
