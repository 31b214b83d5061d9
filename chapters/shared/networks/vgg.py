"""The VGG-like network with batch norm for 32 x 32 images of Zagoruyko (2015)."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import nn

from bnnlib._checks import check_count, check_positive
from bnnlib.models.layers import Dropout
from chapters.shared.networks.layers import draw_convolutions, sequential

STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # channels and convolutions; each ends with a pooling


def groups(
    stages: Sequence[tuple[int, int]], width: float, conv: Callable[..., nn.Module], dropout: float | None = None
) -> tuple[list[tuple[str, nn.Module]], int]:
    """Named layers for RGB images, and the channels of the last: `stages` of (channels, number of convolutions).

    Each convolution, of 3 x 3, has batch norm and ReLU; dropout, if any, stands between two, a pooling after a stage.
    """
    layers: list[tuple[str, nn.Module]] = []
    inputs = 3
    for stage, (channels, repeats) in enumerate(stages, 1):
        outputs = max(1, round(width * channels))
        for index in range(1, repeats + 1):
            name = f"{stage}_{index}"
            layers += [
                (f"conv{name}", conv(inputs, outputs, 3, padding=1, bias=False)),
                (f"bn{name}", nn.BatchNorm2d(outputs)),
                (f"relu{name}", nn.ReLU()),
            ]
            if dropout is not None and index < repeats:
                layers.append((f"dropout{name}", Dropout(dropout)))
            inputs = outputs
        layers.append((f"pool{stage}", nn.MaxPool2d(2)))
    return layers, inputs


def vgg_like(
    width: float = 1.0,
    conv: Callable[..., nn.Module] = nn.Conv2d,
    layer: Callable[..., nn.Module] = nn.Linear,
    *,
    classes: int = 10,
    generator: torch.Generator | None = None,
    **options,
) -> nn.Sequential:
    """13 convolutions and two fully connected layers, with batch norm after all but the last: 14,987,210 parameters.

    3 x 3 convolutions to 64, 64, 128, 128, 3 x 256, 3 x 512 and 3 x 512 channels, each with batch norm and ReLU, and
    2 x 2 max pooling after each of the five groups; then 512-512-10. Without dropout, as Saha, Liu and Liang (2024,
    experiment 9) have it, and without biases where batch norm follows, which would cancel them. Parameters are named
    conv1_1, bn1_1, ..., conv5_3, bn5_3, fc1, bn_fc1, fc2.

    Convolutions start as N(0, 2 / (9 outputs)) as in Zagoruyko's code, linear layers as U(-1, 1)/sqrt(fan_in), batch
    norm as the identity.

    Args:
        width: factor of all 64, ..., 512 channels and of the hidden layer; 0.25 has 939,770 parameters.
        conv: `nn.Conv2d` or a convolution of `bnnlib.nn`.
        layer: `nn.Linear` or a linear layer of `bnnlib.nn`.
        classes: number of outputs.
        generator: of the initial weights, on the CPU; None means PyTorch's global one.
        options: passed on to every convolution and linear layer.

    Shapes:
        input (n, 3, 32, 32), n at least 2 in training mode; output logits (n, classes).

    Raises:
        ValueError: width is not positive, or classes is below 1.

    Example:
        >>> model = vgg_like(width=0.125)
        >>> model(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    check_positive("width", width)
    check_count("classes", classes)
    layers, inputs = groups(STAGES, width, partial(conv, **options))
    layers += [
        ("flatten", nn.Flatten()),
        ("fc1", layer(inputs, inputs, bias=False, **options)),
        ("bn_fc1", nn.BatchNorm1d(inputs)),
        ("relu_fc1", nn.ReLU()),
        ("fc2", layer(inputs, classes, **options)),
    ]
    model = sequential(layers, generator)
    draw_convolutions(model, generator)
    return model
