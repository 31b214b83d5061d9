"""ResNet-18 of pre-activation blocks for 32 x 32 images (He, Zhang, Ren and Sun, 2016, "Identity mappings")."""

from collections import OrderedDict
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib._checks import check_count, check_positive
from bnnlib.models.layers import Dropout
from chapters.shared.networks.layers import draw_initial, every


class PreActBlock(nn.Module):
    """Batch norm and ReLU before each of two 3 x 3 convolutions; the input is added to what they make.

    Where shapes differ, `shortcut`, a 1 x 1 convolution of the first activation, takes the place of the input.

    Args:
        inputs, outputs: channels.
        stride: of the first convolution.
        dropout: probability between the two convolutions.

    Shapes:
        input (n, inputs, h, w); output (n, outputs, ceil(h / stride), ceil(w / stride)).
    """

    def __init__(self, inputs: int, outputs: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.dropout = Dropout(dropout)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.stride = stride
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.bn1(x))
        shortcut = x if self.shortcut is None else self.shortcut(every(self.stride, active))
        return self.conv2(self.dropout(F.relu(self.bn2(self.conv1(active))))) + shortcut


class PreActResNet(nn.Module):
    """What `preact_resnet18` makes: a convolution, four stages of two blocks, the mean over positions, a linear layer.

    Parameters are named conv1, bn1, layer1.0.bn1, layer1.0.conv1, ..., layer2.0.shortcut, ..., fc.
    """

    def __init__(self, channels: Sequence[int], classes: int, dropout: float) -> None:
        super().__init__()
        first, second, third, last = channels
        self.conv1 = nn.Conv2d(3, first, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(first)
        self.layer1 = _stage(first, first, 1, dropout)
        self.layer2 = _stage(first, second, 2, dropout)
        self.layer3 = _stage(second, third, 2, dropout)
        self.layer4 = _stage(third, last, 2, dropout)
        self.fc = nn.Linear(last, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes) of images (n, 3, h, w)."""
        x = F.relu(self.bn1(self.conv1(x)))
        return self.fc(self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean(dim=(2, 3)))


def _stage(inputs: int, outputs: int, stride: int, dropout: float) -> nn.Sequential:
    blocks = (PreActBlock(inputs, outputs, stride, dropout), PreActBlock(outputs, outputs, 1, dropout))
    return nn.Sequential(OrderedDict((str(index), block) for index, block in enumerate(blocks)))


def preact_resnet18(
    width: float = 1.0, classes: int = 10, dropout: float = 0.0, *, generator: torch.Generator | None = None
) -> PreActResNet:
    """Four stages of two pre-activation blocks with 64, 128, 256 and 512 channels: 11,171,274 parameters.

    As in the code of Atanov et al. (2019): batch norm and ReLU follow the first convolution, although the first block
    begins with them, and nothing stands between the last block and the mean over positions.

    Args:
        width: factor of all channels; 0.25 has 700,794 parameters.
        classes: number of outputs.
        dropout: probability between the two convolutions of each block. The published networks have none.
        generator: of the initial weights, on the CPU; None means PyTorch's global one. They are drawn as
            U(-1, 1)/sqrt(fan_in), PyTorch's own choice; batch norm starts as the identity.

    Shapes:
        input (n, 3, 32, 32), larger images work too; output logits (n, classes).

    Raises:
        ValueError: width is not positive, classes is below 1, or dropout is outside [0, 1).
    """
    check_positive("width", width)
    check_count("classes", classes)
    channels = [max(1, round(width * count)) for count in (64, 128, 256, 512)]
    model = PreActResNet(channels, classes, dropout)
    draw_initial(model, generator)
    return model
