"""One network of a stack as ordinary layers: what a stack is compared with."""

import torch
from torch import nn

from bnnlib import nn as bnn
from bnnlib import replicates

LAYERS = {
    replicates.StackedDeterministic: nn.Linear,
    replicates.StackedGaussian: bnn.GaussianLinear,
    replicates.StackedSpikeSlab: bnn.SpikeSlabLinear,
    replicates.StackedGaussianSpikeSlab: bnn.GaussianSpikeSlabLinear,
    replicates.StackedSparseVD: bnn.SparseVDLinear,
    replicates.StackedHorseshoe: bnn.HorseshoeLinear,
}
ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}


@torch.no_grad()
def unstack(model, replicate):
    """Network `replicate` as an `nn.Sequential` with equal parameters, which are copies."""
    posterior, modules = model.posterior, []
    horseshoe, layout = isinstance(posterior, replicates.StackedHorseshoe), posterior.layout
    for index, size in enumerate(layout.pairs):
        kind, names = LAYERS[type(posterior)], {}
        if horseshoe and index == layout.num_layers - 1:
            kind, names = bnn.GaussianLinear, {"prior_scale": "output_scale"}
        elif kind is not nn.Linear:
            names = {name: name for name in kind._all_settings()}
        settings = {name: of(getattr(posterior, own), replicate) for name, own in names.items()}
        layer = kind(*size, **settings, dtype=posterior.weight.dtype)
        for name, parameter in layer.named_parameters():
            if horseshoe and name.startswith("unit"):
                values = getattr(posterior, name)[:, posterior.layer_of_row == index]
            elif horseshoe and name.startswith("layer"):
                values = getattr(posterior, name)[:, index]
            else:
                flat = posterior.mean() if kind is nn.Linear else getattr(posterior, name.replace("bias", "weight"))
                weight, bias = layout.layers(flat)[index]
                values = bias[..., 0] if name.startswith("bias") else weight
            parameter.copy_(values[replicate])
        modules += [layer, ACTIVATIONS[model.activation]()]
    return nn.Sequential(*modules[:-1])


def of(setting, replicate):
    values = torch.as_tensor(setting, dtype=torch.float64).flatten()
    return float(values[replicate if len(values) > 1 else 0])
