"""Linear regression with a spike and slab on each weight, and its posterior by summing over all 2^p models.

y = X w + noise; a weight is N(0, slab_scale^2) with probability `inclusion`, else 0 or N(0, spike_scale^2). Given which
weights are in, everything is Gaussian; with at most a dozen inputs all choices can be written down.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from bnnlib._checks import check_non_negative, check_probability, check_scale

MOST_INPUTS = 12


@dataclass(frozen=True)
class SpikeSlabRegression:
    """One problem, or a stack of them, equation (fnd-spike-slab); `spike_slab_regression` makes it of data.

    Args:
        gram: X'X / noise_scale^2, shape (..., p, p).
        cross: X'y / noise_scale^2, shape (..., p).
        constant: log density of y under w = 0, in nats, shape (...).
        inclusion: prior inclusion probability pi, strictly between 0 and 1.
        slab_scale: standard deviation of a weight that is in.
        spike_scale: of one that is out; 0 is the Dirac spike.

    Raises:
        ValueError: a probability or a scale is out of its range, or the spike is not narrower than the slab.
    """

    gram: Tensor
    cross: Tensor
    constant: Tensor
    inclusion: float = 0.5
    slab_scale: float = 1.0
    spike_scale: float = 0.0

    def __post_init__(self) -> None:
        check_probability("inclusion", self.inclusion, open_interval=True)
        check_scale("slab_scale", self.slab_scale)
        if not check_non_negative("spike_scale", self.spike_scale) < self.slab_scale:
            raise ValueError(
                f"spike_scale is {self.spike_scale:g}, but it must be below slab_scale, {self.slab_scale:g}."
            )

    def with_prior(self, **changes: float) -> SpikeSlabRegression:
        """The same data under another inclusion, slab_scale or spike_scale."""
        return replace(self, **changes)


def spike_slab_regression(
    x: Tensor, y: Tensor, noise_scale: float = 1.0, *, inclusion: float = 0.5, slab_scale: float = 1.0, spike_scale=0.0
) -> SpikeSlabRegression:
    """The problem of inputs x (..., n, p) and targets y (..., n) with known noise; see `SpikeSlabRegression`."""
    x, y = x.double() / noise_scale, y.double() / noise_scale
    constant = -0.5 * y.square().sum(dim=-1) - y.shape[-1] * math.log(math.sqrt(2.0 * math.pi) * noise_scale)
    cross = (x.mT @ y[..., None]).squeeze(-1)
    return SpikeSlabRegression(x.mT @ x, cross, constant, inclusion, slab_scale, spike_scale)


class Enumeration(NamedTuple):
    """What the sum over all models says; M = 2^p.

    Args:
        models: which weights are in, Boolean (M, p).
        probabilities: posterior probability of each model, (..., M).
        inclusion: posterior inclusion probability of each weight, (..., p).
        mean, scale: of each weight's posterior averaged over the models, (..., p); given w = 0 where it is out.
        log_evidence: log density of y, in nats, (...).
    """

    models: Tensor
    probabilities: Tensor
    inclusion: Tensor
    mean: Tensor
    scale: Tensor
    log_evidence: Tensor

    @property
    def median_model(self) -> Tensor:
        """The weights with inclusion probability above 1/2, Boolean (..., p)."""
        return self.inclusion > 0.5


def all_models(p: int) -> Tensor:
    """All choices among p weights, Boolean (2^p, p), the empty one first.

    Raises:
        ValueError: p is not from 1 to 12.
    """
    if not 1 <= p <= MOST_INPUTS:
        raise ValueError(f"{p} inputs make 2^{p} models, but between 1 and {MOST_INPUTS} inputs are summed over.")
    return torch.tensor(list(itertools.product((False, True), repeat=p)))


def model_log_evidence(problem: SpikeSlabRegression, models: Tensor) -> Tensor:
    """log density of y under each model, equation (fnd-model-evidence), in nats, shape (..., M).

    Args:
        models: Boolean (M, p).
    """
    return _given(problem, models)[0]


def _given(problem: SpikeSlabRegression, models: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log evidence (..., M), and mean and variance of the weights (..., M, p) given each model."""
    # with s the prior sds of a model: the precision of w / s is I + s G s, which a Dirac spike leaves well-conditioned
    included = models.to(problem.gram)
    s = problem.slab_scale * included + problem.spike_scale * (1.0 - included)
    scaled = s[:, :, None] * problem.gram[..., None, :, :] * s[:, None, :] + torch.eye(s.shape[-1]).to(s)
    factor = torch.linalg.cholesky(scaled)
    inverse = torch.cholesky_inverse(factor)
    cross = s * problem.cross[..., None, :]
    solved = (inverse @ cross[..., None]).squeeze(-1)
    log_det = factor.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
    log_evidence = problem.constant[..., None] + 0.5 * (cross * solved).sum(dim=-1) - log_det
    return log_evidence, s * solved, s.square() * inverse.diagonal(dim1=-2, dim2=-1)


def enumerate_models(problem: SpikeSlabRegression) -> Enumeration:
    """The exact posterior, equations (fnd-model-posterior) and (fnd-inclusion), at the cost of 2^p small systems.

    Raises:
        ValueError: there are more than 12 inputs.
    """
    p = problem.cross.shape[-1]
    models = all_models(p).to(problem.gram.device)
    log_evidence, mean, variance = _given(problem, models)
    size = models.sum(dim=1).to(log_evidence)
    log_prior = size * math.log(problem.inclusion) + (p - size) * math.log1p(-problem.inclusion)
    log_joint = log_evidence + log_prior
    probabilities = log_joint.softmax(dim=-1)
    inclusion = probabilities @ models.to(probabilities)
    average = (probabilities[..., None] * mean).sum(dim=-2)
    second = (probabilities[..., None] * (variance + mean.square())).sum(dim=-2)
    scale = (second - average.square()).clamp_min(0.0).sqrt()
    return Enumeration(models, probabilities, inclusion, average, scale, log_joint.logsumexp(dim=-1))
