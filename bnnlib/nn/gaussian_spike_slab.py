"""Layers with the Gaussian spike-and-slab prior: inclusion probabilities in closed form, and Bayes by Backprop."""

from __future__ import annotations

from functools import lru_cache
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib._checks import check_scale
from bnnlib.functional import (
    MixturePrior,
    inclusion_log_odds,
    mixture_prior,
    scale_mixture_kl_sample,
    spike_slab_profile_kl_sum,
)
from bnnlib.functional._autograd import total
from bnnlib.nn.base import Parameters
from bnnlib.nn.gaussian import _GaussianPosterior
from bnnlib.nn.noise import draw_normal
from bnnlib.nn.selection import SelectingLayer
from bnnlib.nn.settings import check_open, setting
from bnnlib.nn.shapes import BayesianConv2d, BayesianLinear

_mixture_prior = lru_cache(256)(mixture_prior)
_SETTINGS = ("slab_scale", "spike_scale", "prior_inclusion_probability")


class _MixtureLayer(SelectingLayer, _GaussianPosterior):
    """A Gaussian posterior under a prior with a spike and a slab."""

    slab_scale = setting("slab_scale", check_scale)
    spike_scale = setting("spike_scale", check_scale)
    prior_inclusion_probability = setting("prior_inclusion_probability", check_open)

    def _init_posterior(
        self,
        *,
        slab_scale: float,
        spike_scale: float,
        prior_inclusion_probability: float = 0.5,
        initial_scale: float = 0.0025,
        estimator: str = "weight",
    ) -> None:
        self.slab_scale, self.spike_scale = slab_scale, spike_scale
        self.prior_inclusion_probability = prior_inclusion_probability
        self._init_gaussian(initial_scale, estimator)

    def _check_setting(self, name: str, value: float) -> None:
        given = {key: self.__dict__[f"_{key}"] for key in _SETTINGS if f"_{key}" in self.__dict__} | {name: value}
        if name in _SETTINGS and len(given) == len(_SETTINGS):
            mixture_prior(**given)

    @property
    def _prior(self) -> MixturePrior:
        return _mixture_prior(self.slab_scale, self.spike_scale, self.prior_inclusion_probability)

    @torch.no_grad()
    def inclusion_log_odds(self) -> Parameters:
        """logit p* of (weight, bias), equation (sbnn-log-odds); p*, equation (sbnn-inclusion), is never a parameter."""
        odds = [
            inclusion_log_odds(mean.square() + F.softplus(rho).square(), self._prior) for mean, rho in self._groups()
        ]
        return self._parts(odds)

    def extra_repr(self) -> str:
        return (
            f"{super().extra_repr()}, slab_scale={self.slab_scale:g}, "
            f"spike_scale={self.spike_scale:g}, prior_inclusion_probability={self.prior_inclusion_probability:g}, "
            f"estimator={self.estimator!r}"
        )


class _GaussianSpikeSlabLayer(_MixtureLayer):
    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """Exact KL of the posterior over weights and indicators, at p*, to the prior in nats, (sbnn-profile)."""
        terms = [spike_slab_profile_kl_sum(mean, rho, self._prior, with_value) for mean, rho in self._groups()]
        return cast(Tensor, sum(terms))


class _ScaleMixtureLayer(_MixtureLayer):
    _sampled = True

    def _init_posterior(  # type: ignore[override]  # has no choice of estimator
        self,
        *,
        slab_scale: float,
        spike_scale: float,
        prior_inclusion_probability: float = 0.5,
        initial_scale: float = 0.0025,
    ) -> None:
        # no choice of estimator: the divergence needs the weights that the pass has drawn
        super()._init_posterior(
            slab_scale=slab_scale,
            spike_scale=spike_scale,
            prior_inclusion_probability=prior_inclusion_probability,
            initial_scale=initial_scale,
        )

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """Unbiased estimate from one fresh draw of the KL to the scale mixture in nats, (sbnn-bbb): it has no closed
        form, and the noise comes from `use_generator`."""
        source = self._noise(None)  # by a key it is the pass's own draw
        terms = [
            total(scale_mixture_kl_sample(mean, F.softplus(rho), draw_normal(mean, source), self._prior))
            for mean, rho in self._groups()
        ]
        estimate = cast(Tensor, sum(terms))
        return estimate if with_value else estimate - estimate.detach()


