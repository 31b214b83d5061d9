"""VGG networks with batch norm for 32 x 32 images: the VGG-like one of Zagoruyko (2015), and VGG-11."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch
from torch import nn

from bnnlib._checks import check_count, check_positive
from bnnlib.models.layers import Dropout, draw_initial

STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # channels and convolutions; each ends with a pooling
STAGES_11 = ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2))


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
    layers: list[tuple[str, nn.Module]] = []
    inputs = 3
    for stage, (channels, repeats) in enumerate(STAGES, 1):
        outputs = max(1, round(width * channels))
        for index in range(1, repeats + 1):
            name = f"{stage}_{index}"
            layers += [
                (f"conv{name}", conv(inputs, outputs, 3, padding=1, bias=False, **options)),
                (f"bn{name}", nn.BatchNorm2d(outputs)),
                (f"relu{name}", nn.ReLU()),
            ]
            inputs = outputs
        layers.append((f"pool{stage}", nn.MaxPool2d(2)))
    layers += [
        ("flatten", nn.Flatten()),
        ("fc1", layer(inputs, inputs, bias=False, **options)),
        ("bn_fc1", nn.BatchNorm1d(inputs)),
        ("relu_fc1", nn.ReLU()),
        ("fc2", layer(inputs, classes, **options)),
    ]
    model = nn.Sequential(OrderedDict(layers))
    draw_initial(model, generator)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                spread = math.sqrt(2.0 / (module.kernel_size[0] * module.kernel_size[1] * module.out_channels))
                module.weight.normal_(0.0, spread, generator=generator)
    return model


def vgg11(
    width: float = 1.0,
    classes: int = 10,
    dropout: Sequence[float] = (0.0, 0.0),
    *,
    generator: torch.Generator | None = None,
) -> nn.Sequential:
    """Eight convolutions with batch norm and one linear layer: 9,228,362 parameters (VGG-11 of Atanov et al., 2019).

    3 x 3 convolutions to 64, 128, 2 x 256, 2 x 512 and 2 x 512 channels, each with batch norm and ReLU and without a
    bias, which batch norm would cancel; 2 x 2 max pooling after each of the five groups; then 512 -> classes.
    Parameters are named conv1_1, bn1_1, conv2_1, ..., bn5_2, fc.

    Args:
        width: factor of all channels; 0.5, of the authors' own runs, has 2,310,186 parameters.
        classes: number of outputs.
        dropout: probabilities before the linear layer and inside the last three groups, between their convolutions.
            (0.5, 0.4) is the published dropout network, (0, 0) switches it off.
        generator: of the initial weights, on the CPU; None means PyTorch's global one. They are drawn as
            U(-1, 1)/sqrt(fan_in), PyTorch's own choice; batch norm starts as the identity.

    Shapes:
        input (n, 3, 32, 32), n at least 2 in training mode; output logits (n, classes).

    Raises:
        ValueError: width is not positive, classes is below 1, or dropout is not two probabilities below 1.

    Example:
        >>> model = vgg11(width=0.125)
        >>> model(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    check_positive("width", width)
    check_count("classes", classes)
    if not isinstance(dropout, Sequence) or len(dropout) != 2:
        raise ValueError(
            f"dropout is {dropout!r}, but it must hold two probabilities: before the linear layer and between "
            "convolutions, such as (0.5, 0.4)."
        )
    layers: list[tuple[str, nn.Module]] = []
    inputs = 3
    for stage, (channels, repeats) in enumerate(STAGES_11, 1):
        outputs = max(1, round(width * channels))
        for index in range(1, repeats + 1):
            name = f"{stage}_{index}"
            layers += [
                (f"conv{name}", nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)),
                (f"bn{name}", nn.BatchNorm2d(outputs)),
                (f"relu{name}", nn.ReLU()),
            ]
            if index < repeats:
                layers.append((f"dropout{name}", Dropout(dropout[1])))
            inputs = outputs
        layers.append((f"pool{stage}", nn.MaxPool2d(2)))
    layers += [
        ("flatten", nn.Flatten()),
        ("dropout", Dropout(dropout[0])),
        ("fc", nn.Linear(inputs, classes)),
    ]
    model = nn.Sequential(OrderedDict(layers))
    draw_initial(model, generator)
    return model
