"""Layers with Dirac spike-and-slab weights: each weight is exactly 0, or Gaussian."""

from bnnlib.nn.selection import SelectingLayer
from bnnlib.nn.shapes import BayesianConv2d, BayesianLinear
from bnnlib.posteriors import SpikeSlab


class SpikeSlabLinear(SelectingLayer, SpikeSlab, BayesianLinear):
    """Linear layer with Dirac spike-and-slab weights and biases, equations (6) and (7) of Bai, Song and Cheng (2020).

    A weight is gate * (weight + softplus(weight_rho) * noise) with gate ~ Bernoulli(sigmoid(weight_logit)); its
    gradient goes through the Gumbel-softmax relaxation. In mean mode it is phi * weight, in selected mode weight
    where phi > 1/2.

    Args:
        in_features, out_features, bias, device, dtype: as for `nn.Linear`.
        prior_inclusion_probability: lambda, a Python float strictly between 0 and 1 (as small as 1e-200); for a
            fully connected network `functional.inclusion_probability_for` gives the theoretical choice.
        prior_scale: sigma_0, the standard deviation of the prior's slab.
        initial_scale: initial standard deviation of the slab.
        initial_inclusion_probability: initial phi.
        temperature: tau of the relaxation in the backward pass.

    Shapes:
        input (*, in_features), output (*, out_features).

    Raises:
        ValueError: a probability is not strictly between 0 and 1, or a scale or the temperature is not positive.

    Example:
        >>> layer = SpikeSlabLinear(100, 100, prior_inclusion_probability=0.01, initial_inclusion_probability=0.1)
        >>> layer(torch.randn(8, 100)).shape
        torch.Size([8, 100])
        >>> weight, bias = layer.draw(torch.Generator().manual_seed(0))
        >>> bool((weight == 0).float().mean() > 0.8)  # exact zeros
        True
    """


class SpikeSlabConv2d(SelectingLayer, SpikeSlab, BayesianConv2d):
    """Convolution with Dirac spike-and-slab weights and biases: settings, modes and errors of `SpikeSlabLinear`.

    The other arguments are those of `nn.Conv2d`.

    Shapes:
        input (N, C_in, H, W) or (C_in, H, W), output likewise.

    Example:
        >>> layer = SpikeSlabConv2d(1, 4, 3, prior_inclusion_probability=0.01)
        >>> layer(torch.randn(8, 1, 5, 5)).shape
        torch.Size([8, 4, 3, 3])
    """
