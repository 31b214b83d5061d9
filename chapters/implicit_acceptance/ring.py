"""The toy: six Gaussians on a ring, a flow that draws them imperfectly, and every law as masses on a grid of cells.

The algorithms see draws alone. The flow's density, which a usual generator does not have, serves to say what is true.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from bnnlib.sampling.densities import RealNVP

NUM_MODES = 6
RADIUS, SCALE = 5.0, 0.5
REACH, CELLS = 8.0, 40  # the grid: CELLS x CELLS squares on [-REACH, REACH]^2
_WITHIN = 4  # points in a cell along each side


def means() -> Tensor:
    """Centers of the six Gaussians, shape (6, 2)."""
    angles = torch.arange(NUM_MODES, dtype=torch.float64) * math.pi / 3
    return RADIUS * torch.stack([angles.cos(), angles.sin()], dim=1)


def draw_ring(count: int, generator: torch.Generator, modes: Sequence[int] = range(NUM_MODES)) -> Tensor:
    """Points of the Gaussians `modes`, all equally likely, shape (count, 2), float32."""
    which = torch.tensor(list(modes))[torch.randint(len(modes), (count,), generator=generator)]
    return means().float()[which] + SCALE * torch.randn(count, 2, generator=generator)


def ring_log_density(points: Tensor) -> Tensor:
    """log p of all six Gaussians, shape (count,), in nats."""
    squares = (points.double()[:, None] - means()).square().sum(-1) / SCALE**2
    return torch.logsumexp(-0.5 * squares, dim=1) - math.log(2 * math.pi * SCALE**2 * NUM_MODES)


def grid_points(within: int = _WITHIN) -> Tensor:
    """Midpoints of within x within squares of each cell, (CELLS^2, within^2, 2); cells row by row from below."""
    side = (torch.arange(CELLS * within, dtype=torch.float64) + 0.5) / (CELLS * within)
    y, x = torch.meshgrid(2 * REACH * side - REACH, 2 * REACH * side - REACH, indexing="ij")
    points = torch.stack([x, y], dim=-1).view(CELLS, within, CELLS, within, 2)
    return points.transpose(1, 2).reshape(CELLS**2, within**2, 2)


@torch.no_grad()
def cell_masses(log_density: Callable[[Tensor], Tensor]) -> Tensor:
    """Masses of the cells, shape (CELLS^2,), with sum 1; the log density may lack its constant."""
    points = grid_points()
    values = log_density(points.flatten(0, 1).float()).double().view(len(points), -1)
    return torch.softmax(torch.logsumexp(values, dim=1), dim=0)


def cell_shares(points: Tensor) -> Tensor:
    """Share of the points in each cell, shape (CELLS^2,); a point beyond the grid counts in its nearest cell."""
    place = ((points.reshape(-1, 2) + REACH) / (2 * REACH / CELLS)).long().clamp(0, CELLS - 1)
    return torch.bincount(place[:, 1] * CELLS + place[:, 0], minlength=CELLS**2).double() / len(place)


def modes_found(points: Tensor) -> int:
    """How many of the six hold at least half of their share of the points within three standard deviations."""
    near = (points.reshape(-1, 1, 2).double() - means()).norm(dim=-1) < 3 * SCALE
    return int((near.double().mean(0) >= 0.5 / NUM_MODES).sum())


def fit_flow(samples: Tensor, steps: int, generator: torch.Generator, batch_size: int = 256) -> RealNVP:
    """A flow fitted by maximum likelihood: the generator, whose latents are two normal numbers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
        flow = RealNVP(2, num_layers=6, hidden=32, scale=3.0)
    optimizer = torch.optim.Adam(flow.parameters(), lr=3e-3)
    for _ in range(steps):
        rows = torch.randint(len(samples), (batch_size,), generator=generator)
        loss = -flow.log_prob(samples[rows]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return flow.requires_grad_(False).eval()


def score_network(generator: torch.Generator, width: int = 64) -> nn.Sequential:
    """A network from points (n, 2) to numbers (n,)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
        return nn.Sequential(
            nn.Linear(2, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1), nn.Flatten(0)
        )
