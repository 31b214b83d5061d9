"""What the chains' numbers are worth: acceptance rate and total variation with their standard errors."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from bnnlib._checks import check_count
from bnnlib.functional import acceptance_probability, log_acceptance_ratio
from bnnlib.mcmc.kernels import LogProb
from bnnlib.mcmc.proposals import Proposal


class Estimate(NamedTuple):
    """A mean and its standard error."""

    mean: float
    standard_error: float


def mean_of(values: Tensor) -> Estimate:
    """Mean of independent values (count,) and its standard error; the error of one value is not known (NaN)."""
    count = check_count("the number of values", values.numel())
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
    """
    proposed = proposal.draw(samples, generator)
    if not proposal.symmetric:
        forward, backward = proposal.log_density(proposed, samples), proposal.log_density(samples, proposed)
    else:
        forward = backward = samples.new_zeros(len(samples))
    ratio = log_acceptance_ratio(log_prob(samples), log_prob(proposed), forward, backward)
    return mean_of(acceptance_probability(ratio))


def total_variation_of(log_first: Tensor, log_second: Tensor) -> Estimate:
    """E max{0, 1 - second / first} over draws of the first, equation (mh-tv).

    Args:
        log_first, log_second: normalized log densities of both distributions at independent draws of the first,
            shape (count,). Best where the second has lighter tails; the values lie in [0, 1] in any case.
    """
    return mean_of((1.0 - (log_second - log_first).exp()).clamp_min(0.0))
