"""Bounds and estimates of the acceptance rate, which the lesson shows and the experiments report."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from bnnlib._checks import check_count, check_non_negative
from bnnlib.functional import acceptance_probability
from bnnlib.sampling.kernels import LogProb, check_log_density, weigh
from bnnlib.sampling.proposals import Proposal


def acceptance_lower_bound(divergence: float | Tensor) -> float | Tensor:
    """1 - sqrt(KL / 2), equation (mh-pinsker), (11) and (12): the least acceptance rate at this divergence in nats.

    Below 0, that is from 2 nats on, it says nothing.

    Raises:
        ValueError: the divergence is negative, infinite or NaN.

    Example:
        >>> acceptance_lower_bound(0.5)
        0.5
    """
    check_non_negative("divergence", divergence)
    root = torch.sqrt(divergence / 2) if isinstance(divergence, Tensor) else math.sqrt(divergence / 2)
    return 1.0 - root


class Estimate(NamedTuple):
    """A mean and its standard error.

    Example:
        >>> Estimate(mean=0.5, standard_error=0.01)
        Estimate(mean=0.5, standard_error=0.01)
    """

    mean: float
    standard_error: float


def mean_of(values: Tensor) -> Estimate:
    """Mean of independent values (count,) and its standard error; the error of one value is not known (NaN).

    Raises:
        ValueError: there are no values, or one is NaN.

    Example:
        >>> estimate = mean_of(torch.tensor([1.0, 2.0, 3.0, 2.0]))
        >>> estimate.mean, round(estimate.standard_error, 4)
        (2.0, 0.4082)
    """
    count = check_count("the number of values", values.numel())
    if values.isnan().any():
        raise ValueError(
            f"{int(values.isnan().sum())} of {count} values are NaN: a density was NaN, or -inf both at the point and "
            "at the proposed one. Outside of the support return -inf, and start from points inside of it."
        )
    values = values.double().flatten()
    return Estimate(values.mean().item(), values.std().item() / math.sqrt(count) if count > 1 else math.nan)


@torch.no_grad()
def acceptance_rate_of(
    log_prob: LogProb, proposal: Proposal, samples: Tensor, generator: torch.Generator | None = None
) -> Estimate:
    """E min{1, xi}, equation (mh-theorem), over x among `samples` and one x' ~ q(. | x) each.

    Args:
        log_prob: log density of the target.
        proposal: a `Proposal`.
        samples: independent points of the target, (count, ...). Those of a chain give the mean, but an error that is
            too small.

    Raises:
        ValueError: there are no samples, a shape does not fit, or a density is NaN.

    Example:
        >>> from bnnlib.sampling import RandomWalk
        >>> rate = acceptance_rate_of(lambda x: -x.square().sum(dim=-1) / 2, RandomWalk(0.1), torch.randn(1000, 1))
        >>> 0.9 < rate.mean < 1.0
        True
    """
    log_p = check_log_density("log_prob", log_prob(samples), samples)
    ratio = weigh(log_prob, proposal, samples, log_p, generator)[2]
    return mean_of(acceptance_probability(ratio))
