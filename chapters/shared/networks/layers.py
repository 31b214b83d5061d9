"""What several networks are made of: the initial draw, and a way round a fault."""

import math
from collections import OrderedDict

import torch
from torch import Tensor, nn


def every(stride: int, x: Tensor) -> Tensor:
    """The positions that a 1 x 1 convolution with this stride reads.

    Taken beforehand, for the convolution without its stride is the same one: oneDNN writes past its workspace in the
    weight gradient of a strided one of fewer channels than a register holds, in channels_last (uxlfoundation/oneDNN,
    issue 6035; below eight channels on AVX2).
    """
    return x[:, :, ::stride, ::stride]


def sequential(layers: list[tuple[str, nn.Module]], generator: torch.Generator | None) -> nn.Sequential:
    """The layers by their names, one after the other, drawn by `draw_initial`."""
    model = nn.Sequential(OrderedDict(layers))
    draw_initial(model, generator)
    return model


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


@torch.no_grad()
def draw_convolutions(model: nn.Module, generator: torch.Generator | None) -> None:
    """Draw the weights of convolutions as N(0, 2 / fan_out), with PyTorch's global generator for None."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            spread = math.sqrt(2.0 / (module.kernel_size[0] * module.kernel_size[1] * module.out_channels))
            module.weight.normal_(0.0, spread, generator=generator)
