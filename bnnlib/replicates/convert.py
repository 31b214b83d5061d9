"""One network of a stack as an ordinary module."""

from __future__ import annotations

from typing import TypedDict

import torch
from torch import nn

from bnnlib import nn as bnn
from bnnlib.nn.base import BayesianLayer
from bnnlib.replicates.baselines import StackedHorseshoe, StackedInputHorseshoe, StackedSparseVD
from bnnlib.replicates.dropout import StackedDropout
from bnnlib.replicates.mixture import StackedGaussianSpikeSlab, StackedScaleMixture
from bnnlib.replicates.network import StackedMLP
from bnnlib.replicates.posteriors import StackedDeterministic, StackedGaussian, StackedPosterior, StackedSpikeSlab

_ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}


class _Factory(TypedDict):
    device: torch.device
    dtype: torch.dtype


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
    posterior, layout = model.posterior, model.posterior.layout
    modules: list[nn.Module] = []
    for index, (fan_in, fan_out) in enumerate(layout.pairs):
        layer = _empty_layer(posterior, replicate, index, fan_in, fan_out)
        for name, flat in _flat_parameters(posterior).items():
            weight, bias = layout.layers(flat.detach())[index]
            _fill(layer, name, weight[replicate])
            _fill(layer, name.replace("weight", "bias"), bias[replicate, :, 0])
        if isinstance(layer, bnn.HorseshoeLinear):
            rows = posterior.layer_of_row == index
            for name in ("unit_location", "unit_log_scale"):
                _fill(layer, name, getattr(posterior, name).detach()[replicate, rows])
            for name in ("layer_location", "layer_log_scale"):
                _fill(layer, name, getattr(posterior, name).detach()[replicate, index])
        if isinstance(posterior, StackedDropout) and (index or posterior.inputs):
            modules.append(nn.Dropout(1.0 - _of(posterior.keep, replicate)))
        modules += [layer, _ACTIVATIONS[model.activation]()]
    return nn.Sequential(*modules[:-1]).train(model.training)


def _flat_parameters(posterior: StackedPosterior) -> dict[str, torch.Tensor]:
    names = ("weight", "weight_rho", "weight_logit", "weight_log_variance")
    found = {name: getattr(posterior, name) for name in names if hasattr(posterior, name)}
    if isinstance(posterior, StackedDeterministic):
        found["weight"] = posterior.weight * posterior.mask
    return found


def _of(setting: torch.Tensor, replicate: int) -> float:
    """A setting's number for one replicate, where it has one for all or one for each."""
    values = setting.flatten()
    return float(values[replicate if len(values) > 1 else 0])


def _empty_layer(posterior: StackedPosterior, replicate: int, index: int, fan_in: int, fan_out: int) -> nn.Module:
    factory = _Factory(device=posterior.weight.device, dtype=posterior.weight.dtype)
    size = (fan_in, fan_out)
    if isinstance(posterior, StackedSpikeSlab):
        return bnn.SpikeSlabLinear(
            *size,
            prior_inclusion_probability=_of(posterior.prior_inclusion_probability, replicate),
            prior_scale=posterior.prior_scale,
            temperature=posterior.temperature,
            **factory,
        )
    if isinstance(posterior, StackedGaussianSpikeSlab):
        kind = bnn.ScaleMixtureLinear if isinstance(posterior, StackedScaleMixture) else bnn.GaussianSpikeSlabLinear
        slab, spike, inclusion = (_of(value, replicate) for value in posterior._settings().values())
        return kind(*size, slab_scale=slab, spike_scale=spike, prior_inclusion_probability=inclusion, **factory)
    if isinstance(posterior, StackedGaussian):
        return bnn.GaussianLinear(*size, prior_scale=posterior.prior_scale, **factory)
    if isinstance(posterior, StackedSparseVD):
        return bnn.SparseVDLinear(*size, threshold=posterior.threshold, **factory)
    if isinstance(posterior, StackedHorseshoe) and not isinstance(posterior, StackedInputHorseshoe):
        if index == posterior.layout.num_layers - 1:
            return bnn.GaussianLinear(*size, prior_scale=posterior.output_scale, **factory)
        return bnn.HorseshoeLinear(
            *size,
            unit_scale=posterior.unit_scale,
            layer_scale=posterior.layer_scale,
            threshold=posterior.threshold,
            **factory,
        )
    if isinstance(posterior, StackedDeterministic):
        return nn.Linear(*size, **factory)
    raise TypeError(
        f"{type(posterior).__name__} has no layers in bnnlib.nn, so its networks cannot be taken out of the stack. Use "
        "model.predict, or a stack of one of the posteriors in bnnlib.replicates."
    )


def _fill(layer: nn.Module | BayesianLayer, name: str, value: torch.Tensor) -> None:
    parameter = getattr(layer, name, None)
    if parameter is not None:  # the bias of variational dropout has no variance
        with torch.no_grad():
            parameter.copy_(value)
