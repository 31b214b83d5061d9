"""Targets that can be drawn from exactly, with quantities whose laws are known."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

DOUBLE = torch.float64


@dataclass(frozen=True)
class Target:
    """log density, exact draws, and pairs (quantity of the points, its distribution function)."""

    log_prob: Callable[[Tensor], Tensor]
    draw: Callable[[int, torch.Generator], Tensor]
    quantities: tuple[tuple[Callable[[Tensor], Tensor], Callable[[np.ndarray], np.ndarray]], ...]
    step: float = 1.0  # of HMC in the metric of `COVARIANCE`, at which a fifth or so is refused

    def p_values(self, points: Tensor) -> list[float]:
        """Of the Kolmogorov-Smirnov test of each quantity."""
        return [float(stats.kstest(of(points).numpy(), cdf).pvalue) for of, cdf in self.quantities]


MEAN = torch.tensor([1.0, -2.0], dtype=DOUBLE)
COVARIANCE = torch.tensor([[1.0, 1.4], [1.4, 4.0]], dtype=DOUBLE)  # correlation 0.7


def correlated() -> Target:
    factor = torch.linalg.cholesky(COVARIANCE)
    law = torch.distributions.MultivariateNormal(MEAN, scale_tril=factor)

    def across(points: Tensor) -> Tensor:
        return points[:, 0] - 0.35 * points[:, 1]  # what is left of the first coordinate, given the second

    spread = math.sqrt(1.0 - 1.4**2 / 4.0)
    return Target(
        law.log_prob,
        lambda count, generator: MEAN + torch.randn(count, 2, generator=generator, dtype=DOUBLE) @ factor.T,
        (
            (lambda points: points[:, 0], stats.norm(1.0, 1.0).cdf),
            (lambda points: points[:, 1], stats.norm(-2.0, 2.0).cdf),
            (across, stats.norm(1.0 + 0.7, spread).cdf),
        ),
    )


WEIGHTS, CENTERS, SCALES = (0.3, 0.7), (-2.0, 1.5), (0.6, 1.0)


def bimodal() -> Target:
    """The first coordinate has two modes; the second less half of the first is a skewed log of a gamma variable."""
    weights, centers, scales = (torch.tensor(values, dtype=DOUBLE) for values in (WEIGHTS, CENTERS, SCALES))

    def log_prob(points: Tensor) -> Tensor:
        first = points[:, :1]
        parts = weights.log() - scales.log() - 0.5 * ((first - centers) / scales).square()
        rest = points[:, 1] - 0.5 * points[:, 0]
        return parts.logsumexp(dim=1) + 2.0 * rest - rest.exp()

    def draw(count: int, generator: torch.Generator) -> Tensor:
        which = (torch.rand(count, generator=generator, dtype=DOUBLE) > WEIGHTS[0]).long()
        first = centers[which] + scales[which] * torch.randn(count, generator=generator, dtype=DOUBLE)
        # a gamma variable with shape 2 is the sum of two exponential ones
        uniform = torch.rand(count, 2, generator=generator, dtype=DOUBLE)
        return torch.stack([first, 0.5 * first + (-uniform.log().sum(dim=1)).log()], dim=1)

    def mixture(values: np.ndarray) -> np.ndarray:
        parts = zip(WEIGHTS, CENTERS, SCALES, strict=True)
        return sum(weight * stats.norm.cdf(values, center, scale) for weight, center, scale in parts)

    return Target(
        log_prob,
        draw,
        (
            (lambda points: points[:, 0], mixture),
            (lambda points: points[:, 1] - 0.5 * points[:, 0], stats.loggamma(2.0).cdf),
        ),
        step=0.45,
    )


@pytest.fixture(params=[correlated, bimodal], ids=lambda build: build.__name__)
def target(request) -> Target:
    return request.param()


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)
