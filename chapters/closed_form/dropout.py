"""A stack of networks with dropout, used with and without its noise."""

import torch
from torch import Tensor

from bnnlib._checks import check_probability
from bnnlib._noise import Source, draw_uniform
from bnnlib.replicates import Layout, StackedDeterministic
from bnnlib.replicates.layout import PerReplicate


class StackedDropout(StackedDeterministic):
    """Point estimates under dropout; Monte-Carlo dropout (Gal and Ghahramani, 2016) where they are drawn.

    In training every row drops its own inputs of every layer. `draw` gives one network: the columns of the weights
    that belong to dropped units are 0 for all rows. `mean` gives the network without noise.

    Args:
        layout: names the layers inside the flat parameter dimension.
        weight: initial values, shape (replicates, parameters).
        probability: of dropping a unit, in [0, 1); one number or one for each replicate.
        inputs: also drop the network's inputs (as Monte-Carlo dropout does), not only its hidden units.

    Raises:
        ValueError: a probability is outside [0, 1), or there is neither one nor one for each replicate.

    Example:
        >>> from bnnlib.replicates import StackedMLP
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> model = StackedMLP(StackedDropout(layout, layout.kaiming_uniform(None), 0.1))
        >>> model(torch.randn(32, 5)).shape
        torch.Size([10, 32, 1])
    """

    keep: Tensor

    def __init__(self, layout: Layout, weight: Tensor, probability: PerReplicate, inputs: bool = False):
        super().__init__(layout, weight)
        dropped = check_probability("probability", layout.column("probability", probability))
        keep = 1.0 - dropped.to(weight.dtype).unsqueeze(2)
        if not bool((keep > 0).all()):
            raise ValueError("probability is 1, which drops everything; it must be below 1.")
        self.inputs = inputs
        self.register_buffer("keep", keep.to(weight.device))

    def _dropped(self, values: Tensor, generator: Source) -> Tensor:
        kept = draw_uniform(values, generator) < self.keep
        return values * kept / self.keep

    def draw(self, generator=None):
        flat = []
        for index, (weight, bias) in enumerate(self.layout.layers(self.weight * self.mask)):
            if index or self.inputs:
                columns = self._dropped(torch.ones_like(weight[:, :1]), generator)
                weight = weight * columns
            flat += [weight.flatten(1), bias.flatten(1)]
        return torch.cat(flat, dim=1)

    def draw_layers(self, generator=None):
        if not self.training:
            return super().draw_layers(generator)
        layers = self.layout.layers(self.weight * self.mask)
        return [(w, b, index > 0 or self.inputs) for index, (w, b) in enumerate(layers)]

    def linear(self, layer, h, generator):
        if len(layer) == 2:
            return super().linear(layer, h, generator)
        weight, bias, noisy = layer
        return torch.baddbmm(bias, weight, self._dropped(h, generator) if noisy else h)
