"""Densities that can be learned as independent proposals: Gaussians and a flow, with draws that carry gradients."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib._checks import check_count, check_covariance, check_positive
from bnnlib.functional import softplus_inverse

_MIN_SCALE = 1e-6


class Density(nn.Module):
    """Base: a module with ``rsample_with_log_prob`` and ``log_prob``, over points (count, dim).

    Args:
        dim: number of coordinates.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = check_count("dim", dim)

    def _normal(self, count: int, generator: torch.Generator | None) -> Tensor:
        like = next(self.parameters())
        return torch.randn(count, self.dim, generator=generator, device=like.device, dtype=like.dtype)

    def rsample_with_log_prob(self, count: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Points (count, dim) through which gradients flow, and their log densities (count,) in nats."""
        noise = self._normal(count, generator)
        point, log_det = self.push(noise)
        return point, standard_normal_log_prob(noise) - log_det

    def rsample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Points (count, dim) through which gradients flow."""
        return self.push(self._normal(count, generator))[0]

    def log_prob(self, point: Tensor) -> Tensor:
        """Log density, shape (count,), in nats.

        Raises:
            ValueError: the points are not (count, dim).
        """
        if point.dim() != 2 or point.shape[1] != self.dim:
            raise ValueError(f"points have shape {tuple(point.shape)}, but they must be (count, {self.dim}).")
        noise, log_det = self.pull(point)
        return standard_normal_log_prob(noise) - log_det

    def push(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Standard normal noise (count, dim) to points, and log |d point / d noise| (count,)."""
        raise NotImplementedError

    def pull(self, point: Tensor) -> tuple[Tensor, Tensor]:
        """The inverse of `push`: noise, and the log-determinant of `push` there."""
        raise NotImplementedError


def standard_normal_log_prob(point: Tensor) -> Tensor:
    """Log density of independent standard normals, summed over the last dimension."""
    return -0.5 * (point.square() + math.log(2.0 * math.pi)).sum(dim=-1)


class DiagonalGaussian(Density):
    """N(mean, diag(scale^2)), the proposal of mean-field variational inference.

    Args:
        dim: number of coordinates.
        scale: standard deviation to start from.

    Example:
        >>> density = DiagonalGaussian(2)
        >>> density.log_prob(density.rsample(5)).shape
        torch.Size([5])
    """

    def __init__(self, dim: int, scale: float = 1.0) -> None:
        super().__init__(dim)
        self.mean = nn.Parameter(torch.zeros(dim))
        self.rho = nn.Parameter(torch.full((dim,), float(softplus_inverse(scale))))

    @property
    def scale(self) -> Tensor:
        """Standard deviations, shape (dim,)."""
        return F.softplus(self.rho) + _MIN_SCALE

    def push(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        return self.mean + self.scale * noise, self.scale.log().sum().expand(len(noise))

    def pull(self, point: Tensor) -> tuple[Tensor, Tensor]:
        return (point - self.mean) / self.scale, self.scale.log().sum().expand(len(point))


class FullGaussian(Density):
    """N(mean, L L^T) with a lower triangular L, its diagonal through softplus.

    Args:
        dim, scale: see `DiagonalGaussian`.

    Example:
        >>> factor = FullGaussian(2).match(torch.zeros(2), torch.tensor([[1.0, 0.5], [0.5, 1.0]])).factor
        >>> [[round(value, 3) for value in row] for row in (factor @ factor.T).tolist()]
        [[1.0, 0.5], [0.5, 1.0]]
    """

    def __init__(self, dim: int, scale: float = 1.0) -> None:
        super().__init__(dim)
        self.mean = nn.Parameter(torch.zeros(dim))
        self.rho = nn.Parameter(torch.full((dim,), float(softplus_inverse(scale))))
        self.below = nn.Parameter(torch.zeros(dim, dim))

    @property
    def factor(self) -> Tensor:
        """L, shape (dim, dim)."""
        return self.below.tril(-1) + torch.diag(F.softplus(self.rho) + _MIN_SCALE)

    @torch.no_grad()
    def match(self, mean: Tensor, covariance: Tensor) -> FullGaussian:
        """Take this mean (dim,) and covariance (dim, dim) over, for example those of a Laplace approximation.

        Raises:
            ValueError: a shape does not fit, or the covariance is not symmetric and positive definite.
        """
        if mean.shape != (self.dim,) or covariance.shape != (self.dim, self.dim):
            raise ValueError(
                f"mean and covariance have shapes {tuple(mean.shape)} and {tuple(covariance.shape)}, but they must be "
                f"({self.dim},) and ({self.dim}, {self.dim})."
            )
        check_covariance(covariance)
        factor = torch.linalg.cholesky(covariance)
        self.mean.copy_(mean)
        self.below.copy_(factor.tril(-1))
        self.rho.copy_(softplus_inverse((factor.diagonal() - _MIN_SCALE).clamp_min(_MIN_SCALE)))
        return self

    def push(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        factor = self.factor
        return self.mean + noise @ factor.T, factor.diagonal().log().sum().expand(len(noise))

    def pull(self, point: Tensor) -> tuple[Tensor, Tensor]:
        factor = self.factor
        noise = torch.linalg.solve_triangular(factor, (point - self.mean).T, upper=False).T
        return noise, factor.diagonal().log().sum().expand(len(point))


class RealNVP(Density):
    """Affine coupling layers (Dinh et al., 2017), then mean + L x: begins as the Gaussian N(0, scale^2 I).

    Each layer moves half of the coordinates by a shift and a log scale that a network reads off the other half; the
    halves change in turn. The log scale is kept within +-`bound`.

    Args:
        dim: number of coordinates, at least 2.
        num_layers: coupling layers.
        hidden: units in the two hidden layers of each network.
        scale: standard deviation to start from.
        bound: of a layer's log scale.

    Example:
        >>> density = RealNVP(2, num_layers=4)
        >>> point, log_prob = density.rsample_with_log_prob(5)
        >>> bool(torch.allclose(density.log_prob(point), log_prob, atol=1e-4))
        True
    """

    masks: Tensor

    def __init__(self, dim: int, num_layers: int = 8, hidden: int = 64, scale: float = 1.0, bound: float = 2.0) -> None:
        check_count("dim", dim, 2)
        super().__init__(dim)
        self.bound = check_positive("bound", bound)
        self.base = FullGaussian(dim, scale)
        masks = (torch.arange(dim) + torch.arange(check_count("num_layers", num_layers))[:, None]) % 2
        self.register_buffer("masks", masks.float())
        self.networks = nn.ModuleList(_coupling(dim, hidden) for _ in range(num_layers))

    def _shift_and_scale(self, layer: int, point: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mask = self.masks[layer]
        shift, log_scale = self.networks[layer](point * mask).chunk(2, dim=-1)
        return mask, shift * (1 - mask), self.bound * torch.tanh(log_scale / self.bound) * (1 - mask)

    def push(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        point, total = noise, noise.new_zeros(len(noise))
        for layer in range(len(self.networks)):
            _, shift, log_scale = self._shift_and_scale(layer, point)
            point = point * log_scale.exp() + shift
            total = total + log_scale.sum(dim=-1)
        point, log_det = self.base.push(point)
        return point, total + log_det

    def pull(self, point: Tensor) -> tuple[Tensor, Tensor]:
        noise, total = self.base.pull(point)
        for layer in reversed(range(len(self.networks))):
            _, shift, log_scale = self._shift_and_scale(layer, noise)
            noise = (noise - shift) * (-log_scale).exp()
            total = total + log_scale.sum(dim=-1)
        return noise, total


def _coupling(dim: int, hidden: int) -> nn.Sequential:
    last = nn.Linear(check_count("hidden", hidden), 2 * dim)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), last)
