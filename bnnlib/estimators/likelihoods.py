"""The losses of the estimators: mean negative log-likelihood over the batch, summed over the networks of a stack."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib.replicates import GaussianLikelihood


class SharedGaussian(GaussianLikelihood):
    """`GaussianLikelihood` for targets that all networks share.

    Shapes:
        output (R, batch, outputs), target the same or (batch, outputs).
    """

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return super().forward(output, target.expand_as(output))


class Categorical(nn.Module):
    """-log softmax of the label's logit; a single output is the logit of the second of two classes.

    Shapes:
        output (R, batch, 1 or classes), target (R, batch, 1) or (batch, 1), integers.
    """

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        output, labels = logits(output), target.squeeze(-1).expand(output.shape[:2])
        return F.cross_entropy(output.flatten(0, 1), labels.flatten()) * len(output)


def logits(output: Tensor) -> Tensor:
    """One logit a class: a single output stands beside a 0."""
    return F.pad(output, (1, 0)) if output.shape[-1] == 1 else output
