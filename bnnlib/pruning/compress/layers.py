"""The one layer that a compressed network has of its own."""

from __future__ import annotations

from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class SelectedLinear(nn.Linear):
    """`nn.Linear` that reads only some of the features it is given; made by `compress`.

    Args:
        layer: a layer of all features, from which it takes the columns.
        index: (k,) int64, the features it reads, in ascending order.

    Attributes:
        features: number of features it is given.

    Shapes:
        input (*, features); output (*, out_features). The weight is (out_features, k).

    Example:
        >>> layer = SelectedLinear(torch.nn.Linear(5, 1), torch.tensor([0, 4]))  # reads features 0 and 4
        >>> layer(torch.randn(8, 5)).shape
        torch.Size([8, 1])
    """

    index: Tensor

    def __init__(self, layer: nn.Linear, index: Tensor) -> None:
        bias = layer.bias is not None
        super().__init__(len(index), layer.out_features, bias, device="meta")  # without initial values to draw
        self.features = layer.in_features
        self.weight = nn.Parameter(layer.weight.detach()[:, index].clone(), layer.weight.requires_grad)
        if bias:
            self.bias = nn.Parameter(layer.bias.detach().clone(), layer.bias.requires_grad)
        self.register_buffer("index", index.to(layer.weight.device))
        self.train(layer.training)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input.index_select(-1, self.index), self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, features={self.features}"


def running_statistics(layer: _BatchNorm) -> tuple[Tensor, Tensor]:
    """Running mean and variance of batch norm that tracks them, as all has that can be compressed."""
    return cast(Tensor, layer.running_mean), cast(Tensor, layer.running_var)


def replace_module(model: nn.Module, name: str, new: nn.Module | None) -> nn.Module:
    """Put a module in another's place, in place; None removes it from an `nn.Sequential` and elsewhere is the identity.

    What `insert_unit_noise` has wrapped as nn.Sequential(layer=..., noise=...) becomes the layer itself again.

    Returns:
        The model, which is the new module if the name is empty.
    """
    if not name:
        return nn.Identity() if new is None else new
    parent, _, own = name.rpartition(".")
    container = model.get_submodule(parent)
    if new is None and isinstance(container, nn.Sequential):
        del container._modules[own]
        if list(container._modules) == ["layer"]:
            return replace_module(model, parent, container._modules["layer"])
    else:
        container._modules[own] = nn.Identity() if new is None else new
    return model
