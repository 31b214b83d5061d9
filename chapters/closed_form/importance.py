"""Importance of a network's inputs, read off its layers' inclusion probabilities: Saha et al. (2024), section 3.5."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from bnnlib.functional import path_importance
from bnnlib.nn.selection import SelectingLayer

_ACTIVATIONS = (
    nn.CELU, nn.ELU, nn.GELU, nn.Hardshrink, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.LeakyReLU, nn.LogSigmoid,
    nn.LogSoftmax, nn.Mish, nn.PReLU, nn.ReLU, nn.ReLU6, nn.SELU, nn.Sigmoid, nn.SiLU, nn.Softmax, nn.Softplus,
    nn.Softshrink, nn.Softsign, nn.Tanh, nn.Tanhshrink, nn.Threshold,
)  # fmt: skip
_POOLING = (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.AvgPool2d, nn.FractionalMaxPool2d, nn.LPPool2d, nn.MaxPool2d)
_DROPOUT = (nn.AlphaDropout, nn.Dropout, nn.Dropout2d, nn.FeatureAlphaDropout)
_NORMALIZATION = (nn.modules.batchnorm._BatchNorm, nn.GroupNorm, nn.InstanceNorm2d, nn.LayerNorm)
# each output of theirs belongs to one node of the layer before, so that paths go straight through (a softmax and some
# normalizations look at the others too, but without weights of their own)
PASSES = (*_ACTIVATIONS, *_POOLING, *_DROPOUT, *_NORMALIZATION, nn.Identity)


@torch.no_grad()
def feature_importance(model: nn.Module, *, passes: tuple[type[nn.Module], ...] = ()) -> Tensor:
    """psi of every input of a stack of layers, the mean of prod p* over the paths to an output.

    Equation (sbnn-psi), (3.18) of the paper, which has it for fully connected networks. The
    nodes of a convolution are its channels: a path takes one weight of the filter that joins two of them, so P holds
    the mean of p* over the filter's positions (0 where groups leave two channels apart), and behind an `nn.Flatten` the
    mean over the positions of a channel. Padding, stride and pooling do not change it, and biases are on no path.

    Args:
        model: an `nn.Sequential`, nested or not, of linear and convolutional layers with inclusion probabilities,
            activations, 2-d pooling, dropout, normalization and `nn.Flatten`; or one such layer.
        passes: further classes of modules without weights whose outputs each depend on one node of the layer before,
            such as `bnnlib.models.Dropout`.

    Returns:
        Tensor (inputs,) of float64: the columns of a first linear layer, or the input channels of a first convolution.

    Raises:
        ValueError: the stack has no layer with probabilities, or two neighbors do not fit.
        TypeError: paths cannot be followed through a module, which the message names; one of `passes` with parameters.

    Example:
        >>> from bnnlib.nn import to_bayesian
        >>> network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
        >>> model = to_bayesian(network, "gaussian_spike_slab", slab_scale=1.0, spike_scale=0.01)
        >>> feature_importance(model).shape
        torch.Size([3])
    """
    inclusion: list[Tensor] = []
    nodes, grid, flattened = 0, False, False  # of the last layer; whether it has positions; whether they were flattened
    for name, module in _stack("", model):
        if isinstance(module, nn.Flatten):
            flattened, grid = flattened or grid, False
        elif isinstance(module, (nn.Linear, nn.Conv2d)) and isinstance(module, SelectingLayer):
            probability = module.inclusion_probability.double()
            if isinstance(module, nn.Conv2d):
                probability = _channels(module, probability)
            elif flattened and nodes and probability.shape[1] % nodes == 0:
                probability = probability.unflatten(1, (nodes, -1)).mean(-1)
            if inclusion and (probability.shape[1] != nodes or (grid and isinstance(module, nn.Linear))):
                raise ValueError(
                    f"{name} reads {probability.shape[1]} units, but the layer before it has {nodes}"
                    f"{' channels with positions' if grid else ''}. The layers must follow one another, with an "
                    "nn.Flatten() between convolutions and linear layers."
                )
            inclusion.append(probability)
            nodes, grid, flattened = len(probability), isinstance(module, nn.Conv2d), False
        elif not isinstance(module, PASSES):
            if not isinstance(module, passes) or next(module.parameters(), None) is not None:
                raise TypeError(_fault(name, module))
    if not inclusion:
        raise ValueError(
            f"{type(model).__name__} has no layer with inclusion probabilities, so its inputs have no importance. "
            "Convert it with bnnlib.nn.to_bayesian(model, 'gaussian_spike_slab', ...) and train it."
        )
    return path_importance(inclusion)


def _stack(name: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    if isinstance(module, nn.Sequential):
        for key, child in module._modules.items():  # not named_children, which skips a second use of a module
            yield from _stack(f"{name}.{key}" if name else key, child)
    else:
        yield name or "the model", module


def _channels(layer: nn.Conv2d, probability: Tensor) -> Tensor:
    """P (out_channels, in_channels) of filters (out_channels, in_channels / groups, height, width)."""
    filters = probability.flatten(2).mean(-1).unflatten(0, (layer.groups, -1))
    return torch.block_diag(*filters)


def _fault(name: str, module: nn.Module) -> str:
    kind = type(module).__name__
    if isinstance(module, (nn.Linear, nn.modules.conv._ConvNd)):
        return (
            f"{name} is a {kind}, which has no inclusion probabilities, so the paths through it have no importance. "
            "Use GaussianSpikeSlabLinear or GaussianSpikeSlabConv2d, or bnnlib.nn.to_bayesian."
        )
    if next(module.parameters(), None) is not None:
        return (
            f"{name} is a {kind}, whose parameters join inputs in a way that is not known, so that it cannot be passed "
            "over. Write it as an nn.Sequential of linear and convolutional layers, or rank its inputs otherwise."
        )
    return (
        f"{name} is a {kind}, and how its outputs depend on its inputs is not known. If each depends on one node of "
        f"the layer before, give passes=({kind},); else write the stack as an nn.Sequential."
    )
