"""Gibbs sampling of spike-and-slab regression: the Monte Carlo yardstick, also where models cannot be enumerated.

One weight at a time, gate and value together, given all others (Geweke, 1996). The spike may be a point, a Gaussian or
a Laplace law, the prior of chapter 1.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from bnnlib import functional as bF
from bnnlib._checks import check_count, check_scale
from bnnlib.sampling.diagnostics import split_r_hat
from chapters.foundations.enumeration import SpikeSlabRegression

_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


class GibbsAnswer(NamedTuple):
    """Averages over all chains and sweeps, each (..., p).

    Args:
        inclusion: means of the conditional probabilities, which vary less than the gates.
        mean, scale: of the weights' draws.
        standard_error: of `inclusion`, from the spread of the chains' own means.
        r_hat: split R-hat of the conditional probabilities.
    """

    inclusion: Tensor
    mean: Tensor
    scale: Tensor
    standard_error: Tensor
    r_hat: Tensor


def conditional_inclusion(
    problem: SpikeSlabRegression, left: Tensor, own: Tensor, laplace_scale: float | None = None
) -> Tensor:
    """Log-odds that a weight is in given all others, in nats: (fnd-model-posterior) for this weight alone.

    Args:
        problem: its priors are used.
        left: x_j'(y - what the others explain) / noise_scale^2, any shape.
        own: x_j'x_j / noise_scale^2, of that shape.
        laplace_scale: of a Laplace spike; None takes the problem's point or Gaussian.
    """
    slab = _log_integral(left, own, problem.slab_scale)
    if laplace_scale is not None:
        out = _laplace_integrals(left, own, laplace_scale).logsumexp(dim=-1)
    elif problem.spike_scale:
        out = _log_integral(left, own, problem.spike_scale)
    else:
        out = torch.zeros_like(left)
    return bF.log_odds(problem.inclusion) + slab - out


def _log_integral(left: Tensor, own: Tensor, scale: float) -> Tensor:
    """log of the mean of exp(left w - own w^2 / 2) over w ~ N(0, scale^2)."""
    precision = own + scale**-2
    return 0.5 * left.square() / precision - 0.5 * (precision * scale**2).log()


def _laplace_integrals(left: Tensor, own: Tensor, scale: float) -> Tensor:
    """log of the same mean over the positive and the negative half of a Laplace law; two more entries at the end."""
    slope = torch.stack([left, -left], dim=-1) - 1.0 / scale
    own = own[..., None]
    tail = torch.special.log_ndtr(slope / own.sqrt())
    return tail + 0.5 * slope.square() / own - 0.5 * own.log() + _HALF_LOG_TAU - math.log(2.0 * scale)


def gibbs(
    problem: SpikeSlabRegression,
    *,
    chains: int,
    sweeps: int,
    burn_in: int,
    laplace_scale: float | None = None,
    generator: torch.Generator | None = None,
) -> GibbsAnswer:
    """Sample gates and weights; chains start with gates drawn from the prior and weights at 0.

    Args:
        problem: one, or a stack, all moved together.
        chains: for each problem, at least 2.
        sweeps: that count, each over all weights in a fixed order.
        burn_in: sweeps before them.
        laplace_scale: of a Laplace spike in place of the problem's own.
        generator: of all draws.

    Raises:
        ValueError: a count is too small, or laplace_scale is not positive.
    """
    check_count("chains", chains, 2)
    check_count("sweeps", sweeps, 4)
    if laplace_scale is not None:
        check_scale("laplace_scale", laplace_scale)
    cross = problem.cross[..., None, :].expand(*problem.cross.shape[:-1], chains, -1)
    weight = torch.zeros_like(cross)
    seen, total, square = [], torch.zeros_like(cross), torch.zeros_like(cross)
    for sweep in range(burn_in + sweeps):
        chances = []
        for j in range(cross.shape[-1]):
            column, own = problem.gram[..., j, :], problem.gram[..., j, j, None]
            left = cross[..., j] - (weight @ column[..., None]).squeeze(-1) + own * weight[..., j]
            own = own.expand_as(left)
            odds = conditional_inclusion(problem, left, own, laplace_scale)
            uniform = torch.rand(left.shape, generator=generator, dtype=left.dtype)
            slab = _normal(left, own + problem.slab_scale**-2, generator)
            spike = _spike(problem, left, own, laplace_scale, generator)
            chances.append(odds.sigmoid())
            weight[..., j] = torch.where(uniform < chances[-1], slab, spike)
        if sweep >= burn_in:
            seen.append(torch.stack(chances, dim=-1))
            total += weight
            square += weight.square()
    return _averages(torch.stack(seen), total / sweeps, square / sweeps)


def _averages(chance: Tensor, mean: Tensor, square: Tensor) -> GibbsAnswer:
    """chance (sweeps, ..., chains, p); mean and square (..., chains, p)."""
    own = chance.mean(dim=0)
    error = own.std(dim=-2) / own.shape[-2] ** 0.5
    average = mean.mean(dim=-2)
    scale = (square.mean(dim=-2) - average.square()).clamp_min(0.0).sqrt()
    by_chain = chance.movedim(-2, 0)  # (chains, sweeps, ..., p)
    return GibbsAnswer(own.mean(dim=-2), average, scale, error, split_r_hat(by_chain))


def _normal(left: Tensor, precision: Tensor, generator: torch.Generator | None) -> Tensor:
    noise = torch.randn(left.shape, generator=generator, dtype=left.dtype)
    return left / precision + noise * precision.rsqrt()


def _spike(problem, left: Tensor, own: Tensor, laplace_scale: float | None, generator) -> Tensor:
    if laplace_scale is None:
        if not problem.spike_scale:
            return torch.zeros_like(left)
        return _normal(left, own + problem.spike_scale**-2, generator)
    halves = _laplace_integrals(left, own, laplace_scale)
    uniform = torch.rand((2, *left.shape), generator=generator, dtype=left.dtype)
    positive = uniform[0] < torch.sigmoid(halves[..., 0] - halves[..., 1])
    sign = 2.0 * positive.to(left.dtype) - 1.0
    slope = (sign * left - 1.0 / laplace_scale) / own.sqrt()
    # N(slope, 1) above 0, by its inverse distribution function from the side that keeps the digits
    level = torch.special.log_ndtr(slope) + uniform[1].clamp_min(1e-300).log()
    size = slope - torch.special.ndtri(level.exp())
    return sign * size.clamp_min(0.0) / own.sqrt()
