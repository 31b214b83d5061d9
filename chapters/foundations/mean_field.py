"""What variational families say of the inclusion probabilities in spike-and-slab regression, without Monte Carlo.

Three fixed points, each by coordinates, for one problem or a stack: the pair (gate, weight) of Titsias and Lázaro-
Gredilla (2011) and Carbonetto and Stephens (2012); the same family under the relaxed gate's gradient, as in chapter 3;
and independent weight and gate under a Gaussian spike, as in chapter 4.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib import functional as bF
from chapters.foundations.enumeration import SpikeSlabRegression


class MeanField(NamedTuple):
    """A law that factorizes over the weights; every field but the last (..., p).

    Args:
        inclusion: probability that the weight is in.
        slab_mean, slab_scale: of the weight while it is in.
        mean, scale: of the weight, gate included.
        objective: what was maximized, (...); for `coordinate_ascent` the ELBO in nats, at most the log evidence.
    """

    inclusion: Tensor
    slab_mean: Tensor
    slab_scale: Tensor
    mean: Tensor
    scale: Tensor
    objective: Tensor


def paired(problem: SpikeSlabRegression, mean: Tensor, scale: Tensor, logit: Tensor) -> MeanField:
    """The paired law with slab N(mean, scale^2) and gate Bernoulli(sigmoid(logit)), with its ELBO."""
    inclusion, first, variance = _moments(mean, scale, logit)
    elbo = paired_elbo(problem, mean, scale, logit)
    return MeanField(inclusion, mean, scale, first, variance.clamp_min(0.0).sqrt(), elbo)


def paired_elbo(problem: SpikeSlabRegression, mean: Tensor, scale: Tensor, logit: Tensor) -> Tensor:
    """Evidence lower bound of the paired family, equation (fnd-elbo), in nats, shape (...).

    Args:
        mean, scale: of the slab, (..., p).
        logit: log-odds of the inclusion probability.

    Raises:
        ValueError: the problem's spike is not the Dirac spike.
    """
    _dirac(problem)
    _, first, spread = _moments(mean, scale, logit)
    fit = (first * problem.cross).sum(dim=-1) - 0.5 * _quadratic(problem.gram, first)
    fit = fit - 0.5 * (spread * problem.gram.diagonal(dim1=-2, dim2=-1)).sum(dim=-1)
    kl = bF.spike_slab_kl(mean, scale, logit, problem.inclusion, problem.slab_scale)
    return problem.constant + fit - kl.sum(dim=-1)


def _moments(mean: Tensor, scale: Tensor, logit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Inclusion probability, and mean and variance of the weight, gate included."""
    inclusion = torch.sigmoid(logit)
    first = inclusion * mean
    return inclusion, first, inclusion * (mean.square() + scale.square()) - first.square()


def coordinate_ascent(
    problem: SpikeSlabRegression, start: Tensor | None = None, *, sweeps: int = 10_000, tolerance: float = 1e-10
) -> MeanField:
    """Mean field for the Dirac spike and slab, equation (fnd-cavi); exact where the inputs are orthogonal.

    Args:
        start: the first inclusion probabilities, (..., p); by default the prior's.
        sweeps: at most; one stops where no probability moves by `tolerance`.

    Raises:
        ValueError: the problem's spike is not the Dirac spike.
    """
    return _by_coordinates(problem, start, None, sweeps, tolerance)


def relaxed_fixed_point(
    problem: SpikeSlabRegression,
    temperature: float,
    start: Tensor | None = None,
    *,
    sweeps: int = 10_000,
    tolerance: float = 1e-10,
) -> MeanField:
    """Where the straight-through gradient of the relaxed gate is zero on average, equation (fnd-relaxed).

    Training with that gradient ends here when its step falls to 0. As the temperature falls to 0 this becomes
    `coordinate_ascent`: for a quadratic loss the mean slope at the gate's two ends is the difference of the losses.

    Args:
        temperature: tau of the soft gate in the backward pass; at most 1, where the quadrature is good to 1e-8.
        start, sweeps, tolerance: as for `coordinate_ascent`.

    Raises:
        ValueError: the problem's spike is not the Dirac spike, or the temperature is not positive.
    """
    if not temperature > 0.0:
        raise ValueError(f"temperature is {temperature:g}, but it must be positive.")
    return _by_coordinates(problem, start, temperature, sweeps, tolerance)


