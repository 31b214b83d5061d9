"""Weight distributions of a stack of networks: every tensor has the shape (replicates, parameters of one network)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib import functional as bF
from bnnlib._checks import check_positive, check_probability
from bnnlib.replicates.layout import Layout


class StackedPosterior(nn.Module):
    """What the distributions share: draws of all weights at once, split into the layers of the network."""

    layout: Layout
    fuses_kl = True  # the draw's backward pass already adds the gradient of the KL
    kl_weight_per_replicate = False  # that draw takes a weight for each replicate

    def draw(self, generator: torch.Generator | None, kl_weight: float = 0.0) -> Tensor:
        """One draw of all weights, shape (replicates, parameters).

        With `kl_weight` the backward pass of the draw adds that multiple of the KL divergence's gradient in closed
        form, if `fuses_kl`; otherwise the training loop differentiates `kl_divergence`.
        """
        raise NotImplementedError

    def draw_layers(self, generator: torch.Generator | None, kl_weight: float = 0.0) -> list[tuple[Tensor, ...]]:
        """The draw of each layer, in the form that `linear` takes."""
        return self.layout.layers(self.draw(generator, kl_weight))

    def linear(self, layer: tuple[Tensor, ...], h: Tensor, generator: torch.Generator | None) -> Tensor:
        """Pre-activations (replicates, fan_out, batch) for inputs h of shape (replicates, fan_in, batch).

        Features come before the batch: with a handful of units a layer, the product is then a wide matrix and about
        ten times faster.
        """
        weight, bias = layer
        return torch.baddbmm(bias, weight, h)

    def mean(self) -> Tensor:
        """Posterior mean of all weights, shape (replicates, parameters)."""
        raise NotImplementedError

    def kl_divergence(self) -> Tensor:
        """Exact KL to the prior in nats, shape (replicates,); 0 where there is no prior."""
        raise NotImplementedError

    def active(self) -> Tensor:
        """Boolean mask of the weights that stay in the selected network, shape (replicates, parameters)."""
        return torch.ones_like(self.mean(), dtype=torch.bool)

    def sparsity(self) -> Tensor:
        """Share of active weights in percent, shape (replicates,)."""
        return 100.0 * self.active().double().mean(dim=1)


class StackedDeterministic(StackedPosterior):
    """Point estimates with an optional persistent mask: the substrate of magnitude pruning."""

    def __init__(self, layout: Layout, weight: Tensor):
        super().__init__()
        self.layout = layout
        self.weight = nn.Parameter(weight.clone())
        self.register_buffer("mask", torch.ones_like(weight, dtype=torch.bool))

    def draw(self, generator=None, kl_weight=0.0):
        return self.weight * self.mask

    def mean(self):
        return self.weight.detach() * self.mask

    def kl_divergence(self):
        return self.weight.new_zeros(self.layout.replicates)

    def active(self):
        return self.mask

    def sparsity(self):
        """Share of kept weights in percent; magnitude pruning leaves the biases alone and does not count them."""
        return 100.0 * self.mask[:, self.layout.weight_mask()].double().mean(dim=1)


class StackedGaussian(StackedPosterior):
    """Independent Gaussian posterior under N(0, prior_scale^2): dense variational network (Blundell et al., 2015)."""

    def __init__(self, layout: Layout, weight: Tensor, prior_scale: float = 1.0, initial_scale: float = 0.0025):
        super().__init__()
        check_positive("prior_scale", prior_scale)
        self.layout, self.prior_scale = layout, prior_scale
        self.weight = nn.Parameter(weight.clone())
        self.weight_rho = nn.Parameter(torch.full_like(weight, float(bF.softplus_inverse(initial_scale))))

    def draw(self, generator=None, kl_weight=0.0):
        noise = torch.empty_like(self.weight).normal_(generator=generator)
        return bF.gaussian_weight(self.weight, self.weight_rho, noise, self.prior_scale, kl_weight)

    def mean(self):
        return self.weight.detach()

    def kl_divergence(self):
        return bF.gaussian_kl(self.weight, F.softplus(self.weight_rho), self.prior_scale).sum(dim=1)


class StackedSpikeSlab(StackedPosterior):
    """Dirac spike-and-slab posterior, equation (7) of Bai, Song and Cheng (2020).

    Args:
        layout: names the layers inside the flat parameter dimension.
        weight: initial slab means, shape (replicates, parameters).
        prior_inclusion_probability: lambda, one number or one for each replicate.
        prior_scale: sigma_0, a standard deviation.
        initial_scale: initial slab standard deviation.
        initial_inclusion_probability: initial phi.
        temperature: tau of the Gumbel-softmax backward pass.

    Raises:
        ValueError: a probability is not strictly between 0 and 1, a scale or the temperature is not positive, or the
            number of prior probabilities is not the number of replicates.
    """

    def __init__(
        self,
        layout: Layout,
        weight: Tensor,
        prior_inclusion_probability: float | Sequence[float],
        prior_scale: float = 1.0,
        initial_scale: float = 0.0025,
        initial_inclusion_probability: float = 0.99,
        temperature: float = 0.5,
    ):
        super().__init__()
        check_positive("prior_scale", prior_scale)
        check_positive("temperature", temperature)
        check_probability("initial_inclusion_probability", initial_inclusion_probability, open_interval=True)
        prior = torch.as_tensor(prior_inclusion_probability, dtype=torch.float64).reshape(-1, 1)
        if len(prior) not in (1, layout.replicates):
            raise ValueError(
                f"prior_inclusion_probability has {len(prior)} values, but there are {layout.replicates} replicates: "
                "give one number, or one for each replicate."
            )
        check_probability("prior_inclusion_probability", prior, open_interval=True)
        self.layout, self.prior_scale, self.temperature = layout, prior_scale, temperature
        self.register_buffer("prior_inclusion_probability", prior)
        self.register_buffer("prior_logit", bF.log_odds(prior).to(weight.dtype))
        self.weight = nn.Parameter(weight.clone())
        self.weight_rho = nn.Parameter(torch.full_like(weight, float(bF.softplus_inverse(initial_scale))))
        self.weight_logit = nn.Parameter(torch.full_like(weight, bF.log_odds(initial_inclusion_probability)))

    def draw(self, generator=None, kl_weight=0.0):
        noise = torch.empty_like(self.weight).normal_(generator=generator)
        logistic = bF.logistic_noise(torch.empty_like(self.weight).uniform_(generator=generator))
        return bF.spike_slab_weight(
            self.weight,
            self.weight_rho,
            self.weight_logit,
            noise,
            logistic,
            self.temperature,
            self.prior_logit,
            self.prior_scale,
            kl_weight,
        )

    def inclusion_probability(self) -> Tensor:
        """phi, shape (replicates, parameters)."""
        return torch.sigmoid(self.weight_logit.detach())

    def mean(self):
        return self.inclusion_probability() * self.weight.detach()

    def kl_divergence(self):
        scale = F.softplus(self.weight_rho)
        return bF.spike_slab_kl(
            self.weight, scale, self.weight_logit, self.prior_inclusion_probability, self.prior_scale
        ).sum(dim=1)

    def active(self):
        return self.weight_logit.detach() > 0

    def sparsity(self):
        """s_hat = sum of phi over T in percent, the paper's definition (section 6)."""
        return 100.0 * self.inclusion_probability().double().mean(dim=1)