class GaussianSpikeSlabLinear(_GaussianSpikeSlabLayer, BayesianLinear):
    """Linear layer with the spike-and-slab prior of equation (3.1) of Saha, Liu and Liang (2024), p* in closed form.

    Posterior (sbnn-posterior), (3.3) of the paper: N(weight, softplus(weight_rho)^2) for the weight, Bernoulli(p*) for
    its indicator, with p* the closed form of Proposition 3.2: `inclusion_probability` follows the weights and is no
    parameter.
    `kl_divergence` is minimized over p, so that training by the objective (sbnn-objective) is what the paper's
    alternating Algorithm 1 does.

    Args:
        in_features, out_features, bias, device, dtype: as for `nn.Linear`.
        slab_scale: tau_1, the prior standard deviation of a weight that is in.
        spike_scale: tau_0, that of a weight that is out; below slab_scale.
        prior_inclusion_probability: pi, strictly between 0 and 1.
        initial_scale: initial posterior standard deviation.
        estimator: "weight", "local" or "flipout", as for `GaussianLinear`.

    Shapes:
        input (*, in_features), output (*, out_features).

    Raises:
        ValueError: a scale is not positive, spike_scale is not below slab_scale, the probability is not strictly
            between 0 and 1, or the estimator is unknown.

    Example:
        >>> layer = GaussianSpikeSlabLinear(3, 2, slab_scale=1.0, spike_scale=0.01)
        >>> weight, bias = layer.inclusion_probability
        >>> layer(torch.randn(8, 3)).shape, weight.shape
        (torch.Size([8, 2]), torch.Size([3]))
    """


class GaussianSpikeSlabConv2d(_GaussianSpikeSlabLayer, BayesianConv2d):
    """Convolution with a spike-and-slab prior on every filter weight and bias, as `GaussianSpikeSlabLinear`.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype:
            as for `nn.Conv2d`.
        slab_scale, spike_scale, prior_inclusion_probability, initial_scale, estimator: as for
            `GaussianSpikeSlabLinear`.

    Shapes:
        input (N, C_in, H, W) or (C_in, H, W), output likewise.

    Raises:
        ValueError: a scale is not positive, spike_scale is not below slab_scale, the probability is not strictly
            between 0 and 1, or the estimator is unknown.

    Example:
        >>> layer = GaussianSpikeSlabConv2d(1, 4, 3, slab_scale=1.0, spike_scale=0.01)
        >>> layer(torch.randn(8, 1, 5, 5)).shape
        torch.Size([8, 4, 3, 3])
    """


class ScaleMixtureLinear(_ScaleMixtureLayer, BayesianLinear):
    """Linear layer of Bayes by Backprop with its scale-mixture prior, equation (7) of Blundell et al. (2015).

    The same prior as `GaussianSpikeSlabLinear` with the indicators summed out: the scale mixture of Blundell et al.
    (2015). The divergence to it has no closed form; its gradient is estimated at the weights of the last draw,
    equations (sbnn-bbb-mean) and (sbnn-bbb-scale), and `kl_divergence` is a one-draw estimate.
    `inclusion_probability` is p* at the posterior's moments, to compare.

    Args:
        in_features, out_features, bias, device, dtype: as for `nn.Linear`.
        slab_scale: tau_1, the prior standard deviation of a weight that is in.
        spike_scale: tau_0, that of a weight that is out; below slab_scale.
        prior_inclusion_probability: pi, strictly between 0 and 1.
        initial_scale: initial posterior standard deviation.

    Shapes:
        input (*, in_features), output (*, out_features).

    Raises:
        ValueError: a scale is not positive, spike_scale is not below slab_scale, or the probability is not strictly
            between 0 and 1.

    Example:
        >>> layer = ScaleMixtureLinear(3, 2, slab_scale=1.0, spike_scale=0.01)
        >>> layer(torch.randn(8, 3)).shape
        torch.Size([8, 2])
    """


class ScaleMixtureConv2d(_ScaleMixtureLayer, BayesianConv2d):
    """Convolution of Bayes by Backprop with its scale-mixture prior, as `ScaleMixtureLinear`.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype:
            as for `nn.Conv2d`.
        slab_scale, spike_scale, prior_inclusion_probability, initial_scale: as for `ScaleMixtureLinear`.

    Shapes:
        input (N, C_in, H, W) or (C_in, H, W), output likewise.

    Raises:
        ValueError: a scale is not positive, spike_scale is not below slab_scale, or the probability is not strictly
            between 0 and 1.

    Example:
        >>> layer = ScaleMixtureConv2d(1, 4, 3, slab_scale=1.0, spike_scale=0.01)
        >>> layer(torch.randn(8, 1, 5, 5)).shape
        torch.Size([8, 4, 3, 3])
    """
