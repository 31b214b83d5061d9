"""Weight posteriors of a stack of networks: every tensor has the shape (replicates, parameters of one network)."""

from typing import Any

import torch
from torch import Tensor, nn

from bnnlib import posteriors
from bnnlib._noise import Source
from bnnlib.posteriors import Posterior, fused
from bnnlib.replicates.layout import Layout, PerReplicate


class StackedPosterior(Posterior):
    """The shape that a stack gives to a family of `bnnlib.posteriors`: all weights of a network in one row.

    Args:
        layout: names the layers inside the flat parameter dimension.
        weight: initial means, shape (replicates, parameters).
        settings: of the family, in its order or by name; a prior inclusion probability, or a scale of a mixture, is one
            number or one for each replicate.

    Raises:
        ValueError: the means have another shape, or a setting is out of its range or has neither one value nor one for
            each replicate.

    Example:
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> isinstance(StackedGaussian(layout, layout.kaiming_uniform(None)), StackedPosterior)
        True
    """

    _dim = 1

    def __init__(self, layout: Layout, weight: Tensor, *settings: Any, **named: Any):
        super().__init__()
        if weight.shape != (layout.replicates, layout.num_parameters):
            raise ValueError(
                f"weight has shape {tuple(weight.shape)}, but the layout needs (replicates, parameters) = "
                f"({layout.replicates}, {layout.num_parameters}): give layout.kaiming_uniform(generator) or the means "
                "of each network in a row of its own."
            )
        self.layout = layout
        self.weight = nn.Parameter(weight.clone())
        self._init_posterior(**dict(zip(self._all_settings(), settings, strict=False)), **named)

    def _as_setting(self, name: str, value: PerReplicate) -> float | Tensor:
        column = self.layout.column(name, value)
        return column.item() if len(column) == 1 else column

    def _parts(self, values, fill=None) -> Tensor:
        return values[0]

    def draw_layers(self, generator: Source = None) -> list[tuple[Tensor, ...]]:
        """The draw of each layer, in the form that `linear` takes."""
        return list(self.layout.layers(self.draw(generator)))

    def linear(self, layer: tuple[Tensor, ...], h: Tensor, generator: Source) -> Tensor:
        """Pre-activations (replicates, fan_out, batch) for inputs h of shape (replicates, fan_in, batch).

        Features come before the batch: with a handful of units a layer, the product is then a wide matrix and about
        ten times faster.
        """
        weight, bias = layer
        return torch.baddbmm(bias, weight, h)

    def mean(self) -> Tensor:
        """Posterior means of all weights, shape (replicates, parameters), without gradient."""
        return super().mean().detach()

    def kl_gradient(self, factor: float | Tensor = 1.0) -> Tensor:
        """A scalar of value 0 with the gradient of factor * `kl_divergence`, summed over replicates.

        After a draw it costs a few operations a weight, where the draw's backward pass can deliver it.

        Args:
            factor: a number, or a tensor (replicates, 1).
        """
        term = self._kl_term()
        return (factor.flatten() * term).sum() if isinstance(factor, Tensor) else factor * term.sum()


class StackedDeterministic(StackedPosterior):
    """Point estimates with an optional persistent mask: the substrate of magnitude pruning.

    Example:
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> posterior = StackedDeterministic(layout, layout.kaiming_uniform(None))
        >>> posterior.percent_active().shape
        torch.Size([10])
    """

    mask: Tensor

    def __init__(self, layout: Layout, weight: Tensor):
        super().__init__(layout, weight)
        self.register_buffer("mask", torch.ones_like(weight, dtype=torch.bool))

    def _mean_values(self) -> list[Tensor]:
        return [self.weight * self.mask]

    def draw(self, generator: Source = None) -> Tensor:
        """The weights that are left."""
        return self.weight * self.mask

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """0: there is no prior."""
        return self.weight.new_zeros(self.layout.replicates)

    def _masks(self) -> list[Tensor]:
        return [self.mask]

    def percent_active(self) -> Tensor:
        """Share of kept weights in percent; magnitude pruning leaves the biases alone and does not count them."""
        return self.layout.share_of_weights(self.mask)


