"""Every layer of `bnnlib.nn` in small, so that what all of them promise is tested on all of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from bnnlib import nn as bnn

LINEAR: dict[str, Callable[..., nn.Module]] = {
    "gaussian": bnn.GaussianLinear,
    "gaussian-local": lambda *a, **k: bnn.GaussianLinear(*a, estimator="local", **k),
    "gaussian-flipout": lambda *a, **k: bnn.GaussianLinear(*a, estimator="flipout", **k),
    "spike-slab": lambda *a, **k: bnn.SpikeSlabLinear(*a, prior_inclusion_probability=1e-3, **k),
    "sparse-vd": bnn.SparseVDLinear,
    "horseshoe": bnn.HorseshoeLinear,
}
CONV: dict[str, Callable[..., nn.Module]] = {
    "gaussian": bnn.GaussianConv2d,
    "gaussian-local": lambda *a, **k: bnn.GaussianConv2d(*a, estimator="local", **k),
    "gaussian-flipout": lambda *a, **k: bnn.GaussianConv2d(*a, estimator="flipout", **k),
    "spike-slab": lambda *a, **k: bnn.SpikeSlabConv2d(*a, prior_inclusion_probability=1e-3, **k),
    "sparse-vd": bnn.SparseVDConv2d,
}


def disturb(module: nn.Module, seed: int = 0, by: float = 0.5) -> nn.Module:
    """Move every parameter away from its special initial value."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(by * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return module


@pytest.fixture(params=list(LINEAR))
def linear(request) -> Callable[..., nn.Module]:
    """Each linear layer in turn: called as linear(in_features, out_features, bias=True, **factory)."""
    return LINEAR[request.param]


@pytest.fixture(params=list(CONV))
def conv(request) -> Callable[..., nn.Module]:
    """Each convolution in turn."""
    return CONV[request.param]


@pytest.fixture
def network(linear) -> nn.Sequential:
    """A 5-4-2 network of each linear layer in turn, in float64, away from its initial values."""
    torch.manual_seed(0)
    return disturb(nn.Sequential(linear(5, 4), nn.Tanh(), linear(4, 2)).double())


@pytest.fixture
def x() -> torch.Tensor:
    """Seven inputs of five features."""
    return torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
