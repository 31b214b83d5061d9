"""VGG-11 with batch norm for 32 x 32 images, thinner and with dropout as the chapter's experiments take it."""

from collections.abc import Sequence

import torch
from torch import nn

from bnnlib._checks import check_count, check_positive
from bnnlib.models.layers import Dropout
from chapters.shared.networks.layers import sequential
from chapters.shared.networks.vgg import groups

STAGES_11 = ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2))


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
    """
    check_positive("width", width)
    check_count("classes", classes)
    if not isinstance(dropout, Sequence) or len(dropout) != 2:
        raise ValueError(
            f"dropout is {dropout!r}, but it must hold two probabilities: before the linear layer and between "
            "convolutions, such as (0.5, 0.4)."
        )
    layers, inputs = groups(STAGES_11, width, nn.Conv2d, dropout[1])
    layers += [
        ("flatten", nn.Flatten()),
        ("dropout", Dropout(dropout[0])),
        ("fc", nn.Linear(inputs, classes)),
    ]
    return sequential(layers, generator)
