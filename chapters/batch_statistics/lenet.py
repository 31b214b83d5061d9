"""LeNet-5 with batch norm, for 28 x 28 gray images."""

import torch
from torch import nn

from bnnlib.models.layers import Dropout
from chapters.shared.networks.layers import sequential


def lenet5_batch_norm(dropout: float = 0.0, *, generator: torch.Generator | None = None) -> nn.Sequential:
    """LeNet-5 with batch norm after both convolutions and the hidden layer: 431,650 parameters.

    Each of conv1 (20 channels), conv2 (50) and fc1 (500) is followed by batch norm, ReLU and dropout; 2 x 2 max pooling
    comes after the dropout of the convolutions, as in the code of Atanov et al. (2019). The three layers have
    no biases, which batch norm would cancel. Parameters are named conv1, bn1, conv2, bn2, fc1, bn3 and fc2.

    Args:
        dropout: probability at all three places; 0.5 is the published dropout network, 0 switches it off.
        generator: of the initial weights, on the CPU; None means PyTorch's global one. They are drawn as
            U(-1, 1)/sqrt(fan_in), PyTorch's own choice; batch norm starts as the identity.

    Shapes:
        input (n, 1, 28, 28), n at least 2 in training mode; output logits (n, 10).

    Raises:
        ValueError: dropout is outside [0, 1).
    """
    layers: list[tuple[str, nn.Module]] = [
        ("conv1", nn.Conv2d(1, 20, 5, bias=False)),
        ("bn1", nn.BatchNorm2d(20)),
        ("relu1", nn.ReLU()),
        ("dropout1", Dropout(dropout)),
        ("pool1", nn.MaxPool2d(2)),
        ("conv2", nn.Conv2d(20, 50, 5, bias=False)),
        ("bn2", nn.BatchNorm2d(50)),
        ("relu2", nn.ReLU()),
        ("dropout2", Dropout(dropout)),
        ("pool2", nn.MaxPool2d(2)),
        ("flatten", nn.Flatten()),
        ("fc1", nn.Linear(800, 500, bias=False)),
        ("bn3", nn.BatchNorm1d(500)),
        ("relu3", nn.ReLU()),
        ("dropout3", Dropout(dropout)),
        ("fc2", nn.Linear(500, 10)),
    ]
    return sequential(layers, generator)
