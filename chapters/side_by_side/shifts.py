"""Images that are not quite those of training: rotated, blurred or noisy, in five severities."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

SHIFTS = ("rotation", "blur", "noise")


def shifted(x: Tensor, kind: str, severity: int) -> Tensor:
    """Images (n, c, h, w) with pixels in [0, 1], rotated by 12 degrees, blurred over half a pixel or with normal noise
    of .1, each times the severity from 1 to 5.

    Example:
        >>> shifted(torch.rand(2, 1, 8, 8), "blur", 3).shape
        torch.Size([2, 1, 8, 8])
    """
    if kind == "rotation":
        angle = math.radians(12.0 * severity)
        turn = [[math.cos(angle), -math.sin(angle), 0.0], [math.sin(angle), math.cos(angle), 0.0]]
        grid = F.affine_grid(torch.tensor(turn).expand(len(x), 2, 3), list(x.shape), align_corners=False)
        return F.grid_sample(x, grid.to(x), align_corners=False)
    if kind == "blur":
        places = torch.arange(-6.0, 7.0, device=x.device)
        line = torch.exp(-0.5 * (places / (0.5 * severity)).square())
        line = (line / line.sum()).expand(x.shape[1], 1, 1, -1)
        across = F.conv2d(x, line, padding=(0, 6), groups=x.shape[1])
        return F.conv2d(across, line.transpose(2, 3), padding=(6, 0), groups=x.shape[1])
    noise = torch.empty(x.shape).normal_(generator=torch.Generator().manual_seed(severity))
    return (x + 0.1 * severity * noise.to(x)).clamp(0.0, 1.0)
