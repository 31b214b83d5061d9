"""Dirac spike-and-slab weights: each weight is exactly 0, or Gaussian."""

from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor

from bnnlib._checks import check_positive, check_scale
from bnnlib._noise import Keys, Source, draw_logistic, draw_normal
from bnnlib.functional import log_odds, softplus_inverse, softplus_scale, spike_slab_draw, spike_slab_kl_sum
from bnnlib.functional._autograd import transformed
from bnnlib.functional.spike_slab import spike_slab_value
from bnnlib.posteriors import fused
from bnnlib.posteriors.base import _Selecting
from bnnlib.posteriors.kl_tokens import remembered
from bnnlib.posteriors.settings import check_open, setting


@lru_cache(256)  # to a GPU a column travels once
def _log_odds(probability: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    return log_odds(probability).to(device, dtype)


class SpikeSlab(_Selecting):
    """gate * (weight + softplus(weight_rho) * noise) with gate ~ Bernoulli(sigmoid(weight_logit)).

    Equations (6) and (7) of Bai, Song and Cheng (2020).

    Example:
        >>> from bnnlib import nn
        >>> isinstance(nn.SpikeSlabLinear(3, 2, prior_inclusion_probability=0.1), SpikeSlab)
        True
    """

    # Python floats: 1e-200, which the lambda sweep needs, is 0 in float32
    prior_inclusion_probability = setting("prior_inclusion_probability", check_open, each=True)
    prior_scale = setting("prior_scale", check_scale, 1.0)
    initial_scale = setting("initial_scale", check_scale, 0.0025)
    initial_inclusion_probability = setting("initial_inclusion_probability", check_open, 0.99)
    temperature = setting("temperature", check_positive, 0.5)
    _spread = ("rho", "logit")

    @property
    def prior_log_odds(self) -> float | Tensor:
        """logit lambda, the form in which draws and divergence take the prior inclusion probability."""
        probability = self.prior_inclusion_probability
        if isinstance(probability, Tensor):
            return _log_odds(probability, self.weight.device, self.weight.dtype)
        return log_odds(probability)

    def _start(self) -> tuple[float, ...]:
        rho = softplus_inverse(torch.tensor(self.initial_scale, dtype=torch.float64, device="cpu"))
        return float(rho), log_odds(self.initial_inclusion_probability)

    def _odds(self) -> list[Tensor]:
        return [logit.detach() for *_, logit in self._groups()]

    def draw(self, generator: Source = None) -> Any:
        """One draw of all weights, exactly 0 where the gate is closed."""
        if not (groups := self._groups()):  # all of them are another layer's
            return self._parts([])
        constants = self.temperature, 0.0 if transformed() else self.prior_log_odds, self.prior_scale, self._dim
        if fused.fits(generator, groups):
            return self._parts(fused.draw(self, fused.SPIKE_SLAB, cast(Keys, generator), groups, *constants))
        draws = [(*g, draw_normal(g[0], generator), draw_logistic(g[0], generator), *constants) for g in groups]
        return self._parts(remembered(self, spike_slab_draw, draws))

    def _prepared(self, mean: Tensor, rho: Tensor, logit: Tensor) -> tuple[Any, ...]:
        return mean, softplus_scale(rho), logit

    def _value(self, mean: Tensor, scale: Tensor, logit: Tensor, source: Source) -> Tensor:
        noise = draw_normal(mean, source)
        return spike_slab_value(mean, scale, logit, noise, draw_logistic(mean, source))

    def _mean_values(self) -> list[Tensor]:
        return [mean * torch.sigmoid(logit) for mean, _, logit in self._groups()]

    def _selectable(self) -> list[Tensor]:
        return [mean for mean, *_ in self._groups()]  # of the slab

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """Exact KL to the spike-and-slab prior in nats, equation (svbnn-kl)."""
        prior = self.prior_log_odds, self.prior_scale, with_value, self._dim
        return cast(Tensor, sum(spike_slab_kl_sum(m, rho, logit, *prior) for m, rho, logit in self._groups()))
