"""Stacks under the Gaussian spike-and-slab prior: with p* in closed form, and Bayes by Backprop's scale mixture."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib import functional as bF
from bnnlib.functional._autograd import total
from bnnlib.nn.kl_tokens import forget, remembered
from bnnlib.replicates.layout import Layout, PerReplicate
from bnnlib.replicates.posteriors import StackedPosterior

_SETTINGS = ("slab_scale", "spike_scale", "prior_inclusion_probability")


def _from_prior(name: str, symbol: str) -> property:
    def put(posterior: StackedGaussianSpikeSlab, value: PerReplicate) -> None:
        settings = posterior._settings() | {name: value}
        posterior._set_prior(*settings.values())

    return property(
        lambda posterior: posterior._settings()[name], put, doc=f"{symbol}, float64, (1, 1) or (replicates, 1)."
    )


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

    Example:
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> posterior = StackedGaussianSpikeSlab(layout, layout.kaiming_uniform(None), slab_scale=1.0, spike_scale=0.01)
        >>> posterior.inclusion_probability().shape
        torch.Size([10, 57])
    """

    slab_precision: Tensor
    spike_precision: Tensor
    slab_cost: Tensor
    spike_cost: Tensor
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
        super().__init__(layout, weight, initial_scale)
        for name in bF.MixturePrior._fields:
            self.register_buffer(name, None)
        self._set_prior(slab_scale, spike_scale, prior_inclusion_probability)

    def _set_prior(self, *settings: PerReplicate) -> None:
        columns = (self.layout.column(name, value) for name, value in zip(_SETTINGS, settings, strict=True))
        for name, value in bF.mixture_prior(*columns)._asdict().items():
            setattr(self, name, value.to(self.weight))
        forget(self)

    @property
    def prior(self) -> bF.MixturePrior:
        """The prior, each of its numbers (replicates or 1, 1), in the weights' dtype: the state behind the settings."""
        return bF.MixturePrior(self.slab_precision, self.spike_precision, self.slab_cost, self.spike_cost)

    slab_scale = _from_prior("slab_scale", "tau_1")
    spike_scale = _from_prior("spike_scale", "tau_0")
    prior_inclusion_probability = _from_prior("prior_inclusion_probability", "pi")

    def _settings(self) -> dict[str, Tensor]:
        slab, spike = self.slab_precision.double().rsqrt(), self.spike_precision.double().rsqrt()
        # from both costs, since pi from the slab's alone may round to 1
        odds = (slab.log() - self.slab_cost.double()) - (spike.log() - self.spike_cost.double())
        return dict(zip(_SETTINGS, (slab, spike, torch.sigmoid(odds)), strict=True))

    def draw(self, generator=None):
        noise = torch.empty_like(self.weight).normal_(generator=generator)
        draws = [(self.weight, self.weight_rho, noise, self.prior)]
        return remembered(self, bF.gaussian_draw, draws, sampled=self._sampled, by_value=True)[0]

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
        return total(bF.spike_slab_profile_penalty(self.weight, scale, self.prior) - 0.5, dim=1)

    def active(self):
        return self.inclusion_log_odds() > 0

    def sparsity(self):
        """Expected share of slab weights, the mean of p*, in percent."""
        return 100.0 * self.inclusion_probability().double().mean(dim=1)


class StackedScaleMixture(StackedGaussianSpikeSlab):
    """Bayes by Backprop (Blundell et al., 2015): the same prior with the indicators summed out.

    The KL has no closed form: training uses its estimate at the drawn weights; `kl_divergence` is one such estimate.

    Example:
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> posterior = StackedScaleMixture(layout, layout.kaiming_uniform(None), slab_scale=1.0, spike_scale=0.01)
        >>> posterior.kl_divergence().shape
        torch.Size([10])
    """

    _sampled = True

    def kl_divergence(self, generator: torch.Generator | None = None):
        scale, noise = F.softplus(self.weight_rho), torch.empty_like(self.weight).normal_(generator=generator)
        return total(bF.scale_mixture_kl_sample(self.weight, scale, noise, self.prior), dim=1)
