"""From a deterministic network, trained or not, to a Bayesian one in one call."""

from __future__ import annotations

import copy
from collections.abc import Callable

from torch import nn

from bnnlib.nn.base import BayesianLayer, check_choice
from bnnlib.nn.gaussian import GaussianConv2d, GaussianLinear
from bnnlib.nn.gaussian_spike_slab import (
    GaussianSpikeSlabConv2d,
    GaussianSpikeSlabLinear,
    ScaleMixtureConv2d,
    ScaleMixtureLinear,
)
from bnnlib.nn.horseshoe import HorseshoeLinear
from bnnlib.nn.sparse_vd import SparseVDConv2d, SparseVDLinear
from bnnlib.nn.spike_slab import SpikeSlabConv2d, SpikeSlabLinear

LAYERS: dict[str, dict[type[nn.Module], type[BayesianLayer]]] = {
    "gaussian": {nn.Linear: GaussianLinear, nn.Conv2d: GaussianConv2d},
    "gaussian_spike_slab": {nn.Linear: GaussianSpikeSlabLinear, nn.Conv2d: GaussianSpikeSlabConv2d},
    "scale_mixture": {nn.Linear: ScaleMixtureLinear, nn.Conv2d: ScaleMixtureConv2d},
    "spike_slab": {nn.Linear: SpikeSlabLinear, nn.Conv2d: SpikeSlabConv2d},
    "sparse_vd": {nn.Linear: SparseVDLinear, nn.Conv2d: SparseVDConv2d},
    "horseshoe": {nn.Linear: HorseshoeLinear},
}


def to_bayesian(
    model: nn.Module,
    layer: str = "gaussian",
    *,
    where: Callable[[str, nn.Module], bool] | None = None,
    unsupported: str = "keep",
    **settings,
) -> nn.Module:
    """A copy of `model` in which every `nn.Linear` and `nn.Conv2d` is a Bayesian layer around the same weights.

    The weights of the network become posterior means, and their names in the state_dict stay, so a checkpoint of the
    deterministic network still loads. Layers that are Bayesian already, and layers that are used twice, are respected.

    Args:
        model: any module; it is not changed.
        layer: "gaussian", "gaussian_spike_slab", "scale_mixture", "spike_slab", "sparse_vd" or "horseshoe".
        where: called as where(name, module) on each layer that could be converted; return False to leave it
            deterministic.
        unsupported: what to do with other modules that own parameters (normalization, embeddings, recurrent layers,
            subclasses): "keep" leaves them deterministic, "error" refuses and names them.
        settings: keyword arguments of the new layers, such as prior_scale or prior_inclusion_probability.

    Raises:
        ValueError: unknown layer or setting value, nothing to convert, or something unsupported with
            unsupported="error".
        TypeError: a setting that these layers do not have, or one that they need is missing.
    """
    kinds = LAYERS[check_choice("layer", layer, tuple(LAYERS))]
    check_choice("unsupported", unsupported, ("keep", "error"))
    model = copy.deepcopy(model)
    new: dict[nn.Module, nn.Module] = {}
    left: list[str] = []
    for name, module in model.named_modules():
        if isinstance(module, BayesianLayer):
            continue
        if type(module) in kinds and module._parameters.get("weight") is not None:
            if where is None or where(name, module):
                new[module] = kinds[type(module)].from_deterministic(module, **settings)
        elif next(module.parameters(recurse=False), None) is not None:
            left.append(f"{name or 'the model itself'} ({type(module).__name__})")
    if left and unsupported == "error":
        raise ValueError(
            f"layer={layer!r} has no Bayesian form of {', '.join(left)}. With unsupported='keep' they stay as they are."
        )
    if not new:
        raise ValueError(
            f"{type(model).__name__} has no layer to convert: layer={layer!r} replaces plain "
            f"{' and '.join('nn.' + kind.__name__ for kind in kinds)} modules that `where` accepts."
        )
    for module in list(model.modules()):
        for name, child in module._modules.items():
            if child in new:
                module._modules[name] = new[child]
        if isinstance(module, nn.TransformerEncoderLayer):
            # PyTorch's fused path in eval() reads the weights without calling the layers, which would then never sample
            module.activation_relu_or_gelu = 0
    return new.get(model, model)
