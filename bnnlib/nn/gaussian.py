"""Layers with independent Gaussian weights and three estimators of the gradient."""

from typing import Any

import torch
from torch import Tensor, nn

from bnnlib._noise import Source, draw_signs
from bnnlib.nn.base import BayesianLayer, check_choice
from bnnlib.nn.shapes import BayesianConv2d, BayesianLinear
from bnnlib.posteriors import Gaussian, fused
from bnnlib.posteriors.gaussian import _GaussianWeights

ESTIMATORS = ("weight", "local", "flipout")


class _EstimatingLayer(_GaussianWeights, BayesianLayer):
    """A layer of Gaussian weights with a choice of how a pass samples."""

    def _init_posterior(self, *, estimator: str = "weight", **settings: Any) -> None:
        self.estimator = check_choice("estimator", estimator, ESTIMATORS)
        super()._init_posterior(**settings)

    def _sample_forward(self, input: Tensor, generator: Source) -> Tensor:
        if self.estimator == "weight":
            return self._affine(input, *self.draw(generator))
        if self.estimator == "local":
            means, variances = self._moments(generator)
            output = self._affine(input, *self._parts(means))
            variance = self._affine(input.square(), *self._parts(variances))
            # the floor keeps the root's derivative finite where all inputs are 0
            return fused.local(output, variance, generator, 0.0, torch.finfo(variance.dtype).tiny)
        output = self._affine(input, self.weight, self.bias)
        signed = input * self._signs(input, generator)
        shift = self._affine(signed, *self._parts(self._draws("deviation", generator)))
        return torch.addcmul(output, shift, self._signs(output, generator))

    def _signs(self, like: Tensor, generator: Source) -> Tensor:
        """Of each row and feature, or channel, whose positions share one."""
        positions = 0 if isinstance(self, nn.Linear) else 2
        return draw_signs((*like.shape[: like.dim() - positions], *(1,) * positions), like, generator)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, estimator={self.estimator!r}"


class GaussianLinear(_EstimatingLayer, Gaussian, BayesianLinear):
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


class GaussianConv2d(_EstimatingLayer, Gaussian, BayesianConv2d):
    """Convolution with independent Gaussian weights and biases: settings, estimators and errors of `GaussianLinear`.

    The other arguments are those of `nn.Conv2d`. With "local" the outputs at different positions get independent noise:
    each has its exact distribution, their correlation through the shared filter is left out, as in the literature.

    Shapes:
        input (N, C_in, H, W) or (C_in, H, W), output likewise.

    Example:
        >>> layer = GaussianConv2d(1, 4, 3, estimator="local")
        >>> layer(torch.randn(8, 1, 5, 5)).shape
        torch.Size([8, 4, 3, 3])
    """
