"""The prior precision and the noise of the largest evidence, by the fixed points of MacKay (1992)."""

import math
from collections.abc import Callable

from torch import Tensor

_RANGE = (-30.0, 30.0)  # of the logarithm of a precision or a variance
_HALVINGS = 60
_ROUNDS = 200


def largest_evidence(
    values: Tensor, square: float, error: float, numbers: int, precision: float | None, variance: float | None
) -> tuple[float, float]:
    """Precision t of the prior and variance v of the noise where Laplace's evidence is largest; what is given stays.

    The data determine gamma = sum h / (h + v t) of the weights, for the eigenvalues h of the Gauss-Newton matrix for
    unit noise; at the optimum t |w|^2 = gamma and error / v = numbers - gamma, for a sum of squared errors of so many
    numbers. Either side minus the other falls, so that each has one solution.
    """

    def determined(v: float, t: float) -> float:
        return float((values / (values + v * t)).sum())

    t, v = precision or 1.0, variance or 1.0
    for _ in range(_ROUNDS):  # one after the other: each step raises the evidence
        before = t, v
        if precision is None:
            t = _root(lambda t, v=v: determined(v, t) - t * square)  # type: ignore[misc]
        if variance is None:
            v = _root(lambda v, t=t: error / v - numbers + determined(v, t))  # type: ignore[misc]
        if all(abs(old - new) <= 1e-10 * new for old, new in zip(before, (t, v), strict=True)):
            break
    return t, v


def _root(falling: Callable[[float], float]) -> float:
    low, high = _RANGE
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if falling(math.exp(middle)) > 0 else (low, middle)
    return math.exp(0.5 * (low + high))
