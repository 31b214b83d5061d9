"""Statistics of mini-batches as random variables: their moments, the factorised approximation, and normalization.

Stochastic Batch Normalization (papers/004, section 1.2; Atanov et al., 2019). Everywhere sigma is what the input is
divided by, sqrt(var(B) + eps) with the variance that batch norm uses in training, the one divided by the number of
values: it is never 0, so its logarithm always exists.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from bnnlib._checks import check_count, check_non_negative


class StatisticMoments(NamedTuple):
    """Parameters of r(mu) r(sigma), equation (sbn-factorized), (8) of the paper, one value a feature.

    Example:
        >>> moments = StatisticMoments(*torch.zeros(4, 3))
        >>> moments.mean.shape
        torch.Size([3])
    """

    mean: Tensor  # m_mu, in units of the input
    mean_spread: Tensor  # s_mu, likewise
    log_scale: Tensor  # m_sigma, mean of log sigma
    log_scale_spread: Tensor  # s_sigma, standard deviation of log sigma


def batch_norm(
    x: Tensor, mean: Tensor, scale: Tensor, weight: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    """(x - mean) / scale * weight + bias, equation (sbn-bn), (5) of the paper.

    Args:
        x: shape (n, C, ...).
        mean, scale: statistics, shape (C,) for all rows or (n, C) for each row its own; scale is sqrt(var + eps).
        weight, bias: gamma and beta, shape (C,); None is 1 and 0.

    Returns:
        Tensor (n, C, ...), in the type of x.

    Example:
        >>> x = torch.tensor([[1.0], [3.0]])
        >>> batch_norm(x, mean=torch.tensor([2.0]), scale=torch.tensor([1.0]))
        tensor([[-1.],
                [ 1.]])
    """
    gain = scale.reciprocal() if weight is None else weight / scale
    shift = -mean * gain if bias is None else bias - mean * gain
    shape = (*gain.shape, *(1,) * (x.dim() - 2))
    # in the type of the statistics: in bfloat16 the difference of a large shift and a large product has no digits left
    return torch.addcmul(shift.view(shape), x.to(gain.dtype), gain.view(shape)).to(x.dtype)


def batch_statistics(x: Tensor, eps: float = 1e-5) -> tuple[Tensor, Tensor]:
    """mu(B) and log sigma(B) of every feature over a batch, equation (sbn-likelihood), (6) of the paper.

    Args:
        x: shape (n, C, ...).
        eps: added to the variance, >= 0.

    Returns:
        Two tensors (C,).

    Raises:
        ValueError: eps is negative, or there is only one value a feature, which has no spread.

    Example:
        >>> mean, log_scale = batch_statistics(torch.tensor([[1.0], [3.0]]), eps=0.0)
        >>> mean, log_scale
        (tensor([2.]), tensor([0.]))
    """
    check_non_negative("eps", eps)
    check_values(x)
    variance, mean = torch.var_mean(x, dim=[0, *range(2, x.dim())], correction=0)
    return mean, 0.5 * torch.log(variance + eps)


def check_values(x: Tensor) -> int:
    """Number of values of a feature in a batch (n, C, ...): rows times positions."""
    values = x.numel() // max(x.shape[1], 1)
    if values < 2:
        raise ValueError(
            f"the batch has shape {tuple(x.shape)}: {values} value a feature, whose mean is itself and whose variance "
            "is 0, so batch statistics do not exist. Use at least two rows, or call model.eval()."
        )
    return values


def moment_weights(count: int, momentum: float | None = None) -> tuple[float, float, float]:
    """Weights with which the moments take in the `count`-th value, equation (sbn-welford).

    The mean is a weighted mean of all values so far, with weights that sum to 1 from the first value on; the variance
    is the unbiased one for these weights. That is the correction of the bias of smoothing that starts at 0.

    Args:
        count: of values, this one included, from 1.
        momentum: smoothing in (0, 1], the share of the newest value after many; None weighs all values equally.

    Returns:
        step, keep, add with mean <- mean + step * delta and variance <- keep * variance + add * delta^2, where delta
        is the value less the old mean.

    Raises:
        ValueError: count is below 1 or momentum outside (0, 1].

    Example:
        >>> moment_weights(1), moment_weights(2)
        ((1.0, 0.0, 0.0), (0.5, 0.0, 0.5))
    """
    check_count("count", count)
    if momentum is None:
        return (1.0, 0.0, 0.0) if count == 1 else (1.0 / count, (count - 2) / (count - 1), 1.0 / count)
    if not 0.0 < momentum <= 1.0:
        raise ValueError(f"momentum is {momentum!r}, but it must lie in (0, 1], or be None for equal weights.")
    if count == 1 or momentum == 1.0:  # nothing but the last value counts, and one value has no spread
        return 1.0, 0.0, 0.0
    rate = math.log1p(-momentum)
    step = momentum / -math.expm1(count * rate)
    # 1 - sum of squared weights, now and before; a geometric series each
    now, before = _effective(count, momentum, rate), _effective(count - 1, momentum, rate)
    return step, (1.0 - step) * before / now, (1.0 - step) * step / now


def _effective(count: int, momentum: float, rate: float) -> float:
    """1 - sum w_i^2 for w_i proportional to (1 - momentum)^(count - i): 2 r (1 - r^(t-1)) / ((1 + r) (1 - r^t))."""
    if count == 1:
        return 0.0
    keep = 1.0 - momentum
    return 2.0 * keep * math.expm1((count - 1) * rate) / ((1.0 + keep) * math.expm1(count * rate))


def welford_update_(mean: Tensor, variance: Tensor, value: Tensor, weights: tuple[float, float, float]) -> None:
    """Take a value into a running mean and variance in place, equation (sbn-welford).

    The variance is a sum of squares, so that it cannot become negative, as the difference E[m^2] - E[m]^2 can.

    Args:
        mean, variance: of one shape; changed.
        value: of that shape.
        weights: from `moment_weights`.

    Example:
        >>> mean, variance = torch.zeros(1), torch.zeros(1)
        >>> for count, value in enumerate([1.0, 3.0], start=1):
        ...     welford_update_(mean, variance, torch.tensor([value]), moment_weights(count))
        >>> mean, variance
        (tensor([2.]), tensor([2.]))
    """
    step, keep, add = weights
    delta = value - mean
    mean.lerp_(value, step)  # exactly the value at step 1, whatever stood there before
    variance.mul_(keep).addcmul_(delta, delta, value=add)


def sample_statistics(moments: StatisticMoments, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Draws of mu and sigma from r(mu) r(sigma), equation (sbn-factorized), (8) of the paper.

    Args:
        moments: of shape (C,).
        noise: standard normal draws, shape (2, C) or (2, n, C).

    Returns:
        mu and sigma, shape (C,) or (n, C); sigma > 0.

    Example:
        >>> moments = StatisticMoments(*torch.tensor([[0.0], [1.0], [0.0], [0.5]]))
        >>> mean, scale = sample_statistics(moments, torch.randn(2, 10, 1))
        >>> mean.shape, bool((scale > 0).all())
        (torch.Size([10, 1]), True)
    """
    mean = torch.addcmul(moments.mean, moments.mean_spread, noise[0])
    return mean, torch.addcmul(moments.log_scale, moments.log_scale_spread, noise[1]).exp_()
