"""Networks of the experiments on Structured Bayesian Pruning: where their noise stands and how units are counted."""

import contextlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.flop_counter import FlopCounterMode

from bnnlib.models import mlp
from bnnlib.nn import StructuredBayesianPruning, insert_unit_noise, unit_counts
from chapters.shared.networks import lenet5_caffe, vgg_like
from chapters.shared.training import EpochRows

_STAGES = ((1, 2), (2, 2), (3, 3), (4, 3), (5, 3))  # convolutions of the VGG-like network
_CONVS = [f"conv{stage}_{index}" for stage, last in _STAGES for index in range(1, last + 1)]
# the layers that read the units of the published tables, in the tables' order; "conv2 >" stands for what conv2 makes
UNITS = {
    "LeNet-500-300": ["1", "3", "5"],
    "LeNet-5": ["conv2", "conv2 >", "fc1", "fc2"],
    "VGG-like": [*_CONVS[1:], "fc1", "fc2"],
}


def network(params: dict[str, Any], seed: int) -> nn.Module:
    """An untrained deterministic network of the cell's architecture: "network", and "width" for the VGG-like one."""
    generator = torch.Generator().manual_seed(seed)
    if params["network"] == "LeNet-500-300":
        return mlp((784, 500, 300, 10), flatten=True, generator=generator)
    if params["network"] == "LeNet-5":
        return lenet5_caffe(generator=generator)
    return vgg_like(params["width"], generator=generator)


def add_noise(model: nn.Module, name: str, kl_weights: Sequence[float], **settings) -> nn.Module:
    """A copy with noise on all units of the tables; equation (sbp-noise).

    Args:
        model: from `network`.
        name: of its architecture.
        kl_weights: factor of the divergence for each layer of units, equation (sbp-scaling).
        settings: keyword arguments of `StructuredBayesianPruning`.
    """
    if name == "LeNet-5":
        noisy = insert_unit_noise(model, after=["conv2"], before=["fc1", "fc2"], **settings)
        layers = OrderedDict(noisy.named_children())
        # on pooled maps, where it costs a quarter; noise that is not negative commutes with ReLU and pooling
        layers["relu1"] = nn.Sequential(
            OrderedDict(relu=layers["relu1"], noise=StructuredBayesianPruning(20, **settings))
        )
        noisy = nn.Sequential(layers)
    else:
        noisy = insert_unit_noise(model, before=UNITS[name], **settings)
    noises = [module for module in noisy.modules() if isinstance(module, StructuredBayesianPruning)]
    for noise, weight in zip(noises, kl_weights, strict=True):
        noise.kl_weight = float(weight)
    return noisy


@torch.no_grad()
def units_left(small: nn.Module, name: str) -> list[int]:
    """Units that are left of the layers in the tables, for any method: those that the compressed network reads."""
    return [_count(small, reader) for reader in UNITS[name]]


def _count(small: nn.Module, reader: str) -> int:
    makes = reader.endswith(" >")
    weight = small.get_submodule(reader.removesuffix(" >")).weight
    return int((weight != 0).transpose(0, 0 if makes else 1).flatten(1).any(1).sum())


def flops(model: nn.Module, row: Tensor) -> int:
    """Floating-point operations of a forward pass of one row, a multiply-add counted as two."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(row)
    return counter.get_total_flops()


def _to_eval(module: nn.Module, _inputs: Any) -> None:
    module.eval()


@contextlib.contextmanager
def frozen_statistics(model: nn.Module) -> Iterator[None]:
    """Context in which batch norm uses its running statistics in training too, and does not change them, as published.

    Its scale and shift are trained all the same.
    """
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    handles = [norm.register_forward_pre_hook(_to_eval) for norm in norms]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class UnitCurve(EpochRows):
    """Units kept after every epoch, for each layer of noise."""

    def on_epoch(self, run: Any) -> None:
        self.rows.append([kept for kept, _ in unit_counts(run.model).values()])