def slope_shares(logit: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """E[d soft gate / d logit] where the hard gate is open and where it is closed, each divided by phi (1 - phi).

    Both are 1/2 at temperature 0. Shapes as `logit`, by quadrature over the soft gate.
    """
    # with s = sigmoid(eta / tau), ds = s (1 - s) / tau d eta: the integral of the density of eta over s
    nodes, weights = map(torch.from_numpy, np.polynomial.legendre.leggauss(96))
    half = 0.25 * (nodes + 1.0)  # of s, from 0 to 1/2
    eta = temperature * torch.logit(half).to(logit)
    sizes = 0.25 * weights.to(logit)
    shares = []
    for signed in (-eta, eta):  # open: s above 1/2
        z = signed - logit[..., None]
        log_density = F.logsigmoid(z) + F.logsigmoid(-z)
        log_slope = F.logsigmoid(logit) + F.logsigmoid(-logit)
        shares.append(((log_density - log_slope[..., None]).exp() * sizes).sum(dim=-1))
    return shares[0], shares[1]


def _by_coordinates(problem, start, temperature, sweeps, tolerance) -> MeanField:
    _dirac(problem)
    gram, cross, slab = problem.gram, problem.cross, problem.slab_scale
    own = gram.diagonal(dim1=-2, dim2=-1)
    precision = own + slab**-2
    scale, prior = precision.rsqrt(), bF.log_odds(problem.inclusion)
    alpha = torch.full_like(cross, problem.inclusion) if start is None else start.to(cross).clone()
    logit = torch.logit(alpha.clamp(1e-12, 1.0 - 1e-12))
    # the slab means that belong to these probabilities, all at once
    mean = torch.linalg.solve(gram * alpha[..., None, :] + torch.diag_embed(precision - own * alpha), cross)
    for _ in range(sweeps):
        before = alpha.clone()
        for j in range(cross.shape[-1]):
            others = (gram[..., j, :] * alpha * mean).sum(dim=-1) - gram[..., j, j] * alpha[..., j] * mean[..., j]
            left = cross[..., j] - others
            mean[..., j] = left / precision[..., j]
            evidence = 0.5 * left.square() / precision[..., j] - 0.5 * (precision[..., j] * slab**2).log()
            if temperature is None:
                logit[..., j] = prior + evidence
            else:
                logit[..., j] = _relaxed(logit[..., j], prior, left, gram[..., j, j], slab, temperature)
            alpha[..., j] = torch.sigmoid(logit[..., j])
        if (alpha - before).abs().max() < tolerance:
            break
    return paired(problem, mean, scale, logit)


def _relaxed(logit: Tensor, prior: float, left: Tensor, own: Tensor, slab: float, temperature: float) -> Tensor:
    """One damped step of a logit towards the zero of its straight-through gradient."""
    variance = 1.0 / (own + slab**-2)
    mean = left * variance
    second = mean.square() + variance
    slab_kl = 0.5 * (second / slab**2 - 1.0 - (variance / slab**2).log())
    opened, closed = slope_shares(logit, temperature)
    slope = opened * (own * second - left * mean) - closed * left * mean
    return 0.5 * logit + 0.5 * (prior - slab_kl - slope)


def independent_fixed_point(
    problem: SpikeSlabRegression, start: Tensor | None = None, *, sweeps: int = 10_000, tolerance: float = 1e-10
) -> MeanField:
    """Independent weight and gate under a Gaussian spike: closed-form p* against Gaussian weights, by turns.

    Equations (sbnn-inclusion) and (sbnn-gradient) at a linear model, where both steps are exact: given p*, the weights'
    Gaussian is that of a ridge regression; given the weights, p* is closed form.

    Args:
        start: the first inclusion probabilities, (..., p); by default 1, the slab's ridge regression.
        sweeps, tolerance: as for `coordinate_ascent`.

    Returns:
        The law, with `objective` the ELBO of q(w) q(z).

    Raises:
        ValueError: the problem's spike is the Dirac spike.
    """
    if problem.spike_scale == 0.0:
        raise ValueError("spike_scale is 0, but independent weights and gates need a spike of positive width.")
    prior = bF.mixture_prior(problem.slab_scale, problem.spike_scale, problem.inclusion)
    own = problem.gram.diagonal(dim1=-2, dim2=-1)
    inclusion = torch.ones_like(problem.cross) if start is None else start.to(problem.cross)
    for _ in range(sweeps):
        shrinkage = prior.slab_precision * inclusion + prior.spike_precision * (1.0 - inclusion)
        mean = torch.linalg.solve(problem.gram + torch.diag_embed(shrinkage), problem.cross)
        scale = (own + shrinkage).rsqrt()
        before, inclusion = inclusion, bF.closed_form_inclusion(mean, scale, prior)
        if (inclusion - before).abs().max() < tolerance:
            break
    fit = (mean * problem.cross).sum(dim=-1) - 0.5 * _quadratic(problem.gram, mean) - 0.5 * (own * scale**2).sum(dim=-1)
    penalty = bF.spike_slab_profile_penalty(mean, scale, prior) - 0.5
    elbo = problem.constant + fit - penalty.sum(dim=-1)
    return MeanField(inclusion, mean, scale, mean, scale, elbo)


Method = Callable[..., MeanField]


def best_of_starts(method: Method, problem: SpikeSlabRegression, starts: int, generator: torch.Generator) -> MeanField:
    """The run with the largest objective of several from random inclusion probabilities and the default start.

    Args:
        method: `coordinate_ascent` or `independent_fixed_point`.
        starts: random starts beside the default.
    """
    best = method(problem)
    for _ in range(starts):
        start = torch.rand(problem.cross.shape, generator=generator, dtype=problem.cross.dtype)
        other = method(problem, start)
        wins = other.objective > best.objective
        *laws, objective = zip(other, best, strict=True)
        best = MeanField(*(torch.where(wins[..., None], *pair) for pair in laws), torch.where(wins, *objective))
    return best


def _quadratic(gram: Tensor, value: Tensor) -> Tensor:
    return (value * (gram @ value[..., None]).squeeze(-1)).sum(dim=-1)


def _dirac(problem: SpikeSlabRegression) -> None:
    if problem.spike_scale != 0.0:
        raise ValueError(
            f"spike_scale is {problem.spike_scale:g}, but the paired family belongs to the Dirac spike, 0."
        )


def single_input(inclusion: float, num_data: int = 100, prior: float = 0.5, slab_scale: float = 1.0):
    """A problem with one input whose exact inclusion probability is `inclusion`, noise sd 1 and mean square 1.

    Raises:
        ValueError: no data can make the probability so small.
    """
    gram = torch.full((1, 1), float(num_data), dtype=torch.float64)
    precision = num_data + slab_scale**-2
    evidence = bF.log_odds(inclusion) - bF.log_odds(prior) + 0.5 * math.log(precision * slab_scale**2)
    if evidence < 0.0:
        raise ValueError(
            f"with y = 0 the probability is already above {inclusion:g}: take fewer data or a larger prior."
        )
    cross = torch.tensor([math.sqrt(2.0 * precision * evidence)], dtype=torch.float64)
    return SpikeSlabRegression(gram, cross, torch.zeros((), dtype=torch.float64), prior, slab_scale)
