"""Every layer of `bnnlib.nn` in small, so that what all of them promise is tested on all of them."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

from bnnlib import nn as bnn

# where the random initial weights lie on both sides of the threshold p* = 1/2
MIXTURE = {"slab_scale": 1.0, "spike_scale": 0.1}

# the class without its shape, and settings
KINDS = {
    "gaussian": ("Gaussian", {}),
    "gaussian-local": ("Gaussian", {"estimator": "local"}),
    "gaussian-flipout": ("Gaussian", {"estimator": "flipout"}),
    "gaussian-spike-slab": ("GaussianSpikeSlab", MIXTURE),
    "gaussian-spike-slab-local": ("GaussianSpikeSlab", MIXTURE | {"estimator": "local"}),
    "gaussian-spike-slab-flipout": ("GaussianSpikeSlab", MIXTURE | {"estimator": "flipout"}),
    "scale-mixture": ("ScaleMixture", MIXTURE),
    "spike-slab": ("SpikeSlab", {"prior_inclusion_probability": 1e-3}),
    "sparse-vd": ("SparseVD", {}),
}
LINEAR, CONV = (
    {name: partial(getattr(bnn, kind + shape), **settings) for name, (kind, settings) in KINDS.items()}
    for shape in ("Linear", "Conv2d")
)
LINEAR["horseshoe"] = bnn.HorseshoeLinear


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


class Divergence(nn.Module):
    """The divergence of a network, as what a module computes."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self) -> torch.Tensor:
        return bnn.kl_divergence(self.network)


def small_network(linear: Callable[..., nn.Module]) -> nn.Sequential:
    """A 5-4-2 network of a linear layer, in float64, away from its initial values."""
    torch.manual_seed(0)
    return disturb(nn.Sequential(linear(5, 4), nn.Tanh(), linear(4, 2)).double())


@pytest.fixture
def network(linear) -> nn.Sequential:
    """The small network of each linear layer in turn."""
    return small_network(linear)


def unit_noise() -> nn.Sequential:
    """A network with noise on units, away from its initial values."""
    torch.manual_seed(0)
    noise = bnn.StructuredBayesianPruning(4, -1, initial_location=-0.3, initial_scale=0.4, kl_weight=2.0)
    return nn.Sequential(nn.Linear(5, 4), noise, nn.Linear(4, 2)).double()


def statistics() -> nn.Sequential:
    """A network with random batch statistics, in `eval()`."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), bnn.StochasticBatchNorm1d(4), nn.Linear(4, 2)).double()
    for _ in range(3):
        model(torch.randn(7, 5, dtype=torch.float64))
    return model.eval()


OTHERS = {"unit-noise": unit_noise, "statistics": statistics}


@pytest.fixture(params=[*(name for name in LINEAR if name != "scale-mixture"), "unit-noise"])
def exact_network(request) -> nn.Sequential:
    """The small network of each layer whose divergence has a closed form."""
    return OTHERS[request.param]() if request.param in OTHERS else small_network(LINEAR[request.param])


@pytest.fixture(params=[*LINEAR, *OTHERS])
def any_network(request) -> nn.Sequential:
    """The small network of each linear layer, and one of each other kind of randomness."""
    return OTHERS[request.param]() if request.param in OTHERS else small_network(LINEAR[request.param])
