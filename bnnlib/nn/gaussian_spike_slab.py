"""Layers with the Gaussian spike-and-slab prior: inclusion probabilities in closed form, and Bayes by Backprop."""

from bnnlib.nn.gaussian import _EstimatingLayer
from bnnlib.nn.selection import SelectingLayer
from bnnlib.nn.shapes import BayesianConv2d, BayesianLinear
from bnnlib.posteriors import GaussianSpikeSlab, ScaleMixture


class GaussianSpikeSlabLinear(SelectingLayer, _EstimatingLayer, GaussianSpikeSlab, BayesianLinear):
    """Linear layer with the spike-and-slab prior of equation (3.1) of Saha, Liu and Liang (2024), p* in closed form.

    Posterior (sbnn-posterior), (3.3) of the paper: N(weight, softplus(weight_rho)^2) for the weight, Bernoulli(p*) for
    its indicator, with p* the closed form of Proposition 3.2: `inclusion_probability` follows the weights and is no
    parameter.
    `kl_divergence` is minimized over p, so that training by the objective (sbnn-objective) is what the paper's
    alternating Algorithm 1 does.

    Args:
        in_features, out_features, bias, device, dtype: as for `nn.Linear`.
        slab_scale: tau_1, the prior standard deviation of a weight that is in.
        spike_scale: tau_0, that of a weight that is out; below slab_scale.
        prior_inclusion_probability: pi, strictly between 0 and 1.
        initial_scale: initial posterior standard deviation.
        estimator: "weight", "local" or "flipout", as for `GaussianLinear`.

    Shapes:
        input (*, in_features), output (*, out_features).

    Raises:
        ValueError: a scale is not positive, spike_scale is not below slab_scale, the probability is not strictly
            between 0 and 1, or the estimator is unknown.

    Example:
        >>> layer = GaussianSpikeSlabLinear(3, 2, slab_scale=1.0, spike_scale=0.01)
        >>> layer(torch.randn(8, 3)).shape
        torch.Size([8, 2])
        >>> layer.inclusion_probability.shape, layer.bias_inclusion_probability.shape
        (torch.Size([2, 3]), torch.Size([2]))
    """


class GaussianSpikeSlabConv2d(SelectingLayer, _EstimatingLayer, GaussianSpikeSlab, BayesianConv2d):
    """Convolution with a spike-and-slab prior on weights and biases: settings and errors of `GaussianSpikeSlabLinear`.

    The other arguments are those of `nn.Conv2d`.

    Shapes:
        input (N, C_in, H, W) or (C_in, H, W), output likewise.

    Example:
        >>> layer = GaussianSpikeSlabConv2d(1, 4, 3, slab_scale=1.0, spike_scale=0.01)
        >>> layer(torch.randn(8, 1, 5, 5)).shape
        torch.Size([8, 4, 3, 3])
    """


class ScaleMixtureLinear(SelectingLayer, ScaleMixture, BayesianLinear):
    """Linear layer of Bayes by Backprop with its scale-mixture prior, equation (7) of Blundell et al. (2015).

    The same prior as `GaussianSpikeSlabLinear` with the indicators summed out. The divergence to it has no closed form;
    its gradient is estimated at the weights of the last draw, equations (sbnn-bbb-mean) and (sbnn-bbb-scale), and
    `kl_divergence` is a one-draw estimate. `inclusion_probability` is p* at the posterior's moments, to compare.

    Args and errors: as for `GaussianSpikeSlabLinear`, without an estimator.

    Shapes:
        input (*, in_features), output (*, out_features).

    Example:
        >>> layer = ScaleMixtureLinear(3, 2, slab_scale=1.0, spike_scale=0.01)
        >>> layer(torch.randn(8, 3)).shape
        torch.Size([8, 2])
    """


class ScaleMixtureConv2d(SelectingLayer, ScaleMixture, BayesianConv2d):
    """Convolution of Bayes by Backprop with its scale-mixture prior: settings and errors of `ScaleMixtureLinear`.

    The other arguments are those of `nn.Conv2d`.

    Shapes:
        input (N, C_in, H, W) or (C_in, H, W), output likewise.

    Example:
        >>> layer = ScaleMixtureConv2d(1, 4, 3, slab_scale=1.0, spike_scale=0.01)
        >>> layer(torch.randn(8, 1, 5, 5)).shape
        torch.Size([8, 4, 3, 3])
    """
