"""The Bayesian baselines whose weights are not drawn as one flat product: variational dropout and the horseshoes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib import functional as bF
from bnnlib._checks import check_positive, check_scale
from bnnlib.functional._autograd import total
from bnnlib.functional.gaussian import unchecked_gaussian_kl
from bnnlib.nn.settings import setting
from bnnlib.replicates.layout import Layout
from bnnlib.replicates.posteriors import StackedPosterior


class StackedSparseVD(StackedPosterior):
    """Sparse variational dropout (Molchanov et al., 2017): log-uniform prior, additive noise, local reparameterisation.

    Weights with log alpha above `threshold` (3 in the paper: a dropout rate over 0.95) are not active. Biases are
    deterministic, as published, and do not count.

    Example:
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> StackedSparseVD(layout, layout.kaiming_uniform(None)).sparsity().shape
        torch.Size([10])
    """

    def __init__(self, layout: Layout, weight: Tensor, initial_log_variance: float = -10.0, threshold: float = 3.0):
        super().__init__(layout, weight)
        self.threshold = threshold
        self.weight_log_variance = nn.Parameter(torch.full_like(weight, initial_log_variance))
        self.register_buffer("is_weight", layout.weight_mask(weight.device))

    def log_alpha(self) -> Tensor:
        """log(sigma^2 / mean^2), shape (replicates, parameters)."""
        return bF.log_alpha(self.weight, self.weight_log_variance)

    def draw(self, generator=None):
        noise = torch.empty_like(self.weight).normal_(generator=generator) * self.is_weight
        kept = self.active() if not self.training else 1.0
        return (self.weight + torch.exp(0.5 * self.weight_log_variance) * noise) * kept

    def draw_layers(self, generator=None):
        if not self.training:
            return super().draw_layers(generator)
        means = self.layout.layers(self.weight)
        variances = self.layout.layers(self.weight_log_variance.exp())
        return [(w, b, v) for (w, b), (v, _) in zip(means, variances, strict=True)]

    def linear(self, layer, h, generator):
        if len(layer) == 2:
            return super().linear(layer, h, generator)
        weight, bias, variance = layer
        mean = torch.baddbmm(bias, weight, h)
        spread = torch.sqrt(torch.bmm(variance, h.square()) + 1e-12)
        return mean + spread * torch.empty_like(mean).normal_(generator=generator)

    def mean(self):
        return self.weight.detach() * self.active()

    def kl_divergence(self):
        return total(bF.sparse_vd_kl(self.log_alpha()) * self.is_weight, dim=1)

    def active(self):
        return (self.log_alpha().detach() < self.threshold) | ~self.is_weight

    def sparsity(self):
        kept = self.active() & self.is_weight
        return 100.0 * (kept.sum(dim=1, dtype=torch.float64) / sum(self.layout.splits[::2]))


class StackedHorseshoe(StackedPosterior):
    """Horseshoe network, non-centered and factorised (Ghosh, Yao and Doshi-Velez, 2018).

    The incoming weights (and bias) of hidden unit k in layer l are tau_k * upsilon_l * beta with beta ~ N(0, 1),
    tau_k ~ C+(0, unit_scale), upsilon_l ~ C+(0, layer_scale); the output layer has a Gaussian prior. Posteriors:
    log-normal for the scales, Gaussian for beta. Sparsity is by unit: a hidden unit is off when the median of its
    scale tau_k * upsilon_l is below `threshold`.

    Example:
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> StackedHorseshoe(layout, layout.kaiming_uniform(None)).kl_divergence().shape
        torch.Size([10])
    """

    unit_scale = setting("unit_scale", check_scale)
    layer_scale = setting("layer_scale", check_scale)
    output_scale = setting("output_scale", check_scale)
    threshold = setting("threshold", check_positive)
    layer_of_row: Tensor
    owner: Tensor

    def __init__(
        self,
        layout: Layout,
        weight: Tensor,
        unit_scale: float = 1.0,
        layer_scale: float = 1.0,
        output_scale: float = 1.0,
        initial_scale: float = 0.0025,
        threshold: float = 0.05,
    ):
        super().__init__(layout, weight, initial_scale)
        self.threshold = threshold
        self.unit_scale, self.layer_scale, self.output_scale = unit_scale, layer_scale, output_scale
        hidden = layout.sizes[1:-1]
        rows, stack = sum(hidden), layout.replicates
        self.unit_location = nn.Parameter(weight.new_zeros(stack, rows))
        self.unit_log_scale = nn.Parameter(weight.new_full((stack, rows), -3.0))
        self.layer_location = nn.Parameter(weight.new_zeros(stack, len(hidden)))
        self.layer_log_scale = nn.Parameter(weight.new_full((stack, len(hidden)), -3.0))
        layers = torch.repeat_interleave(torch.arange(len(hidden), device="cpu"), torch.tensor(hidden, device="cpu"))
        self.register_buffer("layer_of_row", layers.to(weight.device))
        # which unit scale multiplies each flat weight; the output layer reads the extra last column, which is 1
        starts = [sum(layout.sizes[1 : layer + 1]) for layer in range(layout.num_layers)]
        owners = [self._owners(layer, start) for layer, start in enumerate(starts)]
        self.register_buffer("owner", torch.cat(owners).to(weight.device))

    def _owners(self, layer: int, start: int) -> Tensor:
        fan_in, fan_out = self.layout.pairs[layer]
        last = layer == self.layout.num_layers - 1
        units = torch.arange(start, start + fan_out, device="cpu")
        units = torch.full_like(units, start) if last else units
        return torch.cat([units.repeat_interleave(fan_in), units])

    def _rows(self, noise: bool, generator: torch.Generator | None) -> Tensor:
        """Scale of every hidden unit and a final 1 for the outputs, shape (replicates, hidden units + 1)."""
        unit: Tensor = self.unit_location
        layer: Tensor = self.layer_location
        if noise:
            unit = unit + self.unit_log_scale.exp() * torch.empty_like(unit).normal_(generator=generator)
            layer = layer + self.layer_log_scale.exp() * torch.empty_like(layer).normal_(generator=generator)
        return F.pad((unit + layer[:, self.layer_of_row]).exp(), (0, 1), value=1.0)

    def draw(self, generator=None):
        noise = torch.empty_like(self.weight).normal_(generator=generator)
        beta = bF.gaussian_weight(self.weight, self.weight_rho, noise)
        return beta * self._rows(True, generator)[:, self.owner]

    def mean(self):
        spread = torch.exp(2 * self.unit_log_scale) + torch.exp(2 * self.layer_log_scale)[:, self.layer_of_row]
        rows = self._rows(False, None) * F.pad(torch.exp(0.5 * spread), (0, 1), value=1.0)
        return (self.weight * rows[:, self.owner]).detach()

    def kl_divergence(self):
        outputs = self.owner == self.unit_location.shape[1]
        prior_scale = self.weight.new_ones(len(outputs)).masked_fill_(outputs, self.output_scale)
        beta = total(unchecked_gaussian_kl(self.weight, F.softplus(self.weight_rho), prior_scale), dim=1)
        unit = total(bF.half_cauchy_kl(self.unit_location, self.unit_log_scale, self.unit_scale), dim=1)
        layer = total(bF.half_cauchy_kl(self.layer_location, self.layer_log_scale, self.layer_scale), dim=1)
        return beta + unit + layer

    def active_units(self) -> Tensor:
        """Boolean (replicates, hidden units): median scale at or above the threshold."""
        return self._rows(False, None)[:, :-1].detach() >= self.threshold

    def active(self):
        return F.pad(self.active_units(), (0, 1), value=True)[:, self.owner]


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

    input_scale = setting("input_scale", check_scale)
    input_of: Tensor

    def __init__(self, layout: Layout, weight: Tensor, *args: float, input_scale: float = 1.0, **settings: float):
        super().__init__(layout, weight, *args, **settings)
        self.input_scale = input_scale
        inputs, first = layout.sizes[0], layout.splits[0]
        self.input_location = nn.Parameter(weight.new_zeros(layout.replicates, inputs))
        self.input_log_scale = nn.Parameter(weight.new_full((layout.replicates, inputs), -3.0))
        # which input's scale multiplies each flat weight; all but the first layer's read the extra last column
        owner = torch.full((layout.num_parameters,), inputs, device="cpu")
        owner[:first] = torch.arange(inputs, device="cpu").repeat(layout.sizes[1])
        self.register_buffer("input_of", owner.to(weight.device))

    def _inputs(self, logs: Tensor) -> Tensor:
        return F.pad(logs, (0, 1)).exp()[:, self.input_of]

    def draw(self, generator=None):
        noise = torch.empty_like(self.input_location).normal_(generator=generator)
        return super().draw(generator) * self._inputs(self.input_location + self.input_log_scale.exp() * noise)

    def mean(self):
        return super().mean() * self._inputs(self.input_location + 0.5 * torch.exp(2 * self.input_log_scale)).detach()

    def kl_divergence(self):
        inputs = bF.half_cauchy_kl(self.input_location, self.input_log_scale, self.input_scale)
        return super().kl_divergence() + total(inputs, dim=1)

    def _first(self) -> Tensor:
        """Median of the scale of every weight of the first layer, shape (replicates, units, inputs)."""
        units = self._rows(False, None)[:, : self.layout.sizes[1]]
        return (units.unsqueeze(2) * self.input_location.exp().unsqueeze(1)).detach()

    def active_inputs(self) -> Tensor:
        """Boolean (replicates, inputs): a weight that leaves the input is in."""
        return self._first().amax(dim=1) >= self.threshold

    def active_units(self):
        """Boolean (replicates, hidden units): in the first layer one of the weights is in, as for the others."""
        first = self._first().amax(dim=2) >= self.threshold
        return torch.cat([first, super().active_units()[:, first.shape[1] :]], dim=1)

    def active(self):
        first = (self._first() >= self.threshold).flatten(1)
        return torch.cat([first, super().active()[:, first.shape[1] :]], dim=1)
