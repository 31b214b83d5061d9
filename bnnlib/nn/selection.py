"""What layers share whose weights have inclusion probabilities, as parameters or in closed form."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from bnnlib.nn.base import BayesianLayer, Parameters


class SelectingLayer(BayesianLayer):
    """A layer with the log-odds of inclusion of every weight and bias."""

    def inclusion_log_odds(self) -> Parameters:
        """Log-odds of (weight, bias), without gradient: the score that ranks weights, which never rounds to 1."""
        raise NotImplementedError

    @property
    def inclusion_probability(self) -> Tensor:
        """Posterior probability that a weight is in, in the shape of `weight`; without gradient."""
        return torch.sigmoid(self.inclusion_log_odds()[0])

    @property
    def bias_inclusion_probability(self) -> Tensor | None:
        """That of the biases, in the shape of `bias`; without gradient."""
        odds = self.inclusion_log_odds()[1]
        return None if odds is None else torch.sigmoid(odds)

    def active(self) -> Parameters:
        """Masks of the weights and biases whose probability exceeds 1/2: the median-probability model."""
        weight, bias = self.inclusion_log_odds()
        return weight > 0, None if bias is None else bias > 0

    def selected(self) -> Parameters:
        """Means, of the slab if there is one, where the probability exceeds 1/2, exactly 0 elsewhere."""
        weight, bias = self.active()
        return self.weight * weight, None if bias is None or self.bias is None else self.bias * bias

    def num_active(self) -> Tensor:
        """Expected number of weights and biases that are in: the sum of the probabilities, s_hat; float64."""
        odds = [o for o in self.inclusion_log_odds() if o is not None]
        return cast(Tensor, sum(torch.sigmoid(o).sum(dtype=torch.float64) for o in odds))
