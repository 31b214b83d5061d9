"""Images and networks of experiments 6 to 9 of Saha, Liu and Liang (2024)."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib.models import lenet5_caffe, lenet_300_100, mlp, vgg_like
from bnnlib.nn import (
    BayesianLayer,
    GaussianSpikeSlabConv2d,
    GaussianSpikeSlabLinear,
    ScaleMixtureConv2d,
    ScaleMixtureLinear,
)
from chapters.shared.held_out import Split, held_out_parts

LAYERS = {
    "sBNN": (GaussianSpikeSlabConv2d, GaussianSpikeSlabLinear),
    "BbB": (ScaleMixtureConv2d, ScaleMixtureLinear),
    "deterministic": (nn.Conv2d, nn.Linear),
}
# mean and standard deviation of a pixel in [0, 1]; Blundell et al. divide the bytes by 126 and center nothing
SCALING = {
    "blundell": ((0.0,), (126.0 / 255.0,)),
    "unit": ((0.0,), (1.0,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}


def load_images(params: dict[str, Any], device: torch.device) -> Split:
    """Rows for training, validation and test, as (n, c, h, w); which ones are held out does not depend on the seed.

    The smoke profile's digits of scikit-learn are enlarged to the size and repeated to the channels of the real images.
    """
    parts = held_out_parts(params["data"], params["held_out"])
    mean, scale = (torch.tensor(values).view(1, -1, 1, 1) for values in SCALING[params["scaling"]])
    return {name: (((_fitted(x, params) - mean) / scale).to(device), y.to(device)) for name, (x, y) in parts.items()}


def _fitted(x: Tensor, params: dict[str, Any]) -> Tensor:
    if params["data"] != "digits":
        return x
    channels, size = params["shape"]
    images = F.interpolate(x.reshape(-1, 1, 8, 8) / 16.0, size=(size, size), mode="bilinear")
    return images.expand(-1, channels, -1, -1)


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
    """Keyword arguments of the layers from log tau_1, log tau_0, pi and the initial scale of a candidate."""
    return {
        "slab_scale": math.exp(candidate["log_tau1"]),
        "spike_scale": math.exp(candidate["log_tau0"]),
        "prior_inclusion_probability": candidate["pi"],
        "initial_scale": candidate["initial_scale"],
    }
