"""Residual networks for 32 x 32 images (He, Zhang, Ren and Sun, 2016, section 4.2)."""

from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib._checks import check_count
from chapters.shared.networks.layers import draw_convolutions, draw_initial, every


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions with batch norm around which the input is added; `downsample` fits it where shapes differ.

    Args:
        inputs, outputs: channels.
        stride: of the first convolution.

    Shapes:
        input (n, inputs, h, w); output (n, outputs, ceil(h / stride), ceil(w / stride)).
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride = stride
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(every(self.stride, x))
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + shortcut)


class ResNet(nn.Module):
    """What `resnet` makes: a convolution, three or four stages of basic blocks, a mean over positions, a linear layer.

    Parameters are named conv1, bn1, layer1.0.conv1, layer1.0.bn1, ..., layer2.0.downsample.0, ..., fc.

    Example:
        >>> isinstance(resnet(depth=8, width=4), ResNet)
        True
    """

    def __init__(self, blocks: int, width: int, classes: int, stages: int = 3) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = _stage(blocks, width, width, 1)
        self.layer2 = _stage(blocks, width, 2 * width, 2)
        self.layer3 = _stage(blocks, 2 * width, 4 * width, 2)
        if stages == 4:
            self.layer4 = _stage(blocks, 4 * width, 8 * width, 2)
        self.fc = nn.Linear(2 ** (stages - 1) * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes) of images (n, 3, h, w)."""
        x = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        if hasattr(self, "layer4"):
            x = self.layer4(x)
        return self.fc(x.mean(dim=(2, 3)))


def _stage(blocks: int, inputs: int, outputs: int, stride: int) -> nn.Sequential:
    first = BasicBlock(inputs, outputs, stride)
    rest = [BasicBlock(outputs, outputs, 1) for _ in range(blocks - 1)]
    return nn.Sequential(OrderedDict((str(index), block) for index, block in enumerate([first, *rest])))


def resnet(depth: int = 20, width: int = 16, classes: int = 10, *, generator: torch.Generator | None = None) -> ResNet:
    """Residual network of 6 n + 2 layers with 1 x 1 convolutions where the shape changes.

    As in the code of Deng et al. (2019): convolutions start as N(0, 2 / (k^2 outputs)), batch norm as the identity, the
    last layer as U(-1, 1)/sqrt(fan_in).

    Args:
        depth: 20, 32, 44, 56, 110 ...: 2 more than a multiple of 6.
        width: channels of the first stage; the second and third have twice and four times as many.
        classes: number of outputs.
        generator: of the initial weights, on the CPU; None means PyTorch's global one.

    Shapes:
        input (n, 3, 32, 32), larger images work too; output logits (n, classes).

    Raises:
        ValueError: the depth is not 6 n + 2, or a count is below 1.

    Example:
        >>> model = resnet(depth=8, width=4)
        >>> model(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    check_count("depth", depth, 8)
    if (depth - 2) % 6:
        raise ValueError(f"depth is {depth}, but it must be 2 more than a multiple of 6, such as 20, 32 or 56.")
    return _drawn(ResNet((depth - 2) // 6, check_count("width", width), check_count("classes", classes)), generator)


def _drawn(model: ResNet, generator: torch.Generator | None) -> ResNet:
    draw_initial(model.fc, generator)
    draw_convolutions(model, generator)
    return model


def resnet20(*, generator: torch.Generator | None = None) -> ResNet:
    """ResNet20 for CIFAR-10 (paper section 5.2): 272,474 parameters, 267,264 of them in the 18 block convolutions.

    The pattern "layer*.conv*.weight" names those 18, which are what the paper prunes; the first convolution and the two
    1 x 1 ones (layer2.0.downsample.0.weight, layer3.0.downsample.0.weight) are not among them.

    Args:
        generator: of the initial weights, on the CPU; None means PyTorch's global one.

    Example:
        >>> sum(one.numel() for one in resnet20().parameters())
        272474
    """
    return resnet(20, generator=generator)


def resnet18(width: int = 64, classes: int = 10, *, generator: torch.Generator | None = None) -> ResNet:
    """ResNet-18 for CIFAR-10: four stages of two blocks with 64, 128, 256 and 512 channels, 11,173,962 parameters.

    Args:
        width: channels of the first stage.
        classes: number of outputs.
        generator: of the initial weights, drawn as in `resnet`, on the CPU; None means PyTorch's global one.

    Shapes:
        input (n, 3, 32, 32), larger images work too; output logits (n, classes).

    Raises:
        ValueError: a count is below 1.

    Example:
        >>> model = resnet18(width=4)
        >>> model(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    return _drawn(ResNet(2, check_count("width", width), check_count("classes", classes), stages=4), generator)
