"""Gaussian weights under a spike-and-slab prior: inclusion probabilities in closed form, and Bayes by Backprop."""

from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor

from bnnlib._checks import check_scale
from bnnlib._noise import draw_normal
from bnnlib.functional import MixturePrior, inclusion_log_odds, mixture_prior, scale_mixture_kl_sample, softplus_scale
from bnnlib.functional._autograd import total
from bnnlib.posteriors.base import _Selecting
from bnnlib.posteriors.gaussian import Gaussian, _GaussianWeights
from bnnlib.posteriors.settings import check_open, setting


@lru_cache(256)  # to a GPU columns travel once
def _mixture_prior(device: torch.device, dtype: torch.dtype, *settings: Any) -> MixturePrior:
    prior = mixture_prior(*settings)
    if not any(isinstance(number, Tensor) for number in prior):
        return prior
    return MixturePrior(*(torch.as_tensor(n, dtype=torch.float64).to(device, dtype) for n in prior))


class GaussianSpikeSlab(_Selecting, _GaussianWeights):
    """N(weight, softplus(weight_rho)^2) under the prior (3.1) of Saha, Liu and Liang (2024), p* in closed form.

    Example:
        >>> from bnnlib import nn
        >>> isinstance(nn.GaussianSpikeSlabLinear(3, 2, slab_scale=1.0, spike_scale=0.01), GaussianSpikeSlab)
        True
    """

    slab_scale = setting("slab_scale", check_scale, each=True)
    spike_scale = setting("spike_scale", check_scale, each=True)
    prior_inclusion_probability = setting("prior_inclusion_probability", check_open, 0.5, each=True)
    initial_scale = setting("initial_scale", check_scale, 0.0025)

    _together = ("slab_scale", "spike_scale", "prior_inclusion_probability")
    _check_together = staticmethod(mixture_prior)
    scale = Gaussian.scale

    @property
    def _prior(self) -> MixturePrior:
        mean = cast(Tensor, self._parameters[f"{self._means()[0]}_rho"])
        return _mixture_prior(mean.device, mean.dtype, *(getattr(self, name) for name in self._together))

    @torch.no_grad()
    def _odds(self) -> list[Tensor]:
        """logit p*, equation (sbnn-log-odds); p*, equation (sbnn-inclusion), is never a parameter."""
        return [inclusion_log_odds(m.square() + softplus_scale(rho).square(), self._prior) for m, rho in self._groups()]


class ScaleMixture(GaussianSpikeSlab):
    """N(weight, softplus(weight_rho)^2) under the same prior with the indicators summed out: Bayes by Backprop.

    Example:
        >>> from bnnlib import nn
        >>> isinstance(nn.ScaleMixtureLinear(3, 2, slab_scale=1.0, spike_scale=0.01), ScaleMixture)
        True
    """

    _sampled = True

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """Unbiased estimate from one fresh draw of the KL to the scale mixture in nats, (sbnn-bbb): it has no closed
        form, and the noise comes from `use_generator`."""
        source = self._noise(None)  # by a key it is the pass's own draw
        terms = [
            total(scale_mixture_kl_sample(mean, softplus_scale(rho), draw_normal(mean, source), self._prior), self._dim)
            for mean, rho in self._groups()
        ]
        estimate = cast(Tensor, sum(terms))
        return estimate if with_value else estimate - estimate.detach()
