"""The one layer that a compressed network has of its own."""

from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bnnlib.nn.base import give_hooks

FULL_SIZES = "full_sizes"  # attribute of a layer of `compress`: its sizes before, for `load_compressed` to check


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
        if hasattr(layer, FULL_SIZES):
            self.full_sizes = layer.full_sizes
        give_hooks(layer, self)
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


def activated(layer: nn.Module) -> bool:
    """Whether a layer is timm's batch norm with an activation in it; by its name, since timm is not needed here."""
    return type(layer).__name__ == "BatchNormAct2d" and isinstance(layer, nn.BatchNorm2d)


def sizes_of(layer: nn.Module) -> tuple[int, ...]:
    """What a layer of full size reads and makes: (inputs, units) with a convolution's groups, or (features,)."""
    if isinstance(layer, nn.Conv2d):
        return layer.in_channels, layer.out_channels, layer.groups
    if isinstance(layer, nn.Linear):
        return getattr(layer, "features", layer.in_features), layer.out_features
    return (layer.num_features,) if isinstance(layer, _BatchNorm) else ()


def keep_units(layer: nn.Module, rows: Tensor, columns: Tensor | None = None) -> None:
    """Leave to a layer some of its units, and to a linear or convolutional one some inputs, in place, by masks."""
    if rows.all() and (columns is None or columns.all()):
        return
    count = int(rows.sum())
    for name, values in [*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False)]:
        if values.dim() == 0 or name == "index":  # batches that batch norm has seen, inputs that are picked
            continue
        kept = values.detach()[rows.to(values.device)]
        if name == "weight" and columns is not None:
            kept = kept[:, columns.to(values.device)]
        kept = kept.clone()
        setattr(layer, name, nn.Parameter(kept, values.requires_grad) if isinstance(values, nn.Parameter) else kept)
    if isinstance(layer, _BatchNorm):
        layer.num_features = count
    elif isinstance(layer, nn.Conv2d):
        layer.out_channels = count
        if columns is None:
            layer.in_channels = layer.groups = count
        else:
            layer.in_channels = int(columns.sum())
    elif isinstance(layer, nn.Linear) and columns is not None:
        layer.out_features, layer.in_features = count, int(columns.sum())
