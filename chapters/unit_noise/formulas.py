"""What the lesson needs of the truncated log-uniform prior and the log-normal posterior beyond the library."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bnnlib._checks import check_count
from bnnlib.functional import truncated_normal as tn
from bnnlib.functional.truncated_log_normal import LOWER, UPPER, _checked, _interval, _moment, _standard


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


def truncated_log_normal_log_density(
    theta: Tensor, mean: Tensor, scale: Tensor, lower: float = LOWER, upper: float = UPPER
) -> Tensor:
    """Log of the density of theta, equation (sbp-log-normal); -inf outside [exp(lower), exp(upper)].

    Args:
        theta: positive, broadcasts with the others.
        mean, scale, lower, upper: as for `truncated_log_normal_kl`.

    Raises:
        ValueError: as `truncated_log_normal_kl`.

    Example:
        >>> truncated_log_normal_log_density(torch.tensor([0.5, 2.0]), torch.zeros(2), torch.ones(2))
        tensor([0.2271,   -inf])
    """
    wide_mean, wide_scale = _checked(mean, scale, lower, upper)
    log_theta = theta.double().log()
    x, w, end = _standard(wide_mean, wide_scale, lower, upper)
    log_z = tn.hazards(x, w, end)[3].log()
    y = (upper - log_theta) / wide_scale
    # v^2 - x^2 = y (y + 2 x): the squares cancel where Z was divided by phi(x)
    exponent = torch.where(x > 0.0, -0.5 * y * (y + 2.0 * x), -0.5 * (x + y).square() - tn.LOG_ROOT_TWO_PI)
    value = exponent - log_z - wide_scale.log() - log_theta
    inside = (log_theta >= lower) & (log_theta <= upper)
    return torch.where(inside, value, -math.inf).to(mean.dtype)


def truncated_log_normal_second_moment(
    mean: Tensor, scale: Tensor, lower: float = LOWER, upper: float = UPPER
) -> Tensor:
    """E theta^2, equation (sbp-second-moment): exp(2 m + 2 s^2) [Phi(2 s - alpha) - Phi(2 s - beta)] / Z, stable.

    Args, Raises: as for `truncated_log_normal_kl`.

    Returns:
        Tensor in the arguments' shape.

    Example:
        >>> truncated_log_normal_second_moment(torch.tensor([-2.0]), torch.tensor([0.01]))  # near exp(-4)
        tensor([0.0183])
    """
    return _moment(*_checked(mean, scale, lower, upper), 2, lower, upper).to(mean.dtype)
