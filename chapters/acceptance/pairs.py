"""The worked example in numbers: two densities on a line, their acceptance rate, and how far apart they are."""

from functools import cache

import numpy as np
from scipy import stats

GRID = np.linspace(-14.0, 14.0, 1401)
SHAPES = ("normal", "Student t")
_DEGREES = 3  # of freedom


def _family(shape: str):
    """The law of width one around zero, as scipy has it."""
    return stats.norm() if shape == "normal" else stats.t(_DEGREES)


def density(distance: float, width: float, shape: str) -> np.ndarray:
    """Density on `GRID` with center `distance` and scale `width`, "normal" or "Student t" with 3 degrees of freedom."""
    return _family(shape).pdf((GRID - distance) / width) / width


@cache
def target() -> np.ndarray:
    """The standard normal on `GRID`."""
    return density(0.0, 1.0, "normal")


def acceptance_rate(p: np.ndarray, q: np.ndarray, step: float = GRID[1] - GRID[0]) -> float:
    """Double integral of min{p(x) q(x'), p(x') q(x)}, equation (mh-theorem), on the line.

    Ordered by p / q, the smaller of the two products is known, so that one sum over the order is enough.

    Args:
        p, q: densities on one grid, or probabilities with `step` 1.
    """
    order = np.argsort(np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(q, 1e-300)), kind="stable")
    p, q = p[order] * step, q[order] * step
    below = np.cumsum(p) - p
    return float((q * (2.0 * below + p)).sum())


def symmetric_kl(distance: float, width: float, shape: str) -> float:
    """KL(q || p) + KL(p || q) in nats, p the standard normal, q this proposal with its tails beyond the grid."""
    family = _family(shape)
    square = distance**2 + width**2 * family.var()  # of x under q
    onto = -family.entropy() - np.log(width) + 0.5 * np.log(2.0 * np.pi) + 0.5 * square
    # p has no mass beyond the grid, where it is below 1e-42
    back = (target() * log_weight(GRID, distance, width, shape)).sum() * (GRID[1] - GRID[0])
    return float(onto + back)


@cache
def measures(distance: float, width: float, shape: str) -> dict[str, float]:
    """{"rate", "overlap" (1 - TV), "kl" (symmetric), "bound"} of the standard normal and this proposal."""
    p, q = target(), density(distance, width, shape)
    shared = np.minimum(p, q).sum() * (GRID[1] - GRID[0])  # beyond the grid p, and so the smaller one, is nothing
    both = max(0.0, symmetric_kl(distance, width, shape))  # where the two are one, rounding may say -1e-16
    return {
        "rate": acceptance_rate(p, q),
        "overlap": float(shared),
        "kl": both,
        "bound": 1.0 - np.sqrt(both / 2.0),
    }


def log_weight(x: np.ndarray, distance: float, width: float, shape: str) -> np.ndarray:
    """log w = log p - log q at any points, in nats."""
    return stats.norm.logpdf(x) - _family(shape).logpdf((x - distance) / width) + np.log(width)


@cache
def chain(distance: float, width: float, shape: str, steps: int, start: float = 2.0) -> np.ndarray:
    """Positions of a chain with this proposal, the same random numbers at every setting."""
    generator = np.random.default_rng(1)
    uniform, coin = generator.random(steps), generator.random(steps)
    proposed = distance + width * _family(shape).ppf(uniform)

    points = np.append(proposed, start)
    weight = log_weight(points, distance, width, shape)
    at, path = steps, []  # the start is the last of the points
    for offered, height in enumerate(np.log(coin)):
        if height < weight[offered] - weight[at]:
            at = offered
        path.append(at)
    return points[path]
