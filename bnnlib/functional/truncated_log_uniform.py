"""The truncated log-uniform distribution, prior of the noise in Structured Bayesian Pruning."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bnnlib._checks import check_count
from bnnlib.functional.truncated_log_normal import LOWER, UPPER, _interval


def truncated_log_uniform_log_density(theta: Tensor, lower: float = LOWER, upper: float = UPPER) -> Tensor:
    """Log of the density 1 / (theta (upper - lower)), equation (sbp-log-uniform); -inf outside the interval.

    Args:
        theta: positive.
        lower, upper: bounds of log theta.

    Raises:
        ValueError: the interval is shorter than 1 or not finite.

    Example:
        >>> truncated_log_uniform_log_density(torch.tensor([1.0, 2.0]))
        tensor([-2.9957,    -inf])
    """
    _interval(lower, upper)
    log_theta = theta.log()
    inside = (log_theta >= lower) & (log_theta <= upper)
    return torch.where(inside, -log_theta - math.log(upper - lower), -math.inf)


def truncated_log_uniform_moment(order: int = 1, lower: float = LOWER, upper: float = UPPER) -> float:
    """E theta^k = (exp(k upper) - exp(k lower)) / (k (upper - lower)), equation (sbp-limit).

    Raises:
        ValueError: the order is not a positive integer, or the interval is shorter than 1 or not finite.

    Example:
        >>> round(truncated_log_uniform_moment(1), 6), round(truncated_log_uniform_moment(2), 6)
        (0.05, 0.025)
    """
    check_count("order", order)
    _interval(lower, upper)
    return (math.exp(order * upper) - math.exp(order * lower)) / (order * (upper - lower))


def truncated_log_uniform_snr(lower: float = LOWER, upper: float = UPPER) -> float:
    """Signal-to-noise ratio of the prior, equation (sbp-limit): 1/3 on [-20, 0] to nine digits.

    Raises:
        ValueError: the interval is shorter than 1 or not finite.

    Example:
        >>> round(truncated_log_uniform_snr(), 6)
        0.333333
    """
    first = truncated_log_uniform_moment(1, lower, upper)
    return first / math.sqrt(truncated_log_uniform_moment(2, lower, upper) - first**2)
