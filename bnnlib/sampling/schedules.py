"""Schedules of steps, temperatures and stochastic-approximation weights: functions of the step number k = 1, 2, ..."""

from collections.abc import Callable

from bnnlib._checks import check_non_negative, check_positive

Schedule = Callable[[int], float]


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
