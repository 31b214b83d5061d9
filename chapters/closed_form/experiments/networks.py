"""Networks of experiments 6 to 9 of Saha, Liu and Liang (2024), their priors and where their means start."""

import math
from typing import Any

import torch
from torch import nn

from bnnlib.models import mlp
from bnnlib.nn import (
    BayesianLayer,
    GaussianSpikeSlabConv2d,
    GaussianSpikeSlabLinear,
    ScaleMixtureConv2d,
    ScaleMixtureLinear,
    SparseVDConv2d,
    SparseVDLinear,
)
from chapters.shared.networks import lenet5_caffe, lenet_300_100, vgg_like

LAYERS = {
    "sBNN": (GaussianSpikeSlabConv2d, GaussianSpikeSlabLinear),
    "BbB": (ScaleMixtureConv2d, ScaleMixtureLinear),
    "Sparse VD": (SparseVDConv2d, SparseVDLinear),
    "deterministic": (nn.Conv2d, nn.Linear),
}


def network(params: dict[str, Any], kind: str, seed: int, prior: dict[str, float] | None = None) -> nn.Module:
    """An untrained network of the cell's architecture.

    Args:
        params: of the cell: "network", with "sizes" or "width".
        kind: a key of `LAYERS`.
        seed: of the initial weights.
        prior: keyword arguments of the Bayesian layers.
    """
    conv, layer = LAYERS[kind]
    generator, options = torch.Generator().manual_seed(seed), prior or {}
    if params["network"] == "mlp":
        return mlp(params["sizes"], layer=layer, flatten=True, generator=generator, **options)
    if params["network"] == "LeNet-300-100":
        return lenet_300_100(layer, generator=generator, **options)
    if params["network"] == "LeNet-5":
        return lenet5_caffe(conv, layer, generator=generator, **options)
    return vgg_like(params["width"], conv, layer, generator=generator, **options)


@torch.no_grad()
def scale_means(model: nn.Module, factor: float) -> None:
    """Multiply the initial means: small ones start inside the spike, from where the data must pull them out."""
    for module in model.modules():
        if isinstance(module, BayesianLayer):
            for mean in module.mean():
                if mean is not None:
                    mean.mul_(factor)


def prior_of(candidate: dict[str, float]) -> dict[str, float]:
    """Keyword arguments of the layers from log tau_1, log tau_0, pi and the initial scale of a candidate.

    Sparse VD, whose prior has no settings, keeps the initial scale of its layers.
    """
    if "pi" not in candidate:
        return {}
    return {
        "slab_scale": math.exp(candidate["log_tau1"]),
        "spike_scale": math.exp(candidate["log_tau0"]),
        "prior_inclusion_probability": candidate["pi"],
        "initial_scale": candidate["initial_scale"],
    }
