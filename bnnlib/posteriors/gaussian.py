"""Independent Gaussian weights, and their divergence to a Gaussian prior."""

from typing import Any, cast

import torch
from torch import Tensor

from bnnlib._checks import check_scale
from bnnlib._noise import Keys, Source, draw_normal
from bnnlib.functional import MixturePrior, gaussian_draw, gaussian_kl_sum, softplus_inverse, softplus_scale
from bnnlib.functional._autograd import transformed
from bnnlib.posteriors import fused
from bnnlib.posteriors.base import Posterior
from bnnlib.posteriors.kl_tokens import remembered
from bnnlib.posteriors.settings import setting


class _GaussianWeights(Posterior):
    """N(mean, softplus(rho)^2) for every weight; a subclass has a prior."""

    initial_scale: float
    _spread = ("rho",)
    _sampled = False  # the divergence's gradient is that of an estimate at the drawn weight

    @property
    def _prior(self) -> float | Tensor | MixturePrior:
        raise NotImplementedError

    def _start(self) -> tuple[float, ...]:
        return (float(softplus_inverse(torch.tensor(self.initial_scale, dtype=torch.float64, device="cpu"))),)

    def draw(self, generator: Source = None) -> Any:
        """One draw of all weights, in the shapes of the parameters."""
        return self._parts(self._draws("weight", generator))

    def _draws(self, output: str, source: Source) -> list[Tensor]:
        """Weights, or what else `gaussian_draw` knows, of all groups."""
        if not (pairs := self._groups()):  # all of them are another layer's
            return []
        noisy, prior = output != "variance", None if transformed() else self._prior
        if output == "weight" and fused.fits(source, pairs):
            return fused.draw(self, fused.GAUSSIAN, cast(Keys, source), pairs, prior, self._sampled, self._dim)
        draws = [(mean, rho, draw_normal(mean, source) if noisy else None, prior) for mean, rho in pairs]
        return remembered(self, gaussian_draw, draws, output=output, sampled=self._sampled, dim=self._dim)

    def _moments(self, source: Source) -> tuple[list[Tensor], list[Tensor]]:
        """Means and variances of all groups."""
        prior, pairs = None if transformed() else self._prior, self._groups()
        plain = isinstance(prior, float) and self._dim is None
        if plain and pairs[0][0].is_cpu and fused.fits(source, pairs):
            return fused.moments(self, fused.SOFTPLUS, pairs, prior)
        return [mean for mean, _ in pairs], self._draws("variance", None)

    def _prepared(self, mean: Tensor, rho: Tensor) -> tuple[Any, ...]:
        return mean, softplus_scale(rho)

    def _value(self, mean: Tensor, scale: Tensor, source: Source) -> Tensor:
        return torch.addcmul(mean, scale, draw_normal(mean, source))

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """Exact KL to the prior in nats, equations (svbnn-gaussian-kl) and (sbnn-profile)."""
        terms = [gaussian_kl_sum(m, rho, self._prior, with_value, self._dim) for m, rho in self._groups()]
        return cast(Tensor, sum(terms))


class Gaussian(_GaussianWeights):
    """N(weight, softplus(weight_rho)^2) under N(0, prior_scale^2), the dense network of Blundell et al. (2015).

    Example:
        >>> from bnnlib import nn
        >>> isinstance(nn.GaussianLinear(3, 2), Gaussian)
        True
    """

    prior_scale = setting("prior_scale", check_scale, 1.0)
    initial_scale = setting("initial_scale", check_scale, 0.0025)

    def scale(self) -> Any:
        """Posterior standard deviations."""
        return self._parts([softplus_scale(rho) for _, rho in self._groups()], 0.0)

    @property
    def _prior(self) -> float:
        return self.prior_scale
