"""The losses of the estimators: mean negative log-likelihood over the batch, summed over the networks of a stack.

A target has a column for each output, or one for a label, and another where rows have weights: the last holds them.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib.replicates import GaussianLikelihood


class SharedGaussian(GaussianLikelihood):
    """`GaussianLikelihood` for targets that all networks share, or that each has of its own; a scale for each output.

    `scale` has the shape (R,), of several outputs (R, outputs).

    Shapes:
        output (R, batch, outputs), target ([R,] batch, outputs) or, with weights, ([R,] batch, outputs + 1).
    """

    def __init__(self, replicates: int, outputs: int = 1) -> None:
        super().__init__(replicates)
        self.log_scale = nn.Parameter(self.log_scale.detach().repeat(1, outputs))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        if target.shape[-1] == output.shape[-1]:
            return super().forward(output, target.expand_as(output))
        return (self._losses(output, target[..., :-1]) * target[..., -1:]).sum() / output.shape[1]


class Categorical(nn.Module):
    """-log softmax of the label's logit; a single output is the logit of the second of two classes.

    Shapes:
        output (R, batch, 1 or classes), target (R, batch, 1 or 2) or (batch, 1 or 2), its first column whole numbers.
    """

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        output, labels = logits(output), target[..., 0].long().expand(output.shape[:2])
        if target.shape[-1] == 1:
            return F.cross_entropy(output.flatten(0, 1), labels.flatten()) * len(output)
        losses = F.cross_entropy(output.flatten(0, 1), labels.flatten(), reduction="none")
        return (losses.unflatten(0, output.shape[:2]) * target[..., 1]).sum() / output.shape[1]


def logits(output: Tensor) -> Tensor:
    """One logit a class: a single output stands beside a 0."""
    return F.pad(output, (1, 0)) if output.shape[-1] == 1 else output
