"""Networks by their layer widths, from any kind of linear layer."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from bnnlib._checks import check_choice, check_count

#: The activations that networks can be asked for, by name.
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
    "gelu": nn.GELU,
}


def mlp(
    sizes: Sequence[int],
    activation: str = "relu",
    layer: Callable[..., nn.Module] = nn.Linear,
    *,
    flatten: bool = False,
    generator: torch.Generator | None = None,
    **options,
) -> nn.Sequential:
    """Fully connected network, with the activation between its layers and none at the end.

    Args:
        sizes: widths, inputs first and outputs last, at least two.
        activation: one of `ACTIVATIONS`.
        layer: called as layer(fan_in, fan_out, **options): `nn.Linear` or a linear layer of `bnnlib.nn`.
        flatten: put an `nn.Flatten` in front, for images.
        generator: of the initial weights, on the CPU; None means PyTorch's global one. They are drawn as
            U(-1, 1)/sqrt(fan_in), PyTorch's own choice.
        options: passed on to every layer.

    Shapes:
        input (n, sizes[0]), or with `flatten` (n, ...) with sizes[0] values a row; output (n, sizes[-1]).

    Raises:
        ValueError: fewer than two sizes, one below 1, or an unknown activation.

    Example:
        >>> from bnnlib.nn import SpikeSlabLinear
        >>> model = mlp((784, 32, 10), layer=SpikeSlabLinear, flatten=True, prior_inclusion_probability=0.01)
        >>> model(torch.rand(8, 1, 28, 28)).shape
        torch.Size([8, 10])
    """
    sizes = [check_count("sizes", size) for size in sizes]
    if len(sizes) < 2:
        raise ValueError(f"sizes is {sizes}, but a network needs at least an input and an output width.")
    check_choice("activation", activation, ACTIVATIONS)
    modules: list[nn.Module] = [nn.Flatten()] if flatten else []
    for index, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        linear = layer(fan_in, fan_out, **options)
        if generator is not None:
            _initialize(linear, generator)
        modules += [ACTIVATIONS[activation](), linear] if index else [linear]
    return nn.Sequential(*modules)


def _initialize(linear: Any, generator: torch.Generator) -> None:
    bound = 1.0 / math.sqrt(linear.weight.shape[1])
    with torch.no_grad():
        for mean in (linear.weight, linear.bias):
            if mean is not None:
                mean.uniform_(-bound, bound, generator=generator)
