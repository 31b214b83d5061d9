"""The two convolutional networks for 28 x 28 gray images of Deng, Zhang, Liang and Lin (2019, section 5.1)."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib.models.layers import Dropout
from chapters.shared.networks.layers import sequential


class ReLUPool(nn.Module):
    """ReLU and 2 x 2 max pooling of (n, c, h, w) images; both orders give the same, and pooling first is cheaper."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(F.max_pool2d(x, 2))


def cnn_two_conv(dropout: float = 0.0, *, generator: torch.Generator | None = None) -> nn.Sequential:
    """Two convolutions and two fully connected layers, 681,506 parameters ("2-Conv-2-FC", paper section 5.1).

    5 x 5 convolutions to 32 and 64 channels, each with ReLU and 2 x 2 max pooling, then 3136 -> 200 -> 10. The sparse
    layer of the paper is `fc1`. Parameters are named conv1, conv2, fc1 and fc2, each with .weight and .bias.

    Args:
        dropout: probability of dropping an input of fc1 (0.5 in the paper's row "Dropout").
        generator: of the initial weights, on the CPU; None means PyTorch's global one.

    Shapes:
        input (n, 1, 28, 28); output logits (n, 10).

    Raises:
        ValueError: dropout is outside [0, 1).
    """
    layers: list[tuple[str, nn.Module]] = [
        ("conv1", nn.Conv2d(1, 32, 5, padding=2)),
        ("pool1", ReLUPool()),
        ("conv2", nn.Conv2d(32, 64, 5, padding=2)),
        ("pool2", ReLUPool()),
        ("flatten", nn.Flatten()),
        ("dropout", Dropout(dropout)),
        ("fc1", nn.Linear(3136, 200)),
        ("relu", nn.ReLU()),
        ("fc2", nn.Linear(200, 10)),
    ]
    return sequential(layers, generator)


def cnn_batch_norm(dropout: Sequence[float] = (0.1, 0.3), *, generator: torch.Generator | None = None) -> nn.Sequential:
    """Two convolutions and three fully connected layers with batch norm, 493,772 parameters ("2-Conv-BN-3-FC").

    Batch norm of the image; 4 x 4 convolutions 1 -> 64 (padding 2) and 64 -> 64 (none), each with ReLU, 2 x 2 max
    pooling and dropout; 1600 -> 256 -> 64 with batch norm -> 10. Paper section 5.1; the layers are those of the
    authors' code, where dropout is active in the samplers' training too.

    Args:
        dropout: probabilities after the first and the second pooling; (0, 0) switches it off.
        generator: of the initial weights, on the CPU; None means PyTorch's global one.

    Shapes:
        input (n, 1, 28, 28), n at least 2 in training mode; output logits (n, 10).

    Raises:
        ValueError: dropout is not two probabilities below 1.
    """
    if len(dropout) != 2:
        raise ValueError(f"dropout is {tuple(dropout)}, but it must hold two probabilities, one for each pooling.")
    layers: list[tuple[str, nn.Module]] = [
        ("bn0", nn.BatchNorm2d(1)),
        ("conv1", nn.Conv2d(1, 64, 4, padding=2)),
        ("pool1", ReLUPool()),
        ("dropout1", Dropout(dropout[0])),
        ("conv2", nn.Conv2d(64, 64, 4)),
        ("pool2", ReLUPool()),
        ("dropout2", Dropout(dropout[1])),
        ("flatten", nn.Flatten()),
        ("fc1", nn.Linear(1600, 256)),
        ("relu1", nn.ReLU()),
        ("fc2", nn.Linear(256, 64)),
        ("bn2", nn.BatchNorm1d(64)),
        ("relu2", nn.ReLU()),
        ("fc3", nn.Linear(64, 10)),
    ]
    return sequential(layers, generator)
