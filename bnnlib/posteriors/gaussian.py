"""Independent Gaussian weights, and their divergence to a Gaussian prior."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from bnnlib._checks import check_positive, check_scale
from bnnlib._noise import Keys, Source, draw_normal
from bnnlib.functional import MixturePrior, gaussian_draw, gaussian_kl_sum, softplus_inverse, softplus_scale
from bnnlib.functional._autograd import transformed
from bnnlib.posteriors import fused
from bnnlib.posteriors.base import Posterior
from bnnlib.posteriors.kept import again
from bnnlib.posteriors.kl_tokens import forget, remembered
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

    def _centered(self) -> list[tuple[Tensor, Tensor, Tensor | None]]:
        """(mean - center, rho, center) of all groups; None for a prior around 0."""
        return [(mean, rho, None) for mean, rho in self._groups()]

    def draw(self, generator: Source = None) -> Any:
        """One draw of all weights, in the shapes of the parameters."""
        return self._parts(self._draws("weight", generator))

    def _draws(self, output: str, source: Source) -> list[Tensor]:
        """Weights, or what else `gaussian_draw` knows, of all groups."""
        if output == "weight" and (values := again(self, source)) is not None:
            return values
        noisy, prior, groups = output != "variance", None if transformed() else self._prior, self._centered()
        pairs = [group[:2] for group in groups]
        if output == "weight" and fused.fits(source, pairs):
            values = fused.draw(self, fused.GAUSSIAN, cast(Keys, source), pairs, prior, self._sampled, self._dim)
        else:
            draws = [(mean, rho, draw_normal(mean, source) if noisy else None, prior) for mean, rho in pairs]
            values = remembered(self, gaussian_draw, draws, output=output, sampled=self._sampled, dim=self._dim)
        if output != "weight":
            return values
        return [v if center is None else v + center for v, (*_, center) in zip(values, groups, strict=True)]

    def _moments(self, source: Source) -> tuple[list[Tensor], list[Tensor]]:
        """Means and variances of all groups."""
        prior, groups = None if transformed() else self._prior, self._centered()
        pairs = [group[:2] for group in groups]
        plain = isinstance(prior, float) and self._dim is None and all(center is None for *_, center in groups)
        if plain and pairs[0][0].is_cpu and fused.fits(source, pairs):
            return fused.moments(self, fused.SOFTPLUS, pairs, prior)
        return [mean for mean, _ in self._groups()], self._draws("variance", None)

    def _prepared(self, mean: Tensor, rho: Tensor) -> tuple[Any, ...]:
        return mean, softplus_scale(rho)

    def _value(self, mean: Tensor, scale: Tensor, source: Source) -> Tensor:
        return torch.addcmul(mean, scale, draw_normal(mean, source))

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """Exact KL to the prior in nats, equations (svbnn-gaussian-kl) and (sbnn-profile)."""
        terms = [gaussian_kl_sum(m, rho, self._prior, with_value, self._dim) for m, rho, _ in self._centered()]
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

    def _centered(self) -> list[tuple[Tensor, Tensor, Tensor | None]]:
        groups = self._groups()
        centers = [self._buffers.get(f"{m}_prior_mean") for m in self._means() if self._parameters[m] is not None]
        own = [center if center is None else self._rows(center) for center in centers]
        return [
            (mean if center is None else mean - center, rho, center)
            for (mean, rho), center in zip(groups, own, strict=True)
        ]

    @torch.no_grad()
    def center_prior(self, relative_scale: float | None = None) -> None:
        """Center the prior on the present means: MOPED of Krishnan, Subedar and Tickoo (2020).

        The centers are buffers such as "weight_prior_mean", which travel in the state_dict.

        Args:
            relative_scale: set the posterior's scales to this share of |mean|, but not below 1e-6; None leaves them.

        Raises:
            ValueError: the share is not positive.
        """
        forget(self)
        for name in self._means():
            mean, rho = self._parameters[name], self._parameters[f"{name}_rho"]
            if mean is not None and rho is not None:
                self._add_center(name, mean.detach().clone())
                if relative_scale is not None:
                    share = check_positive("relative_scale", relative_scale)
                    rho.copy_(softplus_inverse((share * mean.abs()).clamp_min(1e-6)))

    def _add_center(self, name: str, center: Tensor) -> None:
        self.register_buffer(f"{name}_prior_mean", center)
        if f"{name}_prior_mean" not in self._posterior_keys:
            self._posterior_keys.append(f"{name}_prior_mean")

    def _load_from_state_dict(self, state_dict, prefix, *rest) -> None:
        for name in self._means():  # a prior that has been centered travels
            mean, key = self._parameters[name], f"{name}_prior_mean"
            if mean is not None and key not in self._buffers and prefix + key in state_dict:
                self._add_center(name, torch.zeros_like(mean))
        super()._load_from_state_dict(state_dict, prefix, *rest)
