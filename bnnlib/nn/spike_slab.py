"""Layers with Dirac spike-and-slab weights: each weight is exactly 0, or Gaussian."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bnnlib._checks import check_positive, check_probability
from bnnlib.functional import log_odds, logistic_noise, softplus_inverse, spike_slab_kl_sum, spike_slab_weight
from bnnlib.nn.base import BayesianLayer, Parameters, draw_normal, draw_uniform
from bnnlib.nn.draws import spike_slab_draw


class _SpikeSlabLayer(BayesianLayer):
    def _init_posterior(
        self,
        *,
        prior_inclusion_probability: float,
        prior_scale: float = 1.0,
        initial_scale: float = 0.0025,
        initial_inclusion_probability: float = 0.99,
        temperature: float = 0.5,
    ) -> None:
        # Python floats: 1e-200, which the lambda sweep needs, is 0 in float32
        prior = check_probability("prior_inclusion_probability", prior_inclusion_probability, open_interval=True)
        self.prior_inclusion_probability, self._prior_logit = float(prior), log_odds(float(prior))
        self.prior_scale = float(check_positive("prior_scale", prior_scale))
        self.initial_scale = float(check_positive("initial_scale", initial_scale))
        start = check_probability("initial_inclusion_probability", initial_inclusion_probability, open_interval=True)
        self.initial_inclusion_probability = float(start)
        self.temperature = float(check_positive("temperature", temperature))
        for name, like in (("weight", self.weight), ("bias", self.bias)):
            self._add_parameter(f"{name}_rho", like)
            self._add_parameter(f"{name}_logit", like)
        self._reset_posterior()

    @torch.no_grad()
    def _reset_posterior(self) -> None:
        rho = float(softplus_inverse(torch.tensor(self.initial_scale, dtype=torch.float64)))
        logit = log_odds(self.initial_inclusion_probability)
        for _, rhos, logits in self._triples():
            rhos.fill_(rho)
            logits.fill_(logit)

    def _triples(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        triples = [(self.weight, self.weight_rho, self.weight_logit)]
        return triples if self.bias is None else [*triples, (self.bias, self.bias_rho, self.bias_logit)]

    @property
    def inclusion_probability(self) -> Tensor:
        """phi, the posterior probability that a weight is not 0, in the shape of `weight`; without gradient."""
        return torch.sigmoid(self.weight_logit.detach())

    @property
    def bias_inclusion_probability(self) -> Tensor | None:
        """phi of the biases, in the shape of `bias`; without gradient."""
        return None if self.bias is None else torch.sigmoid(self.bias_logit.detach())

    def draw(self, generator: torch.Generator | None = None) -> Parameters:
        """One posterior draw of (weight, bias), exactly 0 where the gate is closed."""
        constants = (self.temperature, self._prior_logit, self.prior_scale)
        draws = [
            (*triple, draw_normal(triple[0], generator), logistic_noise(draw_uniform(triple[0], generator)), *constants)
            for triple in self._triples()
        ]
        if torch.compiler.is_compiling():
            weights = [spike_slab_weight(*arguments) for arguments in draws]
        else:
            weights = spike_slab_draw(self, draws)
        return weights[0], weights[1] if len(weights) == 2 else None

    def mean(self) -> Parameters:
        """Posterior means phi * mean of (weight, bias)."""
        means = [mean * torch.sigmoid(logit) for mean, _, logit in self._triples()]
        return means[0], means[1] if len(means) == 2 else None

    def active(self) -> Parameters:
        """Masks of the weights and biases with phi > 1/2: the median-probability model."""
        masks = [logit.detach() > 0 for _, _, logit in self._triples()]
        return masks[0], masks[1] if len(masks) == 2 else None

    def selected(self) -> Parameters:
        """Slab means where phi > 1/2, exactly 0 elsewhere."""
        weight, bias = self.active()
        return self.weight * weight, None if bias is None else self.bias * bias

    def num_active(self) -> Tensor:
        """Expected number of weights and biases that are not 0: the sum of phi, the paper's s_hat (section 6)."""
        return sum(torch.sigmoid(logit.detach()).sum(dtype=torch.float64) for _, _, logit in self._triples())

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """Exact KL to the spike-and-slab prior over all weights and biases in nats, equation (svbnn-kl)."""
        prior = (self.prior_inclusion_probability, self.prior_scale)
        return sum(spike_slab_kl_sum(*triple, *prior, with_value) for triple in self._triples())

    def extra_repr(self) -> str:
        return (
            f"{super().extra_repr()}, prior_inclusion_probability={self.prior_inclusion_probability:.4g}, "
            f"prior_scale={self.prior_scale:g}, temperature={self.temperature:g}"
        )


class SpikeSlabLinear(_SpikeSlabLayer, nn.Linear):
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
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        prior_inclusion_probability: float,
        prior_scale: float = 1.0,
        initial_scale: float = 0.0025,
        initial_inclusion_probability: float = 0.99,
        temperature: float = 0.5,
        device=None,
        dtype=None,
    ):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self._init_posterior(
            prior_inclusion_probability=prior_inclusion_probability,
            prior_scale=prior_scale,
            initial_scale=initial_scale,
            initial_inclusion_probability=initial_inclusion_probability,
            temperature=temperature,
        )


class SpikeSlabConv2d(_SpikeSlabLayer, nn.Conv2d):
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
        prior_inclusion_probability: float,
        prior_scale: float = 1.0,
        initial_scale: float = 0.0025,
        initial_inclusion_probability: float = 0.99,
        temperature: float = 0.5,
        device=None,
        dtype=None,
    ):
        geometry = (stride, padding, dilation, groups, bias, padding_mode)
        super().__init__(in_channels, out_channels, kernel_size, *geometry, device=device, dtype=dtype)
        self._init_posterior(
            prior_inclusion_probability=prior_inclusion_probability,
            prior_scale=prior_scale,
            initial_scale=initial_scale,
            initial_inclusion_probability=initial_inclusion_probability,
            temperature=temperature,
        )
