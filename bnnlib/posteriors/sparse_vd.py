"""Sparse variational dropout: additive Gaussian noise under a log-uniform prior."""

import math
from typing import Any

import torch
from torch import Tensor

from bnnlib._checks import check_scale
from bnnlib._noise import draw_normal
from bnnlib.functional import log_alpha, sparse_vd_kl_sum
from bnnlib.posteriors.base import Posterior
from bnnlib.posteriors.settings import setting


def _check_threshold(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(
            f"{name} is {value}, but it must be a finite value of log alpha. Take 3 to prune dropout rates over 0.95."
        )
    return value


class SparseVD(Posterior):
    """N(weight, exp(weight_log_variance)) under the log-uniform prior of Molchanov, Ashukha and Vetrov (2017).

    Biases are deterministic, as published. Weights with log alpha at or above `threshold` are dropped in `eval()` and
    in mean mode.

    Example:
        >>> from bnnlib import nn
        >>> isinstance(nn.SparseVDLinear(3, 2), SparseVD)
        True
    """

    initial_scale = setting("initial_scale", check_scale, math.exp(-5.0))
    threshold = setting("threshold", _check_threshold, 3.0)
    _spread = ("log_variance",)

    def _start(self) -> tuple[float, ...]:
        return (2.0 * math.log(self.initial_scale),)

    def log_alpha(self) -> Tensor:
        """log(sigma^2 / mean^2) of the weights, the variance of the multiplicative noise, equation (svbnn-vd-alpha)."""
        return log_alpha(*self._groups()[0])

    def _masks(self) -> list[Tensor]:
        return [
            torch.ones_like(mean, dtype=torch.bool) if not spread else log_alpha(mean, *spread) < self.threshold
            for mean, *spread in self._groups()
        ]

    def _prepared(self, *group: Tensor) -> tuple[Tensor, ...]:
        if len(group) == 1:
            return group
        mean, log_variance = group
        kept = 1.0 if self.training else log_alpha(mean, log_variance).detach() < self.threshold
        return mean * kept, torch.exp(0.5 * log_variance) * kept

    def _value(self, mean: Tensor, *rest: Any) -> Tensor:
        return mean if len(rest) == 1 else torch.addcmul(mean, rest[0], draw_normal(mean, rest[1]))

    def _mean_values(self) -> list[Tensor]:
        # the network that is used after training
        return [
            mean * mask if spread else mean for (mean, *spread), mask in zip(self._groups(), self._masks(), strict=True)
        ]

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """KL to the log-uniform prior over all weights in nats, up to its infinite constant, equation (svbnn-vd-kl)."""
        mean, log_variance = self._groups()[0]
        return sparse_vd_kl_sum(mean, log_variance, with_value, self._dim)
