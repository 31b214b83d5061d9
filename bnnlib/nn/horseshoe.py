"""The linear layer of the horseshoe network: half-Cauchy scales that switch whole units off."""

from __future__ import annotations

import torch
from torch import Tensor

from bnnlib._checks import check_positive, check_scale
from bnnlib.functional import gaussian_draw, gaussian_kl_sum, half_cauchy_kl_sum
from bnnlib.nn.base import Parameters, in_parameters
from bnnlib.nn.kl_tokens import remembered, take_token
from bnnlib.nn.noise import Source, draw_normal
from bnnlib.nn.settings import setting
from bnnlib.nn.shapes import BayesianLinear


class HorseshoeLinear(BayesianLinear):
    """Linear layer with a horseshoe prior on each unit, non-centered and factorised (Ghosh, Yao and Doshi-Velez, 2018).

    The incoming weights and bias of unit k are tau_k * upsilon * beta with beta ~ N(0, 1), tau_k ~ C+(0, unit_scale)
    and upsilon ~ C+(0, layer_scale). The posterior is log-normal for the scales and N(weight,
    softplus(weight_rho)^2) for beta, so that `weight` and `bias` are the means of beta. Sparsity is by unit: a unit
    is off when the median of tau_k * upsilon is below `threshold`. For output layers take `GaussianLinear`, as the
    authors do.

    Args:
        in_features, out_features, bias, device, dtype: as for `nn.Linear`.
        unit_scale, layer_scale: medians of the half-Cauchy priors.
        initial_scale: initial posterior standard deviation of beta.
        threshold: median scale below which a unit counts as off.

    Shapes:
        input (*, in_features), output (*, out_features).

    Raises:
        ValueError: a scale or the threshold is not positive.

    Example:
        >>> layer = HorseshoeLinear(3, 2)
        >>> layer(torch.randn(8, 3)).shape
        torch.Size([8, 2])
    """

    unit_scale = setting("unit_scale", check_scale)
    layer_scale = setting("layer_scale", check_scale)
    threshold = setting("threshold", check_positive)
    unit_location: Tensor
    unit_log_scale: Tensor
    layer_location: Tensor
    layer_log_scale: Tensor

    def _init_posterior(
        self,
        *,
        unit_scale: float = 1.0,
        layer_scale: float = 1.0,
        initial_scale: float = 0.0025,
        threshold: float = 0.05,
    ) -> None:
        self.unit_scale, self.layer_scale = unit_scale, layer_scale
        self.initial_scale, self.threshold = initial_scale, threshold
        self._add_spread()
        for name in ("unit_location", "unit_log_scale"):
            self._add_parameter(name, self.weight[:, 0])
        for name in ("layer_location", "layer_log_scale"):
            self._add_parameter(name, self.weight[0, 0])
        self._reset_posterior()

    @torch.no_grad()
    def _reset_posterior(self) -> None:
        super()._reset_posterior()
        # a median of 1 for all scales: a converted network starts from its own outputs
        for location, log_scale in self._scales():
            location.zero_()
            log_scale.fill_(-3.0)

    def _scales(self) -> list[tuple[Tensor, Tensor]]:
        return [(self.unit_location, self.unit_log_scale), (self.layer_location, self.layer_log_scale)]

    def _times(self, unit: Tensor, weight: Tensor, bias: Tensor | None) -> Parameters:
        return unit[:, None] * weight, None if bias is None else unit * bias

    def draw(self, generator: Source = None) -> Parameters:
        """One posterior draw of (weight, bias), the products of scales and beta."""
        unit, layer = (
            torch.addcmul(location, log_scale.exp(), draw_normal(location, generator))
            for location, log_scale in self._scales()
        )
        draws = [(mean, rho, draw_normal(mean, generator), 1.0) for mean, rho in self._groups()]
        return self._times((unit + layer).exp(), *in_parameters(remembered(self, gaussian_draw, draws)))

    def median_scale(self) -> Tensor:
        """Posterior median of tau_k * upsilon for every unit, shape (out_features,)."""
        return (self.unit_location + self.layer_location).exp()

    def mean(self) -> Parameters:
        """Exact posterior means of (weight, bias): those of beta times the means of the log-normal scales."""
        spread = torch.exp(2.0 * self.unit_log_scale) + torch.exp(2.0 * self.layer_log_scale)
        return self._times(self.median_scale() * torch.exp(0.5 * spread), self.weight, self.bias)

    def active(self) -> Parameters:
        """Masks: all incoming weights and the bias of the units that are on."""
        on = self.median_scale().detach() >= self.threshold
        return on[:, None].expand_as(self.weight), None if self.bias is None else on

    def selected(self) -> Parameters:
        """Posterior means of the units that are on, 0 elsewhere."""
        weight, bias = self.mean()
        on, bias_on = self.active()
        return weight * on, None if bias is None or bias_on is None else bias * bias_on

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """Divergence to the prior in nats: exact for beta, the bound (svbnn-half-cauchy) for the scales."""
        beta = sum(gaussian_kl_sum(mean, rho, 1.0, with_value) for mean, rho in self._groups())
        return beta + self._scale_divergence(with_value)

    def kl_gradient(self) -> Tensor:
        """A scalar of value 0 with the gradient of `kl_divergence`; the scales' part is not in the draw's token."""
        token = take_token(self)
        return self.kl_divergence(with_value=False) if token is None else token + self._scale_divergence(False)

    def _scale_divergence(self, with_value: bool) -> Tensor:
        unit, layer = self._scales()
        units = half_cauchy_kl_sum(*unit, self.unit_scale, with_value)
        return units + half_cauchy_kl_sum(*layer, self.layer_scale, with_value)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, unit_scale={self.unit_scale:g}, layer_scale={self.layer_scale:g}"
