"""Layers with the Gaussian spike-and-slab prior: inclusion probabilities in closed form, and Bayes by Backprop."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib.functional import (
    inclusion_log_odds,
    mixture_prior,
    scale_mixture_kl_sample,
    spike_slab_profile_kl_sum,
)
from bnnlib.nn.base import Parameters, draw_normal
from bnnlib.nn.draws import mixture_draw
from bnnlib.nn.gaussian import _GaussianLayer


class _MixtureLayer(_GaussianLayer):
    """A Gaussian posterior under a prior with a spike and a slab."""

    _sampled = False  # the KL's gradient is that of an estimate at the drawn weight

    def _init_posterior(
        self,
        *,
        slab_scale: float,
        spike_scale: float,
        prior_inclusion_probability: float = 0.5,
        initial_scale: float = 0.0025,
        estimator: str = "weight",
    ) -> None:
        self._prior = mixture_prior(slab_scale, spike_scale, prior_inclusion_probability)
        self.slab_scale, self.spike_scale = float(slab_scale), float(spike_scale)
        self.prior_inclusion_probability = float(prior_inclusion_probability)
        self._init_gaussian(initial_scale, estimator)

    def _remembered(self, draws: list[tuple[Tensor, Tensor, Tensor | None]], output: str) -> list[Tensor]:
        return mixture_draw(self, [(*arguments, self._prior) for arguments in draws], output, self._sampled)

    @torch.no_grad()
    def inclusion_log_odds(self) -> Parameters:
        """logit p* of (weight, bias), equation (sbnn-log-odds): the score that ranks weights, without rounding to 1."""
        odds = [
            inclusion_log_odds(mean.square() + F.softplus(rho).square(), self._prior) for mean, rho in self._pairs()
        ]
        return odds[0], odds[1] if len(odds) == 2 else None

    @property
    def inclusion_probability(self) -> Tensor:
        """p* in the shape of `weight`, equation (sbnn-inclusion); computed, never a parameter; without gradient."""
        return torch.sigmoid(self.inclusion_log_odds()[0])

    @property
    def bias_inclusion_probability(self) -> Tensor | None:
        """p* of the biases, in the shape of `bias`; without gradient."""
        odds = self.inclusion_log_odds()[1]
        return None if odds is None else torch.sigmoid(odds)

    def active(self) -> Parameters:
        """Masks of the weights and biases with p* > 1/2: more likely from the slab than from the spike."""
        weight, bias = self.inclusion_log_odds()
        return weight > 0, None if bias is None else bias > 0

    def selected(self) -> Parameters:
        """Means where p* > 1/2, exactly 0 elsewhere."""
        weight, bias = self.active()
        return self.weight * weight, None if bias is None else self.bias * bias

    def num_active(self) -> Tensor:
        """Expected number of weights and biases from the slab: the sum of p*, a float64 scalar."""
        return sum(torch.sigmoid(o).sum(dtype=torch.float64) for o in self.inclusion_log_odds() if o is not None)

    def extra_repr(self) -> str:
        return (
            f"{super(_GaussianLayer, self).extra_repr()}, slab_scale={self.slab_scale:g}, "
            f"spike_scale={self.spike_scale:g}, prior_inclusion_probability={self.prior_inclusion_probability:g}, "
            f"estimator={self.estimator!r}"
        )


class _GaussianSpikeSlabLayer(_MixtureLayer):
    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """Exact KL of the posterior over weights and indicators, at p*, to the prior in nats, (sbnn-profile)."""
        return sum(spike_slab_profile_kl_sum(mean, rho, self._prior, with_value) for mean, rho in self._pairs())


class _ScaleMixtureLayer(_MixtureLayer):
    _sampled = True

    def _init_posterior(
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
        estimate = sum(
            scale_mixture_kl_sample(mean, F.softplus(rho), draw_normal(mean), self._prior).sum()
            for mean, rho in self._pairs()
        )
        return estimate if with_value else estimate - estimate.detach()


class GaussianSpikeSlabLinear(_GaussianSpikeSlabLayer, nn.Linear):
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
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        slab_scale: float,
        spike_scale: float,
        prior_inclusion_probability: float = 0.5,
        initial_scale: float = 0.0025,
        estimator: str = "weight",
        device=None,
        dtype=None,
    ):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self._init_posterior(
            slab_scale=slab_scale,
            spike_scale=spike_scale,
            prior_inclusion_probability=prior_inclusion_probability,
            initial_scale=initial_scale,
            estimator=estimator,
        )


class GaussianSpikeSlabConv2d(_GaussianSpikeSlabLayer, nn.Conv2d):
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
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size,
        stride=1,
        padding=0,
        dilation=1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        slab_scale: float,
        spike_scale: float,
        prior_inclusion_probability: float = 0.5,
        initial_scale: float = 0.0025,
        estimator: str = "weight",
        device=None,
        dtype=None,
    ):
        geometry = (stride, padding, dilation, groups, bias, padding_mode)
        super().__init__(in_channels, out_channels, kernel_size, *geometry, device=device, dtype=dtype)
        self._init_posterior(
            slab_scale=slab_scale,
            spike_scale=spike_scale,
            prior_inclusion_probability=prior_inclusion_probability,
            initial_scale=initial_scale,
            estimator=estimator,
        )


class ScaleMixtureLinear(_ScaleMixtureLayer, nn.Linear):
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
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        slab_scale: float,
        spike_scale: float,
        prior_inclusion_probability: float = 0.5,
        initial_scale: float = 0.0025,
        device=None,
        dtype=None,
    ):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self._init_posterior(
            slab_scale=slab_scale,
            spike_scale=spike_scale,
            prior_inclusion_probability=prior_inclusion_probability,
            initial_scale=initial_scale,
        )


class ScaleMixtureConv2d(_ScaleMixtureLayer, nn.Conv2d):
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
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size,
        stride=1,
        padding=0,
        dilation=1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        slab_scale: float,
        spike_scale: float,
        prior_inclusion_probability: float = 0.5,
        initial_scale: float = 0.0025,
        device=None,
        dtype=None,
    ):
        geometry = (stride, padding, dilation, groups, bias, padding_mode)
        super().__init__(in_channels, out_channels, kernel_size, *geometry, device=device, dtype=dtype)
        self._init_posterior(
            slab_scale=slab_scale,
            spike_scale=spike_scale,
            prior_inclusion_probability=prior_inclusion_probability,
            initial_scale=initial_scale,
        )
