"""Standard errors and the intervals around them: by Student's t, since our replicates are few."""

import math
import statistics
from collections.abc import Iterable, Sequence
from functools import cache

from scipy.special import stdtr, stdtrit

from book.lab.known import cells_of, knowing

FEW = 3
"""Fewer replicates than this decide nothing."""
LEVEL = 0.95
"""Of the intervals that decide: by chance alone one in twenty excludes the truth."""


def quantile(df: float) -> float:
    """Student's t of so many degrees of freedom that `LEVEL` of its draws stay below in size; of a normal for inf."""
    return float(stdtrit(min(df, 1e9), 0.5 + LEVEL / 2.0))


def chance(away: float, error: float, df: float) -> float:
    """How often a mean of that standard error is so far from the truth, or farther, by chance alone; two-sided."""
    return float(2.0 * stdtr(min(df, 1e9), -away / error)) if error > 0.0 else 0.0


def holm(chances: Sequence[float], of: int) -> int:
    """How many of all tests hold together, by the `chances` of those decided alone; by Holm's correction."""
    limits = ((1.0 - LEVEL) / (of - k) for k in range(len(chances)))
    below = [one <= limit for one, limit in zip(sorted(chances), limits, strict=True)]
    return [*below, False].index(False)


def welch(parts: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """The combined standard error of independent ones, and its degrees of freedom by Welch; inf where exact."""
    some = [(error**2, df) for error, df in parts if error > 0.0]
    total = sum(square for square, _ in some)
    spread = sum(square**2 / df for square, df in some)
    return math.sqrt(total), total**2 / spread if spread else math.inf


def spread(numbers: Sequence[float], overlap: float = 0.0) -> float | None:
    """Standard error of the mean; None of a single number, or of numbers that are not finite.

    Random splits of the same rows share training rows, and their results are correlated: with the ratio ``overlap`` of
    test rows to training rows the variance of the mean is ``(1/n + overlap) sd^2`` (Nadeau and Bengio, 2003).
    """
    n = len(numbers)
    if n < 2 or not all(map(math.isfinite, numbers)):
        return None
    return deviation(tuple(numbers)) * math.sqrt(1.0 / n + overlap)


@cache
def deviation(numbers: tuple[float, ...]) -> float:
    """Standard deviation of a sample, without rounding on the way, which takes long."""
    return statistics.stdev(numbers)


def half(error: float, n: int) -> float:
    """Half of the interval of `LEVEL` around a mean with that standard error over so many; NaN below two."""
    return quantile(n - 1) * error if n > 1 else math.nan


def decided(mean: float, error: float, n: int) -> bool:
    """Whether a mean with that standard error differs from zero: of three replicates or more, beyond t errors."""
    return bool(n >= FEW and math.isfinite(error) and abs(mean) > half(error, n))


def side(mean: float, error: float, n: int) -> int:
    """On which side of zero such a mean is decided to be: 1 above, -1 below, 0 where it is not."""
    return (1 if mean > 0.0 else -1) if decided(mean, error, n) else 0


def shows(gap: tuple[float, float, int], sign: int) -> bool:
    """Whether a difference (mean, error, pairs) has that sign, 0 for undecided; True where nothing is stored."""
    return not gap[2] or side(*gap) == sign


def estimate(numbers: Sequence[float], overlap: float = 0.0) -> tuple[float, float, int]:
    """(mean, standard error, how many) of numbers, as `decided` and `side` take them; NaN for what they do not have.

    Args:
        numbers: one of each replicate, such as the differences of pairs; what they know of their cells the mean knows.
        overlap: as of `spread`.
    """
    own, cells = [float(one) for one in numbers], cells_of(numbers)
    error = spread(own, overlap)
    mean = math.fsum(own) / len(own) if own else math.nan
    return knowing(mean, cells) if cells else mean, (math.nan if error is None else error), len(own)
