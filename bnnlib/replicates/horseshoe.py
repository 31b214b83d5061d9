"""Stacks under the horseshoe, whose scales belong to the units of each layer, and to the inputs."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib import posteriors
from bnnlib._checks import check_scale
from bnnlib.posteriors.settings import setting
from bnnlib.replicates.layout import Layout
from bnnlib.replicates.posteriors import StackedPosterior


class StackedHorseshoe(StackedPosterior, posteriors.Horseshoe):
    """Horseshoe network, non-centered and factorised (Ghosh, Yao and Doshi-Velez, 2018).

    Hidden layers are those of `nn.HorseshoeLinear`; the output layer has a Gaussian prior of standard deviation
    `output_scale`. A hidden unit is off when the median of its scale is below `threshold`.

    Example:
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> StackedHorseshoe(layout, layout.kaiming_uniform(None)).kl_divergence().shape
        torch.Size([10])
    """

    output_scale = setting("output_scale", check_scale, 1.0)
    layer_of_row: Tensor
    owner: Tensor
    unit_location: Tensor
    layer_location: Tensor

    def __init__(self, layout: Layout, weight: Tensor, *settings: Any, **named: Any):
        super().__init__(layout, weight, *settings, **named)
        hidden = torch.tensor(layout.sizes[1:-1], device="cpu", dtype=torch.long)
        layers = torch.arange(len(hidden), device="cpu").repeat_interleave(hidden)
        self.register_buffer("layer_of_row", layers.to(weight.device))
        # which unit's scale multiplies each flat weight; the output layer reads the extra last column, which is 1
        rows, owners = 0, []
        for fan_in, fan_out in layout.pairs:
            units = torch.arange(rows, rows + fan_out, device="cpu").clamp_max(len(layers))
            owners += [units.repeat_interleave(fan_in), units]
            rows += fan_out
        self.register_buffer("owner", torch.cat(owners).to(weight.device))

    def _like(self, name: str) -> Tensor:
        hidden = self.layout.sizes[1:-1]
        return self.weight.new_empty(self.layout.replicates, len(hidden) if name == "layer" else sum(hidden))

    def _units(self, unit: Tensor, layer: Tensor) -> Tensor:
        """Scales of all hidden units, shape (replicates, hidden units)."""
        return (unit + layer[:, self.layer_of_row]).exp()

    def _factors(self, unit: Tensor, layer: Tensor, *inputs: Tensor) -> list[Tensor]:  # type: ignore[override]
        return [F.pad(self._units(unit, layer), (0, 1), value=1.0)[:, self.owner]]

    @property
    def _prior(self) -> float | Tensor:
        if self.output_scale == 1.0:
            return 1.0
        outputs = self.owner == self.unit_location.shape[1]
        return self.weight.new_ones(len(outputs)).masked_fill_(outputs, self.output_scale)

    def active_units(self) -> Tensor:
        """Boolean (replicates, hidden units): median scale at or above the threshold."""
        return self._units(self.unit_location, self.layer_location).detach() >= self.threshold

    def _masks(self) -> list[Tensor]:
        return [F.pad(self.active_units(), (0, 1), value=True)[:, self.owner]]


class StackedInputHorseshoe(StackedHorseshoe):
    """A horseshoe network that switches inputs off too, as the group horseshoe of Louizos, Ullrich and Welling (2017).

    The weights that leave input j have a scale of their own beside those of `StackedHorseshoe`, s_j ~ C+(0,
    input_scale), log-normal in the posterior. With many inputs the scale of the first layer becomes small and that of
    the few that matter large, where the units alone would have to keep or drop all inputs together. A weight of the
    first layer is in when the median of the product of its scales is at or above `threshold`.

    Example:
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> StackedInputHorseshoe(layout, layout.kaiming_uniform(None)).active_inputs().shape
        torch.Size([10, 5])
    """

    input_scale = setting("input_scale", check_scale, 1.0)
    _scaled = ("unit", "layer", "input")

    def _like(self, name: str) -> Tensor:
        if name != "input":
            return super()._like(name)
        return self.weight.new_empty(self.layout.replicates, self.layout.sizes[0])

    def _factors(self, unit: Tensor, layer: Tensor, *inputs: Tensor) -> list[Tensor]:  # type: ignore[override]
        (factor,), rest = super()._factors(unit, layer), self.layout.num_parameters - self.layout.splits[0]
        # a row of the first layer's weights for each unit
        return [factor * F.pad(inputs[0].exp().repeat(1, self.layout.sizes[1]), (0, rest), value=1.0)]

    def _first(self) -> Tensor:
        """Median of the scale of every weight of the first layer, shape (replicates, units, inputs)."""
        return self.layout.layers(self._medians()[0])[0][0]

    def active_inputs(self) -> Tensor:
        """Boolean (replicates, inputs): a weight that leaves the input is in."""
        return self._first().amax(dim=1) >= self.threshold

    def active_units(self) -> Tensor:
        """Boolean (replicates, hidden units): in the first layer one of the weights is in, as for the others."""
        first = self._first().amax(dim=2) >= self.threshold
        return torch.cat([first, super().active_units()[:, first.shape[1] :]], dim=1)

    def _masks(self) -> list[Tensor]:
        first = (self._first() >= self.threshold).flatten(1)
        return [torch.cat([first, super()._masks()[0][:, first.shape[1] :]], dim=1)]
