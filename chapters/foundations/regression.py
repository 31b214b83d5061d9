"""Bayesian linear regression with known noise: posterior, prediction and evidence in closed form.

y = X w + noise, the noise N(0, noise_scale^2), the weights N(0, prior_scale^2) each. All that the chapter says of a
method is measured against these.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from bnnlib._checks import check_scale


class Gaussian(NamedTuple):
    """A Gaussian law of weights: mean (..., p) and covariance (..., p, p)."""

    mean: Tensor
    covariance: Tensor

    @property
    def scale(self) -> Tensor:
        """Standard deviation of each weight, shape (..., p)."""
        return self.covariance.diagonal(dim1=-2, dim2=-1).sqrt()


class Band(NamedTuple):
    """A Gaussian law of numbers: mean and standard deviation, of one shape."""

    mean: Tensor
    scale: Tensor


def linear_posterior(x: Tensor, y: Tensor, noise_scale: float = 1.0, prior_scale: float = 1.0) -> Gaussian:
    """Exact posterior N(m, S) of the weights, equation (fnd-posterior).

    S = (X'X / noise_scale^2 + I / prior_scale^2)^-1 and m = S X'y / noise_scale^2.

    Args:
        x: inputs (..., n, p).
        y: targets (..., n).
        noise_scale, prior_scale: known standard deviations of noise and weights.

    Raises:
        ValueError: a scale is not positive, or the shapes do not fit.
    """
    _check(x, y, noise_scale, prior_scale)
    precision = x.mT @ x / noise_scale**2 + torch.eye(x.shape[-1]).to(x) / prior_scale**2
    covariance = torch.cholesky_inverse(torch.linalg.cholesky(precision))
    return Gaussian((covariance @ (x.mT @ y[..., None])).squeeze(-1) / noise_scale**2, covariance)


def linear_predictive(posterior: Gaussian, x: Tensor, noise_scale: float = 0.0) -> Band:
    """Law of x'w + noise at new inputs, equation (fnd-predictive).

    Args:
        posterior: any Gaussian law of the weights.
        x: new inputs (..., n, p).
        noise_scale: 0 gives the law of the regression line alone: the epistemic part.

    Returns:
        Mean and sd, each (..., n).
    """
    mean = (x @ posterior.mean[..., None]).squeeze(-1)
    variance = ((x @ posterior.covariance) * x).sum(dim=-1) + noise_scale**2
    return Band(mean, variance.sqrt())


def linear_log_evidence(x: Tensor, y: Tensor, noise_scale: float = 1.0, prior_scale: float = 1.0) -> Tensor:
    """log N(y; 0, noise_scale^2 I + prior_scale^2 X X'), equation (fnd-evidence), in nats; shape (...).

    Arguments and errors as for `linear_posterior`. It costs a (p, p) factorization and no (n, n) one.
    """
    _check(x, y, noise_scale, prior_scale)
    gain = (prior_scale / noise_scale) ** 2
    factor = torch.linalg.cholesky(gain * (x.mT @ x) + torch.eye(x.shape[-1]).to(x))
    explained = torch.linalg.solve_triangular(factor, x.mT @ y[..., None], upper=False).square().sum(dim=(-2, -1))
    log_det = 2.0 * factor.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
    misfit = (y.square().sum(dim=-1) - gain * explained) / noise_scale**2
    return -0.5 * (misfit + log_det + y.shape[-1] * math.log(2.0 * math.pi * noise_scale**2))


def mean_field_gaussian(posterior: Gaussian) -> Gaussian:
    """The independent Gaussian nearest in KL(q || posterior), equation (fnd-mean-field).

    Its mean is exact; its variances are the reciprocals of the precision's diagonal, which is each weight's variance
    with all others held fixed.
    """
    precision = torch.linalg.inv(posterior.covariance).diagonal(dim1=-2, dim2=-1)
    return Gaussian(posterior.mean, torch.diag_embed(precision.reciprocal()))


def correlated_inputs(
    shape: tuple[int, ...], correlation: float, generator: torch.Generator | None = None, *, orthogonal: bool = False
) -> Tensor:
    """Inputs (..., n, p), float64, of which each pair has the same correlation; every column has mean square 1.

    Args:
        shape: (..., n, p).
        correlation: of each pair in the population, in [0, 1).
        orthogonal: make the columns of the sample exactly orthogonal; then n >= p, and the correlation must be 0.

    Raises:
        ValueError: the correlation is out of its range.
    """
    if not 0.0 <= correlation < 1.0 or (orthogonal and correlation):
        raise ValueError(f"correlation is {correlation:g}, but it must be in [0, 1), and 0 for an orthogonal design.")
    own = torch.randn(shape, generator=generator, dtype=torch.float64)
    if orthogonal:
        return torch.linalg.qr(own).Q * math.sqrt(shape[-2])
    common = torch.randn((*shape[:-1], 1), generator=generator, dtype=torch.float64)
    x = math.sqrt(1.0 - correlation) * own + math.sqrt(correlation) * common
    return x / x.square().mean(dim=-2, keepdim=True).sqrt()


def _check(x: Tensor, y: Tensor, noise_scale: float, prior_scale: float) -> None:
    check_scale("noise_scale", noise_scale)
    check_scale("prior_scale", prior_scale)
    if x.dim() < 2 or x.shape[:-1] != y.shape:
        raise ValueError(
            f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}, but they must be (..., n, p), (..., n)."
        )
