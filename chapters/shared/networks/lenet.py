"""LeNet-300-100, and the LeNet-5 of Caffe (LeCun et al., 1998)."""

from collections.abc import Callable

import torch
from torch import nn

from bnnlib.models.mlp import mlp
from chapters.shared.networks.layers import sequential


def lenet_300_100(
    layer: Callable[..., nn.Module] = nn.Linear, *, generator: torch.Generator | None = None, **options
) -> nn.Sequential:
    """Fully connected 784-300-100-10 network with ReLU, 266,610 weights and biases.

    Args:
        layer: `nn.Linear` or a linear layer of `bnnlib.nn`.
        generator: of the initial weights, on the CPU; None means PyTorch's global one.
        options: passed on to every layer.

    Shapes:
        input (n, 1, 28, 28) or (n, 784); output logits (n, 10).

    Example:
        >>> lenet_300_100()(torch.rand(8, 1, 28, 28)).shape
        torch.Size([8, 10])
    """
    return mlp((784, 300, 100, 10), "relu", layer, flatten=True, generator=generator, **options)


def lenet5_caffe(
    conv: Callable[..., nn.Module] = nn.Conv2d,
    layer: Callable[..., nn.Module] = nn.Linear,
    *,
    generator: torch.Generator | None = None,
    **options,
) -> nn.Sequential:
    """Two 5 x 5 convolutions to 20 and 50 channels, then 800-500-10: 431,080 weights and biases.

    Each convolution, without padding, is followed by 2 x 2 max pooling and ReLU. Caffe's own file has a ReLU after the
    first fully connected layer alone; the papers on pruning put one after every layer but the last, as here. Parameters
    are named conv1, conv2, fc1 and fc2, each with .weight and .bias.

    Args:
        conv: `nn.Conv2d` or a convolution of `bnnlib.nn`.
        layer: `nn.Linear` or a linear layer of `bnnlib.nn`.
        generator: of the initial weights, on the CPU; None means PyTorch's global one. They are drawn as
            U(-1, 1)/sqrt(fan_in), PyTorch's own choice.
        options: passed on to every convolution and linear layer.

    Shapes:
        input (n, 1, 28, 28); output logits (n, 10).

    Example:
        >>> model = lenet5_caffe()
        >>> model(torch.rand(2, 1, 28, 28)).shape, sum(one.numel() for one in model.parameters())
        (torch.Size([2, 10]), 431080)
    """
    layers: list[tuple[str, nn.Module]] = [
        ("conv1", conv(1, 20, 5, **options)),
        ("pool1", nn.MaxPool2d(2)),
        ("relu1", nn.ReLU()),
        ("conv2", conv(20, 50, 5, **options)),
        ("pool2", nn.MaxPool2d(2)),
        ("relu2", nn.ReLU()),
        ("flatten", nn.Flatten()),
        ("fc1", layer(800, 500, **options)),
        ("relu3", nn.ReLU()),
        ("fc2", layer(500, 10, **options)),
    ]
    return sequential(layers, generator)
