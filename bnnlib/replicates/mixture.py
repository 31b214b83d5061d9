"""Stacks under the Gaussian spike-and-slab prior: with p* in closed form, and Bayes by Backprop's scale mixture."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib import functional as bF
from bnnlib.replicates.layout import Layout, PerReplicate
from bnnlib.replicates.posteriors import StackedPosterior


class StackedGaussianSpikeSlab(StackedPosterior):
    """Gaussian posterior, spike-and-slab prior (3.1) of Saha, Liu and Liang (2024), p* in closed form.

    Args:
        layout: names the layers inside the flat parameter dimension.
        weight: initial means, shape (replicates, parameters).
        slab_scale, spike_scale: tau_1 > tau_0, standard deviations; one number, or one for each replicate.
        prior_inclusion_probability: pi, one number or one for each replicate.
        initial_scale: initial posterior standard deviation.

    Raises:
        ValueError: a setting is out of its range, or has neither one value nor one for each replicate.
    """

    kl_weight_per_replicate = True
    _sampled = False

    def __init__(
        self,
        layout: Layout,
        weight: Tensor,
        slab_scale: PerReplicate,
        spike_scale: PerReplicate,
        prior_inclusion_probability: PerReplicate = 0.5,
        initial_scale: float = 0.0025,
    ):
        super().__init__()
        self.layout = layout
        settings = (slab_scale, spike_scale, prior_inclusion_probability)
        names = ("slab_scale", "spike_scale", "prior_inclusion_probability")
        prior = bF.mixture_prior(*(layout.column(n, v) for n, v in zip(names, settings, strict=True)))
        for name, value in prior._asdict().items():
            self.register_buffer(name, value.to(weight.dtype))
        self.weight = nn.Parameter(weight.clone())
        self.weight_rho = nn.Parameter(torch.full_like(weight, float(bF.softplus_inverse(initial_scale))))

    @property
    def prior(self) -> bF.MixturePrior:
        """The prior, each of its numbers (replicates or 1, 1)."""
        return bF.MixturePrior(self.slab_precision, self.spike_precision, self.slab_cost, self.spike_cost)

    def draw(self, generator=None, kl_weight=0.0):
        noise = torch.empty_like(self.weight).normal_(generator=generator)
        return bF.mixture_weight(self.weight, self.weight_rho, noise, self.prior, kl_weight, sampled=self._sampled)

    def mean(self):
        return self.weight.detach()

    @torch.no_grad()
    def inclusion_log_odds(self) -> Tensor:
        """logit p*, equation (sbnn-log-odds), shape (replicates, parameters): what ranks weights."""
        return bF.inclusion_log_odds(self.weight.square() + F.softplus(self.weight_rho).square(), self.prior)

    def inclusion_probability(self) -> Tensor:
        """p*, equation (sbnn-inclusion), shape (replicates, parameters)."""
        return torch.sigmoid(self.inclusion_log_odds())

    def kl_divergence(self):
        scale = F.softplus(self.weight_rho)
        return (bF.spike_slab_profile_penalty(self.weight, scale, self.prior) - 0.5).sum(dim=1)

    def active(self):
        return self.inclusion_log_odds() > 0

    def sparsity(self):
        """Expected share of slab weights, the mean of p*, in percent."""
        return 100.0 * self.inclusion_probability().double().mean(dim=1)


class StackedScaleMixture(StackedGaussianSpikeSlab):
    """Bayes by Backprop (Blundell et al., 2015): the same prior with the indicators summed out.

    The KL has no closed form: training uses its estimate at the drawn weights; `kl_divergence` is one such estimate.
    """

    _sampled = True

    def kl_divergence(self, generator: torch.Generator | None = None):
        scale, noise = F.softplus(self.weight_rho), torch.empty_like(self.weight).normal_(generator=generator)
        return bF.scale_mixture_kl_sample(self.weight, scale, noise, self.prior).sum(dim=1)
