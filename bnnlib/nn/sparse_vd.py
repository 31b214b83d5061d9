"""Layers of sparse variational dropout: additive Gaussian noise under a log-uniform prior."""

import torch
from torch import Tensor

from bnnlib._noise import Source
from bnnlib.functional import sparse_vd_variance
from bnnlib.nn.base import BayesianLayer, Parameters
from bnnlib.nn.shapes import BayesianConv2d, BayesianLinear
from bnnlib.posteriors import SparseVD, fused
from bnnlib.posteriors.kl_tokens import remembered


class _SparseVDLayer(SparseVD, BayesianLayer):
    weight_log_variance: Tensor

    def _spread_of(self, mean: str) -> tuple[str, ...]:
        return () if mean == "bias" else self._spread

    def scale(self) -> Parameters:
        """Posterior standard deviations of (weight, bias); the bias has none."""
        return torch.exp(0.5 * self.weight_log_variance), None

    def _sample_forward(self, input: Tensor, generator: Source) -> Tensor:
        weight, pair = self.weight, (self.weight, self.weight_log_variance)
        if weight.is_cpu and fused.fits(generator, [pair]):
            (weight,), (variance,) = fused.moments(self, fused.POWER, [pair])
        else:
            (variance,) = remembered(self, sparse_vd_variance, [pair])
        if not self.training:
            active = self.active()[0]
            weight, variance = weight * active, variance * active
        mean = self._affine(input, weight, self.bias)
        # the floor keeps the root's derivative finite where all inputs are 0
        return fused.local(mean, self._affine(input.square(), variance, None), generator, 1e-12, 0.0)


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
    """Convolution with sparse variational dropout: settings, modes and errors of `SparseVDLinear`.

    The other arguments are those of `nn.Conv2d`. Outputs at different positions get independent noise, as published.

    Shapes:
        input (N, C_in, H, W) or (C_in, H, W), output likewise.

    Example:
        >>> layer = SparseVDConv2d(1, 4, 3)
        >>> layer(torch.randn(8, 1, 5, 5)).shape
        torch.Size([8, 4, 3, 3])
    """
