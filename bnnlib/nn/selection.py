"""Layers whose weights have inclusion probabilities, as parameters or in closed form."""

from torch import Tensor

from bnnlib.posteriors.base import _Selecting


class SelectingLayer(_Selecting):
    """The probabilities of a layer's weights and of its biases apart."""

    @property
    def inclusion_probability(self) -> Tensor:
        """Posterior probability that a weight is in, in the shape of `weight`; without gradient."""
        return super().inclusion_probability[0]

    @property
    def bias_inclusion_probability(self) -> Tensor | None:
        """That of the biases, in the shape of `bias`; without gradient."""
        return super().inclusion_probability[1]
