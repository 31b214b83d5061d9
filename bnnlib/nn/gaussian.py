"""Layers with independent Gaussian weights and three estimators of the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib._checks import check_positive, check_scale
from bnnlib.functional import MixturePrior, gaussian_draw, gaussian_kl_sum, softplus_inverse
from bnnlib.functional._autograd import transformed
from bnnlib.nn.base import BayesianLayer, Parameters, check_choice
from bnnlib.nn.kl_tokens import forget, remembered
from bnnlib.nn.noise import Source, draw_normal, draw_signs
from bnnlib.nn.settings import setting
from bnnlib.nn.shapes import BayesianConv2d, BayesianLinear

ESTIMATORS = ("weight", "local", "flipout")


def _from(mean: Tensor, center: Tensor | None) -> Tensor:
    return mean if center is None else mean - center


class _GaussianPosterior(BayesianLayer):
    """N(weight, softplus(weight_rho)^2) for every weight and bias; a subclass has a prior and the divergence to it."""

    weight_rho: Tensor
    bias_rho: Tensor | None
    _sampled = False  # the KL's gradient is that of an estimate at the drawn weight

    def _init_gaussian(self, initial_scale: float, estimator: str) -> None:
        self.initial_scale = initial_scale
        self.estimator = check_choice("estimator", estimator, ESTIMATORS)
        self._add_spread()
        self._reset_posterior()

    @property
    def _prior(self) -> float | MixturePrior:
        raise NotImplementedError

    def scale(self) -> Parameters:
        """Posterior standard deviations of (weight, bias)."""
        return F.softplus(self.weight_rho), None if self.bias_rho is None else F.softplus(self.bias_rho)

    def draw(self, generator: Source = None) -> Parameters:
        """One posterior draw of (weight, bias)."""
        return self._quantities("weight", generator)

    def _drawer(self) -> Callable[[Source], Parameters]:
        """`draw` with the standard deviations computed once."""
        if type(self).draw is not _GaussianPosterior.draw:
            return self.draw
        groups = [
            (_from(mean, center), F.softplus(rho), center)
            for (mean, rho), center in zip(self._groups(), self._centers(), strict=True)
        ]

        def draw(generator: Source) -> Parameters:
            values = [torch.addcmul(mean, scale, draw_normal(mean, generator)) for mean, scale, _ in groups]
            return self._parts(
                [v if center is None else v + center for v, (*_, center) in zip(values, groups, strict=True)]
            )

        return draw

    def _quantities(self, output: str, generator: Source) -> Parameters:
        noisy = output != "variance"
        prior = None if transformed() else self._prior
        groups, centers = self._groups(), self._centers()
        draws = [
            (_from(mean, center), rho, draw_normal(mean, generator) if noisy else None, prior)
            for (mean, rho), center in zip(groups, centers, strict=True)
        ]
        parameters = [parameter for group in groups for parameter in group]
        values = remembered(self, gaussian_draw, draws, parameters, output=output, sampled=self._sampled)
        if output == "weight":
            values = [
                value if center is None else value + center for value, center in zip(values, centers, strict=True)
            ]
        return self._parts(values)

    def _centers(self) -> list[Tensor | None]:
        """Means of the prior, in the order of `_groups`; None for 0."""
        return [None] * len(self._groups())

    def _sample_forward(self, input: Tensor, generator: Source) -> Tensor:
        if self.estimator == "weight":
            return self._affine(input, *self.draw(generator))
        output = self._affine(input, self.weight, self.bias)
        if self.estimator == "local":
            variance = self._affine(input.square(), *self._quantities("variance", None))
            # the floor keeps the root's derivative finite where all inputs are 0
            spread = variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt()
            return torch.addcmul(output, spread, draw_normal(output, generator))
        signed = input * self._signs(input, self._fan_in(), generator)
        shift = self._affine(signed, *self._quantities("deviation", generator))
        return torch.addcmul(output, shift, self._signs(output, output.shape[self._channel], generator))

    @property
    def _channel(self) -> int:
        return -1 if isinstance(self, nn.Linear) else -3

    def _fan_in(self) -> int:
        return self.in_features if isinstance(self, nn.Linear) else cast(nn.Conv2d, self).in_channels

    def _signs(self, like: Tensor, channels: int, generator: Source) -> Tensor:
        leading = tuple(like.shape[: like.dim() + self._channel])
        return draw_signs((*leading, channels) + (1,) * (-1 - self._channel), like, generator)


class _GaussianLayer(_GaussianPosterior):
    prior_scale = setting("prior_scale", check_scale)

    def _init_posterior(
        self, *, prior_scale: float = 1.0, initial_scale: float = 0.0025, estimator: str = "weight"
    ) -> None:
        self.prior_scale = prior_scale
        self._init_gaussian(initial_scale, estimator)

    @property
    def _prior(self) -> float:
        return self.prior_scale

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """Exact KL to the prior N(0, prior_scale^2) of every weight and bias in nats, equation (svbnn-gaussian-kl)."""
        pairs = zip(self._groups(), self._centers(), strict=True)
        prior = self.prior_scale, with_value
        return cast(Tensor, sum(gaussian_kl_sum(_from(mean, center), rho, *prior) for (mean, rho), center in pairs))

    def _centers(self) -> list[Tensor | None]:
        return [self._buffers.get(f"{name}_prior_mean") for name in self._means() if self._parameters[name] is not None]

    @torch.no_grad()
    def center_prior(self, relative_scale: float | None = None) -> None:
        """Center the prior on the present means: MOPED of Krishnan, Subedar and Tickoo (2020).

        The centers are buffers "weight_prior_mean" and "bias_prior_mean", which travel in the state_dict.

        Args:
            relative_scale: set the posterior's scales to this share of |mean|, but not below 1e-6; None leaves them.

        Raises:
            ValueError: the share is not positive.
        """
        forget(self)
        names = [name for name in self._means() if self._parameters[name] is not None]
        for name, (mean, rho) in zip(names, self._groups(), strict=True):
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

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, prior_scale={self.prior_scale:g}, estimator={self.estimator!r}"


class GaussianLinear(_GaussianLayer, BayesianLinear):
    """Linear layer with independent Gaussian weights and biases, the dense variational layer of Blundell et al. (2015).

    Posterior N(weight, softplus(weight_rho)^2), prior N(0, prior_scale^2), the same for the bias.

    Args:
        in_features, out_features, bias, device, dtype: as for `nn.Linear`.
        prior_scale: prior standard deviation.
        initial_scale: initial posterior standard deviation.
        estimator: how a pass samples. "weight": one draw for the whole batch. "local": local reparameterisation (Kingma
            et al., 2015), every example's outputs from their own Gaussian law, equation (fnd-local): twice the
            products, less variance.
            "flipout" (Wen et al., 2018): one draw whose signs are flipped for each example: twice the products too.

    Shapes:
        input (*, in_features), output (*, out_features).

    Raises:
        ValueError: a scale is not positive, or the estimator is unknown.

    Example:
        >>> layer = GaussianLinear(3, 2, prior_scale=0.5)
        >>> layer(torch.randn(8, 3)).shape, bool(layer.kl_divergence() > 0)
        (torch.Size([8, 2]), True)
    """


class GaussianConv2d(_GaussianLayer, BayesianConv2d):
    """Convolution with independent Gaussian weights and biases; posterior, prior and estimators as for
    `GaussianLinear`.

    With "local" the outputs at different positions get independent noise: each has its exact distribution, their
    correlation through the shared filter is left out, as in the literature.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype:
            as for `nn.Conv2d`.
        prior_scale, initial_scale, estimator: as for `GaussianLinear`.

    Shapes:
        input (N, C_in, H, W) or (C_in, H, W), output likewise.

    Raises:
        ValueError: a scale is not positive, or the estimator is unknown.

    Example:
        >>> layer = GaussianConv2d(1, 4, 3, estimator="local")
        >>> layer(torch.randn(8, 1, 5, 5)).shape
        torch.Size([8, 4, 3, 3])
    """
