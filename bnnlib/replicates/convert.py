"""One network of a stack as an ordinary module."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bnnlib.replicates.dropout import StackedDropout
from bnnlib.replicates.network import StackedMLP

_ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}


def unstack(model: StackedMLP, replicate: int) -> nn.Sequential:
    """Network `replicate` of a stack as an `nn.Sequential` of the layers of `bnnlib.nn`, with equal parameters.

    The copy shares no memory with the stack. Its modes, divergence and predictions are those of that network alone.
    Under dropout an `nn.Dropout` stands before each layer whose inputs are dropped; it drops in `train()` only.

    Args:
        model: the stack.
        replicate: which network, from 0 to R - 1.

    Raises:
        ValueError: there is no such replicate.
        TypeError: the stack's posterior has no layers in `bnnlib.nn`.

    Example:
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> model = StackedMLP(StackedGaussian(layout, layout.kaiming_uniform(None)))
        >>> unstack(model, replicate=3)
        Sequential(
          (0): GaussianLinear(in_features=5, out_features=8, bias=True, prior_scale=1, estimator='weight')
          (1): ReLU()
          (2): GaussianLinear(in_features=8, out_features=1, bias=True, prior_scale=1, estimator='weight')
        )
    """
    if not 0 <= replicate < model.replicates:
        raise ValueError(
            f"replicate is {replicate}, but the stack has {model.replicates} networks, 0 to {model.replicates - 1}."
        )
    posterior, modules = model.posterior, []
    place = {"device": posterior.weight.device, "dtype": posterior.weight.dtype}
    for index, size in enumerate(posterior.layout.pairs):
        kind, settings = posterior.layer_of(index)
        if kind is None:
            raise TypeError(
                f"{type(posterior).__name__} has no layers in bnnlib.nn, so its networks cannot be taken out of the "
                "stack. Use model.predict, or a stack of one of the posteriors in bnnlib.replicates."
            )
        layer = kind(*size, **{name: _of(value, replicate) for name, value in settings.items()}, **place)
        with torch.no_grad():
            for name, parameter in layer.named_parameters():
                parameter.copy_(posterior.parameter_of(name, index)[replicate])
        if isinstance(posterior, StackedDropout) and (index or posterior.inputs):
            modules.append(nn.Dropout(1.0 - _of(posterior.keep, replicate)))
        modules += [layer, _ACTIVATIONS[model.activation]()]
    return nn.Sequential(*modules[:-1]).train(model.training)


def _of(setting: float | Tensor, replicate: int) -> float:
    """A setting's number for one replicate, where it has one for all or one for each."""
    values = torch.as_tensor(setting, dtype=torch.float64).flatten()
    return float(values[replicate if len(values) > 1 else 0])
