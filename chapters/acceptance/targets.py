"""The targets of the chapter: densities of points (count, dim), in nats, that a whole batch of chains asks at once."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib import datasets

LogProb = Callable[[Tensor], Tensor]
MODES, RADIUS, SCALE = 6, 5.0, 0.5  # of the ring of Gaussians, as in the code of A-NICE-MC


def mode_centers() -> Tensor:
    """Centers of the six Gaussians on a circle of radius 5, shape (6, 2)."""
    angle = torch.arange(MODES) * (2.0 * math.pi / MODES)
    return RADIUS * torch.stack([angle.cos(), angle.sin()], dim=1)


def six_gaussians(point: Tensor) -> Tensor:
    """Normalized log density of the mixture with equal weights and sd 0.5, equation (mh-six), shape (count,)."""
    centers = mode_centers().to(point)
    exponent = -0.5 * (point[:, None] - centers).square().sum(dim=-1) / SCALE**2
    return exponent.logsumexp(dim=1) - math.log(MODES * 2.0 * math.pi * SCALE**2)


def draw_six_gaussians(count: int, generator: torch.Generator | None = None) -> Tensor:
    """Exact points of the mixture, shape (count, 2)."""
    centers = mode_centers()
    component = torch.randint(MODES, (count,), generator=generator)
    return centers[component] + SCALE * torch.randn(count, 2, generator=generator)


def nearest_mode(point: Tensor) -> Tensor:
    """Which of the six centers is nearest, shape (count,)."""
    return (point[:, None] - mode_centers().to(point)).square().sum(dim=-1).argmin(dim=1)


def logistic_posterior(x: Tensor, y: Tensor) -> LogProb:
    """Log posterior of logistic regression with prior N(0, I) on weights and bias, equation (mh-logistic).

    Args:
        x: standardized inputs (n, p).
        y: labels (n,) in {0, 1}.

    Returns:
        A function of points (count, p + 1), the bias last.
    """
    rows = torch.cat([x, torch.ones(len(x), 1).to(x)], dim=1)
    # log sigmoid(z) where the label is 1 and log sigmoid(-z) where it is 0
    signed = rows * (2.0 * y.to(x) - 1.0)[:, None]

    def log_prob(point: Tensor) -> Tensor:
        return F.logsigmoid(point @ signed.T).sum(dim=1) - 0.5 * point.square().sum(dim=1)

    return log_prob


def standardized(name: str) -> tuple[Tensor, Tensor]:
    """Inputs with mean 0 and sd 1 over all rows, and labels, of a data set."""
    whole = datasets.load(name)
    x = whole.train_x.double()
    return (x - x.mean(dim=0)) / x.std(dim=0, correction=0), whole.train_y


def laplace(log_prob: LogProb, dim: int, steps: int = 50) -> tuple[Tensor, Tensor]:
    """Mode and inverse Hessian of a log-concave target, by Newton's method in float64; shapes (dim,), (dim, dim)."""
    point = torch.zeros(dim, dtype=torch.float64)

    def value(at: Tensor) -> Tensor:
        return -log_prob(at[None])[0]

    for _ in range(steps):
        step = torch.linalg.solve(torch.func.hessian(value)(point), torch.func.grad(value)(point))
        point = point - step
        if step.abs().max() < 1e-12:
            break
    return point, torch.linalg.inv(torch.func.hessian(value)(point))
