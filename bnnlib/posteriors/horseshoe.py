"""The horseshoe: Gaussian weights times half-Cauchy scales, which switch whole units off."""

from typing import Any, cast

import torch
from torch import Tensor, nn

from bnnlib._checks import check_positive, check_scale
from bnnlib._noise import Source, draw_normal
from bnnlib.functional import half_cauchy_kl_sum
from bnnlib.posteriors.gaussian import _GaussianWeights
from bnnlib.posteriors.kl_tokens import take_token
from bnnlib.posteriors.settings import setting


class Horseshoe(_GaussianWeights):
    """tau_k * upsilon * beta for the weights into unit k, non-centered, of Ghosh, Yao and Doshi-Velez (2018).

    beta ~ N(0, 1), tau_k ~ C+(0, unit_scale) and upsilon ~ C+(0, layer_scale) in the prior. In the posterior beta is
    N(weight, softplus(weight_rho)^2), and the scales are log-normal.

    Example:
        >>> from bnnlib import nn
        >>> isinstance(nn.HorseshoeLinear(3, 2), Horseshoe)
        True
    """

    unit_scale = setting("unit_scale", check_scale, 1.0)
    layer_scale = setting("layer_scale", check_scale, 1.0)
    initial_scale = setting("initial_scale", check_scale, 0.0025)
    threshold = setting("threshold", check_positive, 0.05)
    _scaled: tuple[str, ...] = ("unit", "layer")

    def _like(self, name: str) -> Tensor:
        """A tensor in the shape of the scales of that name."""
        raise NotImplementedError

    def _factors(self, *logs: Tensor) -> list[Tensor]:
        """What multiplies beta, for weights and biases, from the logarithms of the scales in the order of `_scaled`."""
        raise NotImplementedError

    def _add_spread(self) -> None:
        super()._add_spread()
        for name in self._scaled:
            self._add_parameter(f"{name}_location", self._like(name))
            self._add_parameter(f"{name}_log_scale", self._like(name))

    @torch.no_grad()
    def _reset_posterior(self) -> None:
        super()._reset_posterior()
        # a median of 1 for all scales: a converted network starts from its own outputs
        for location, log_scale in self._scales():
            location.zero_()
            log_scale.fill_(-3.0)

    def _scales(self) -> list[tuple[nn.Parameter, nn.Parameter]]:
        return [(getattr(self, f"{name}_location"), getattr(self, f"{name}_log_scale")) for name in self._scaled]

    @property
    def _prior(self) -> float | Tensor:
        return 1.0

    def draw(self, generator: Source = None) -> Any:
        """One draw of all weights, the products of scales and beta."""
        beta = self._draws("weight", generator)
        logs = [torch.addcmul(m, s.exp(), draw_normal(m, generator)) for m, s in self._scales()]
        return self._parts([factor * b for factor, b in zip(self._factors(*logs), beta, strict=False)])

    def _mean_values(self) -> list[Tensor]:
        """Exact posterior means: those of beta times the means of the log-normal scales."""
        logs = [location + 0.5 * torch.exp(2.0 * log_scale) for location, log_scale in self._scales()]
        return [factor * mean for factor, (mean, _) in zip(self._factors(*logs), self._groups(), strict=False)]

    def _medians(self) -> list[Tensor]:
        return self._factors(*(location.detach() for location, _ in self._scales()))

    def _masks(self) -> list[Tensor]:
        """Where the median of the scale is at or above the threshold."""
        groups = zip(self._groups(), self._medians(), strict=False)
        return [(median >= self.threshold).expand_as(mean) for (mean, _), median in groups]

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """Divergence to the prior in nats: exact for beta, the bound (svbnn-half-cauchy) for the scales."""
        return super().kl_divergence(with_value) + self._scale_divergence(with_value)

    def _kl_term(self) -> Tensor:
        # the scales' part is not in the draw's token
        token = take_token(self)
        return self.kl_divergence(with_value=False) if token is None else token + self._scale_divergence(False)

    def _scale_divergence(self, with_value: bool) -> Tensor:
        priors = [getattr(self, f"{name}_scale") for name in self._scaled]
        pairs = zip(self._scales(), priors, strict=True)
        return cast(Tensor, sum(half_cauchy_kl_sum(*own, prior, with_value, self._dim) for own, prior in pairs))
