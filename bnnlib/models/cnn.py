"""The two convolutional networks for 28 x 28 gray images of Deng, Zhang, Liang and Lin (2019, section 5.1)."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib._checks import check_probability
from bnnlib.nn.noise import Keyed, draw_uniform


class Dropout(Keyed, nn.Module):
    """Dropout whose noise comes from `bnnlib.nn.redraw` or `bnnlib.nn.use_generator`, so that a resumed run repeats it.

    Args:
        probability: of setting an entry to 0, in [0, 1); what is left is divided by 1 - probability.

    Shapes:
        input and output (...), any.

    Raises:
        ValueError: probability is outside [0, 1).

    Example:
        >>> layer = Dropout(0.5)
        >>> torch.equal(layer.eval()(torch.ones(8)), torch.ones(8))
        True
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        check_probability("probability", probability)
        if probability == 1.0:
            raise ValueError("probability is 1, which drops everything; it must be below 1.")
        self.probability = float(probability)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.probability == 0.0:
            return x
        keep = draw_uniform(x, self._noise(None)) >= self.probability
        return x * keep / (1.0 - self.probability)

    def extra_repr(self) -> str:
        return f"probability={self.probability:g}"


class ReLUPool(nn.Module):
    """ReLU and 2 x 2 max pooling of (n, c, h, w) images; both orders give the same, and pooling first is cheaper."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(F.max_pool2d(x, 2))


def draw_initial(model: nn.Module, generator: torch.Generator | None) -> None:
    """Draw the weights and biases of linear and convolutional layers as U(-1, 1)/sqrt(fan_in), PyTorch's own choice.

    Args:
        model: on the CPU.
        generator: on the CPU; None leaves what PyTorch's global generator drew.
    """
    if generator is None:
        return
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, (nn.Linear, nn.Conv2d)):
                bound = 1.0 / math.sqrt(module.weight[0].numel())
                for values in (module.weight, module.bias):
                    if values is not None:
                        values.uniform_(-bound, bound, generator=generator)


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

    Example:
        >>> model = cnn_two_conv()
        >>> model(torch.rand(2, 1, 28, 28)).shape, sum(one.numel() for one in model.parameters())
        (torch.Size([2, 10]), 681506)
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
    model = nn.Sequential(OrderedDict(layers))
    draw_initial(model, generator)
    return model


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

    Example:
        >>> model = cnn_batch_norm()
        >>> model(torch.rand(2, 1, 28, 28)).shape, sum(one.numel() for one in model.parameters())
        (torch.Size([2, 10]), 493772)
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
    model = nn.Sequential(OrderedDict(layers))
    draw_initial(model, generator)
    return model
