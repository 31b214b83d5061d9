"""Schedules of steps, temperatures and stochastic-approximation weights: functions of the step number k = 1, 2, ..."""

from __future__ import annotations

import math
from collections.abc import Callable

from bnnlib._checks import check_count, check_non_negative, check_positive

Schedule = Callable[[int], float]


class constant:
    """The same value at every step.

    Raises:
        ValueError: the value is negative or not finite.

    Example:
        >>> constant(0.1)(7)
        0.1
    """

    def __init__(self, value: float) -> None:
        self.value = float(check_non_negative("value", value))

    def __call__(self, step: int) -> float:
        return self.value


class polynomial:
    """min(ceiling, scale / (offset + k)^exponent), equation (aeb-step-sizes), section 4 of Deng et al. (2019).

    As the weights w_k of a stochastic approximation they satisfy sum w_k = inf and sum w_k^2 < inf for exponents in
    (1/2, 1]; `polynomial(10, 1000, 0.7)` is the paper's choice in regression, `polynomial(1, 1000, 0.75)` on MNIST.

    Args:
        scale, offset, exponent: not negative, scale positive.
        ceiling: largest value, 1 for weights of an average.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> [polynomial(1.0, 0.0, 1.0)(k) for k in (1, 2, 4)]
        [1.0, 0.5, 0.25]
    """

    def __init__(self, scale: float, offset: float, exponent: float, ceiling: float = 1.0) -> None:
        self.scale, self.ceiling = check_positive("scale", scale), check_positive("ceiling", ceiling)
        self.offset, self.exponent = check_non_negative("offset", offset), check_non_negative("exponent", exponent)

    def __call__(self, step: int) -> float:
        return min(self.ceiling, self.scale * (self.offset + step) ** -self.exponent)


class cyclical:
    """Step size that falls from `initial` to 0 along half a cosine, `cycles` times over `steps` (aeb-cyclical).

    Zhang, Li, Zhang, Chen and Wilson (2020): large steps find a new mode, small ones sample it. `exploring(k)` is true
    in the first part of a cycle, where no draw should be kept.

    Args:
        initial: first step size of each cycle.
        steps: total number of steps.
        cycles: number of cycles, at most `steps`.
        exploration: share of a cycle, from 0 to 1, that only explores.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> steps = cyclical(0.1, steps=100, cycles=2)
        >>> steps(1) == steps(51), steps(50) < 0.001
        (True, True)
    """

    def __init__(self, initial: float, steps: int, cycles: int, exploration: float = 0.8) -> None:
        self.initial = check_positive("initial", initial)
        self.steps, self.cycles = check_count("steps", steps), check_count("cycles", cycles)
        self.exploration = check_non_negative("exploration", exploration)
        if cycles > steps or exploration > 1.0:
            raise ValueError(
                f"there are {cycles} cycles in {steps} steps and exploration is {exploration:g}, but a cycle needs at "
                "least one step and exploration is a share from 0 to 1. Use fewer cycles or more steps."
            )

    def _position(self, step: int) -> float:
        length = -(-self.steps // self.cycles)
        return ((step - 1) % length) / length

    def __call__(self, step: int) -> float:
        return 0.5 * self.initial * (1.0 + math.cos(math.pi * self._position(step)))

    def exploring(self, step: int) -> bool:
        """True while the cycle of this step still explores."""
        return self._position(step) < self.exploration