class StackedGaussian(StackedPosterior, posteriors.Gaussian):
    """Independent Gaussian posterior under N(0, prior_scale^2): dense variational network (Blundell et al., 2015).

    Example:
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> posterior = StackedGaussian(layout, layout.kaiming_uniform(None))
        >>> posterior.kl_divergence().shape  # one for each network
        torch.Size([10])
    """


class StackedSpikeSlab(StackedPosterior, posteriors.SpikeSlab):
    """Dirac spike-and-slab posterior, equation (7) of Bai, Song and Cheng (2020); settings of `nn.SpikeSlabLinear`.

    Its `percent_active` is s_hat, the sum of phi over T in percent, the paper's definition (section 6).

    Example:
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> posterior = StackedSpikeSlab(layout, layout.kaiming_uniform(None), prior_inclusion_probability=0.01)
        >>> posterior.inclusion_probability.shape
        torch.Size([10, 57])
    """


class StackedGaussianSpikeSlab(StackedPosterior, posteriors.GaussianSpikeSlab):
    """Gaussian posterior, spike-and-slab prior (3.1) of Saha, Liu and Liang (2024), p* in closed form.

    Settings of `nn.GaussianSpikeSlabLinear`; its `percent_active` is the mean of p* in percent.

    Example:
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> posterior = StackedGaussianSpikeSlab(layout, layout.kaiming_uniform(None), slab_scale=1.0, spike_scale=0.01)
        >>> posterior.inclusion_probability.shape
        torch.Size([10, 57])
    """


class StackedSparseVD(StackedPosterior, posteriors.SparseVD):
    """Sparse variational dropout (Molchanov et al., 2017): log-uniform prior, additive noise, local reparameterisation.

    Weights with log alpha above `threshold` (3 in the paper: a dropout rate over 0.95) are not active. Biases are
    deterministic, as published, and do not count.

    Example:
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> StackedSparseVD(layout, layout.kaiming_uniform(None)).percent_active().shape
        torch.Size([10])
    """

    order: Tensor
    weight_log_variance: Tensor

    def __init__(self, layout: Layout, weight: Tensor, *settings: Any, **named: Any):
        super().__init__(layout, weight, *settings, **named)
        sorted_ = torch.argsort(~layout.weight_mask("cpu"), stable=True)  # weights, and then biases
        self.register_buffer("order", sorted_.argsort().to(weight.device), persistent=False)

    def _groups(self) -> list[tuple[Any, ...]]:
        layers, spreads = (self.layout.layers(p) for p in (self.weight, self.weight_log_variance))
        weights, variances = (torch.cat([w.flatten(1) for w, _ in tensors], dim=1) for tensors in (layers, spreads))
        return [(weights, variances), (torch.cat([bias.flatten(1) for _, bias in layers], dim=1),)]

    def _parts(self, values, fill=None) -> Tensor:
        return torch.cat(list(values), dim=1)[:, self.order]

    def draw_layers(self, generator: Source = None) -> list[tuple[Tensor, ...]]:
        """Means and variances of each layer in training, where its outputs are drawn; else a draw of its weights."""
        if not self.training:
            return super().draw_layers(generator)
        means = self.layout.layers(self.weight)
        variances = self.layout.layers(self.weight_log_variance.exp())
        return [(w, b, v) for (w, b), (v, _) in zip(means, variances, strict=True)]

    def linear(self, layer: tuple[Tensor, ...], h: Tensor, generator: Source) -> Tensor:
        """Pre-activations as for `StackedPosterior`, from their own Gaussian law where there are variances."""
        if len(layer) == 2:
            return super().linear(layer, h, generator)
        weight, bias, variance = layer
        return fused.local(torch.baddbmm(bias, weight, h), torch.bmm(variance, h.square()), generator, 1e-12, 0.0)

    def percent_active(self) -> Tensor:
        """Share of active weights in percent."""
        return self.layout.share_of_weights(self.active())
