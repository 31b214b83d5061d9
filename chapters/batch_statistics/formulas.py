"""What the lesson computes beside the library: the moments of a sample of statistics, and entropies' distribution."""

import torch
from torch import Tensor

from bnnlib.functional import StatisticMoments
from bnnlib.metrics._arguments import check_finite
from bnnlib.metrics.uncertainty import _check_vector


def matched_moments(means: Tensor, log_scales: Tensor, *, unbiased: bool = True) -> StatisticMoments:
    """The r(mu) r(sigma) closest to a sample of statistics, equation (sbn-moments): the minimum of (sbn-kl).

    Args:
        means, log_scales: mu(B) and log sigma(B) of batches, shape (batches, ...).
        unbiased: divide the sums of squares by batches - 1, the estimate for the distribution that the batches are
            drawn from; False divides by their number, the exact minimum for this sample.

    Raises:
        ValueError: shapes differ or there are fewer than two batches.

    Example:
        >>> moments = matched_moments(torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0], [1.0]]), unbiased=False)
        >>> moments.mean, moments.mean_spread
        (tensor([1.]), tensor([1.]))
    """
    if means.shape != log_scales.shape or means.dim() == 0 or len(means) < 2:
        raise ValueError(
            f"means have shape {tuple(means.shape)} and log_scales {tuple(log_scales.shape)}, but both must be "
            "(batches, ...) with at least two batches: the spread of one is not defined."
        )
    (mean_variance, mean), (log_variance, log_scale) = (
        torch.var_mean(values, dim=0, correction=int(unbiased)) for values in (means, log_scales)
    )
    return StatisticMoments(mean, mean_variance.sqrt(), log_scale, log_variance.sqrt())


def entropy_cdf(entropy: Tensor, grid: Tensor) -> Tensor:
    """Empirical distribution function on a grid: the share of values at or below each point (Figure 1 of the paper).

    Args:
        entropy: values in any order, shape (n,), such as those of `predictive_entropy` on unknown classes.
        grid: points in any order, shape (k,), in the same units.

    Returns:
        Shape (k,), float64: shares from 0 to 1, not in percent, as it is a probability that is plotted. On unknown
        classes lower is better.

    Raises:
        ValueError: one of the two is not a vector, is empty, or has NaN or infinite entries.

    Example:
        >>> entropy_cdf(torch.tensor([0.1, 0.5, 0.9]), torch.tensor([0.0, 0.5, 1.0]))
        tensor([0.0000, 0.6667, 1.0000], dtype=torch.float64)
    """
    for name, value in (("entropy", entropy), ("grid", grid)):
        _check_vector(name, value)
        check_finite(name, value)
    ordered = entropy.double().sort().values
    return torch.searchsorted(ordered, grid.double(), right=True).double() / len(entropy)
