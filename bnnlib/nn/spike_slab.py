"""Layers with Dirac spike-and-slab weights: each weight is exactly 0, or Gaussian."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib._checks import check_positive, check_scale
from bnnlib.functional import log_odds, logistic_noise, spike_slab_draw, spike_slab_kl_sum
from bnnlib.functional._autograd import transformed
from bnnlib.functional.draws import spike_slab_value
from bnnlib.nn.base import Parameters
from bnnlib.nn.kl_tokens import remembered
from bnnlib.nn.noise import Source, draw_normal, draw_uniform
from bnnlib.nn.selection import SelectingLayer
from bnnlib.nn.settings import check_open, setting
from bnnlib.nn.shapes import BayesianConv2d, BayesianLinear


class _SpikeSlabLayer(SelectingLayer):
    # Python floats: 1e-200, which the lambda sweep needs, is 0 in float32
    prior_inclusion_probability = setting("prior_inclusion_probability", check_open)
    prior_scale = setting("prior_scale", check_scale)
    initial_inclusion_probability = setting("initial_inclusion_probability", check_open)
    temperature = setting("temperature", check_positive)
    _spread = ("rho", "logit")

    def _init_posterior(
        self,
        *,
        prior_inclusion_probability: float,
        prior_scale: float = 1.0,
        initial_scale: float = 0.0025,
        initial_inclusion_probability: float = 0.99,
        temperature: float = 0.5,
    ) -> None:
        self.prior_inclusion_probability, self.prior_scale = prior_inclusion_probability, prior_scale
        self.initial_scale, self.initial_inclusion_probability = initial_scale, initial_inclusion_probability
        self.temperature = temperature
        self._add_spread()
        self._reset_posterior()

    @torch.no_grad()
    def _reset_posterior(self) -> None:
        super()._reset_posterior()
        for _, _, logits in self._groups():
            logits.fill_(log_odds(self.initial_inclusion_probability))

    def inclusion_log_odds(self) -> Parameters:
        """logit phi of (weight, bias), without gradient."""
        return self._parts([logit.detach() for _, _, logit in self._groups()])

    def draw(self, generator: Source = None) -> Parameters:
        """One posterior draw of (weight, bias), exactly 0 where the gate is closed."""
        constants = (
            self.temperature,
            0.0 if transformed() else log_odds(self.prior_inclusion_probability),
            self.prior_scale,
        )
        draws = [
            (*group, draw_normal(group[0], generator), logistic_noise(draw_uniform(group[0], generator)), *constants)
            for group in self._groups()
        ]
        return self._parts(remembered(self, spike_slab_draw, draws))

    def _drawer(self) -> Callable[[Source], Parameters]:
        """`draw` with the standard deviations of the slab computed once."""
        if type(self).draw is not _SpikeSlabLayer.draw:
            return self.draw
        groups = [(mean, F.softplus(rho), logit) for mean, rho, logit in self._groups()]

        def draw(generator: Source) -> Parameters:
            noises = [(draw_normal(mean, generator), draw_uniform(mean, generator)) for mean, *_ in groups]
            return self._parts(
                [spike_slab_value(*g, n, logistic_noise(u)) for g, (n, u) in zip(groups, noises, strict=True)]
            )

        return draw

    def mean(self) -> Parameters:
        """Posterior means phi * mean of (weight, bias)."""
        means = [mean * torch.sigmoid(logit) for mean, _, logit in self._groups()]
        return self._parts(means)

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """Exact KL to the spike-and-slab prior over all weights and biases in nats, equation (svbnn-kl)."""
        prior = (self.prior_inclusion_probability, self.prior_scale, with_value)
        terms = [spike_slab_kl_sum(mean, rho, logit, *prior) for mean, rho, logit in self._groups()]
        return cast(Tensor, sum(terms))

    def extra_repr(self) -> str:
        return (
            f"{super().extra_repr()}, prior_inclusion_probability={self.prior_inclusion_probability:.4g}, "
            f"prior_scale={self.prior_scale:g}, temperature={self.temperature:g}"
        )


class SpikeSlabLinear(_SpikeSlabLayer, BayesianLinear):
    """Linear layer with Dirac spike-and-slab weights and biases, equations (6) and (7) of Bai, Song and Cheng (2020).

    A weight is gate * (weight + softplus(weight_rho) * noise) with gate ~ Bernoulli(sigmoid(weight_logit)); its
    gradient goes through the Gumbel-softmax relaxation. In mean mode it is phi * weight, in selected mode weight
    where phi > 1/2.

    Args:
        in_features, out_features, bias, device, dtype: as for `nn.Linear`.
        prior_inclusion_probability: lambda, a Python float strictly between 0 and 1 (as small as 1e-200); for a
            fully connected network `functional.inclusion_probability_for` gives the theoretical choice.
        prior_scale: sigma_0, the standard deviation of the prior's slab.
        initial_scale: initial standard deviation of the slab.
        initial_inclusion_probability: initial phi.
        temperature: tau of the relaxation in the backward pass.

    Shapes:
        input (*, in_features), output (*, out_features).

    Raises:
        ValueError: a probability is not strictly between 0 and 1, or a scale or the temperature is not positive.

    Example:
        >>> layer = SpikeSlabLinear(100, 100, prior_inclusion_probability=0.01, initial_inclusion_probability=0.1)
        >>> layer(torch.randn(8, 100)).shape
        torch.Size([8, 100])
        >>> weight, bias = layer.draw(torch.Generator().manual_seed(0))
        >>> bool((weight == 0).float().mean() > 0.8)  # exact zeros
        True
    """


class SpikeSlabConv2d(_SpikeSlabLayer, BayesianConv2d):
    """Convolution with Dirac spike-and-slab weights and biases; posterior, prior and modes as for `SpikeSlabLinear`.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype:
            as for `nn.Conv2d`.
        prior_inclusion_probability, prior_scale, initial_scale, initial_inclusion_probability, temperature: as for
            `SpikeSlabLinear`.

    Shapes:
        input (N, C_in, H, W) or (C_in, H, W), output likewise.

    Raises:
        ValueError: a probability is not strictly between 0 and 1, or a scale or the temperature is not positive.

    Example:
        >>> layer = SpikeSlabConv2d(1, 4, 3, prior_inclusion_probability=0.01)
        >>> layer(torch.randn(8, 1, 5, 5)).shape
        torch.Size([8, 4, 3, 3])
    """
