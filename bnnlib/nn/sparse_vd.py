"""Layers of sparse variational dropout: additive Gaussian noise under a log-uniform prior."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from bnnlib.functional import log_alpha, sparse_vd_kl_sum, sparse_vd_variance
from bnnlib.nn.base import BayesianLayer, Parameters
from bnnlib.nn.kl_tokens import remembered
from bnnlib.nn.noise import Source, draw_normal
from bnnlib.nn.settings import setting
from bnnlib.nn.shapes import BayesianConv2d, BayesianLinear


def _check_threshold(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(
            f"{name} is {value}, but it must be a finite value of log alpha. Take 3 to prune dropout rates over 0.95."
        )
    return value


class _SparseVDLayer(BayesianLayer):
    threshold = setting("threshold", _check_threshold)
    weight_log_variance: Tensor

    def _init_posterior(self, *, initial_scale: float = math.exp(-5.0), threshold: float = 3.0) -> None:
        self.initial_scale, self.threshold = initial_scale, threshold
        self._add_parameter("weight_log_variance", self.weight)
        self._reset_posterior()

    @torch.no_grad()
    def _reset_posterior(self) -> None:
        self.weight_log_variance.fill_(2.0 * math.log(self.initial_scale))

    def log_alpha(self) -> Tensor:
        """log(sigma^2 / mean^2) of the weights, the variance of the multiplicative noise, equation (svbnn-vd-alpha)."""
        return log_alpha(self.weight, self.weight_log_variance)

    def scale(self) -> Parameters:
        """Posterior standard deviations of (weight, bias); the bias has none."""
        return torch.exp(0.5 * self.weight_log_variance), None

    def draw(self, generator: Source = None) -> Parameters:
        """One draw of (weight, bias); in `eval()` the weights that are not active are 0. The bias is deterministic."""
        weight = torch.addcmul(
            self.weight, torch.exp(0.5 * self.weight_log_variance), draw_normal(self.weight, generator)
        )
        return weight if self.training else weight * self.active()[0], self.bias

    def _drawer(self) -> Callable[[Source], Parameters]:
        """`draw` with standard deviations and mask computed once."""
        if type(self).draw is not _SparseVDLayer.draw:
            return self.draw
        mean, scale = self.weight, torch.exp(0.5 * self.weight_log_variance)
        if not self.training:
            mean, scale = mean * self.active()[0], scale * self.active()[0]
        return lambda generator: (torch.addcmul(mean, scale, draw_normal(mean, generator)), self.bias)

    def _sample_forward(self, input: Tensor, generator: Source) -> Tensor:
        weight = self.weight
        (variance,) = remembered(self, sparse_vd_variance, [(weight, self.weight_log_variance)])
        if not self.training:
            kept = self.active()[0]
            weight, variance = weight * kept, variance * kept
        mean = self._affine(input, weight, self.bias)
        # the floor keeps the root's derivative finite where all inputs are 0
        spread = self._affine(input.square(), variance, None).add(1e-12).sqrt()
        return torch.addcmul(mean, spread, draw_normal(mean, generator))

    def active(self) -> Parameters:
        """Masks: weights with log alpha below the threshold, and every bias."""
        bias = None if self.bias is None else torch.ones_like(self.bias, dtype=torch.bool)
        return self.log_alpha().detach() < self.threshold, bias

    def mean(self) -> Parameters:
        """Means of the active weights, 0 elsewhere, and the bias: the network that is used after training."""
        return self.weight * self.active()[0], self.bias

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """KL to the log-uniform prior over all weights in nats, up to its infinite constant, equation (svbnn-vd-kl)."""
        return sparse_vd_kl_sum(self.weight, self.weight_log_variance, with_value)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, threshold={self.threshold:g}"


class SparseVDLinear(_SparseVDLayer, BayesianLinear):
    """Linear layer with sparse variational dropout (Molchanov, Ashukha and Vetrov, 2017).

    Posterior N(weight, exp(weight_log_variance)), log-uniform prior, local reparameterisation in training; the bias
    is deterministic, as published. Weights with log alpha at or above `threshold` are dropped in `eval()` and in
    mean mode.

    Args:
        in_features, out_features, bias, device, dtype: as for `nn.Linear`.
        initial_scale: initial posterior standard deviation.
        threshold: of log alpha; 3 is a dropout rate over 0.95.

    Shapes:
        input (*, in_features), output (*, out_features).

    Raises:
        ValueError: initial_scale is not positive, or the threshold is not finite.

    Example:
        >>> layer = SparseVDLinear(3, 2)
        >>> layer(torch.randn(8, 3)).shape
        torch.Size([8, 2])
    """


class SparseVDConv2d(_SparseVDLayer, BayesianConv2d):
    """Convolution with sparse variational dropout; posterior, prior and threshold as for `SparseVDLinear`.

    Outputs at different positions get independent noise, as published.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype:
            as for `nn.Conv2d`.
        initial_scale, threshold: as for `SparseVDLinear`.

    Shapes:
        input (N, C_in, H, W) or (C_in, H, W), output likewise.

    Raises:
        ValueError: initial_scale is not positive, or the threshold is not finite.

    Example:
        >>> layer = SparseVDConv2d(1, 4, 3)
        >>> layer(torch.randn(8, 1, 5, 5)).shape
        torch.Size([8, 4, 3, 3])
    """
