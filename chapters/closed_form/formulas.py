"""What the lesson says of the Gaussian spike-and-slab prior beyond the library: its penalty, and where p* is 1/2."""

import math

import torch
from torch import Tensor

from bnnlib.functional import MixturePrior
from bnnlib.functional.gaussian_spike_slab import Number, _costs


def inclusion_threshold(prior: MixturePrior) -> Number:
    """Root second moment sqrt(mean^2 + scale^2) at which p* = 1/2, equation (sbnn-threshold).

    Args:
        prior: from `mixture_prior`.

    Returns:
        A number, or a tensor for a prior of tensors; 0 where p* is above 1/2 for every weight, which a large prior
        probability can bring about.

    Example:
        >>> from bnnlib.functional import mixture_prior
        >>> prior = mixture_prior(slab_scale=1.0, spike_scale=0.1, prior_inclusion_probability=0.5)
        >>> round(inclusion_threshold(prior), 4)
        0.2157
    """
    square = 2.0 * (prior.slab_cost - prior.spike_cost) / (prior.spike_precision - prior.slab_precision)
    return square.clamp_min(0.0).sqrt() if isinstance(square, Tensor) else math.sqrt(max(square, 0.0))


def spike_slab_penalty(mean: Tensor, scale: Tensor, inclusion: Tensor, prior: MixturePrior) -> Tensor:
    """R(m, sigma, p), equation (sbnn-penalty), (3.7) of the paper, per weight in nats; the KL divergence is R - 1/2.

    Args:
        mean, scale: of the Gaussian posterior.
        inclusion: p, anywhere in [0, 1].
        prior: from `mixture_prior`.

    Example:
        >>> from bnnlib.functional import mixture_prior
        >>> prior = mixture_prior(slab_scale=1.0, spike_scale=0.1, prior_inclusion_probability=0.5)
        >>> mean, scale, inclusion = torch.tensor([0.0, 1.0]), torch.tensor([0.1, 0.1]), torch.tensor([0.1, 0.9])
        >>> spike_slab_penalty(mean, scale, inclusion, prior)
        tensor([1.0488, 7.9449])
    """
    cost_slab, cost_spike = _costs(mean.square() + scale.square(), prior)
    other = 1.0 - inclusion
    gates = torch.xlogy(inclusion, inclusion) + torch.xlogy(other, other)
    return inclusion * cost_slab + other * cost_spike + gates - torch.log(scale)
