"""Weight distributions of a stack of networks: every tensor has the shape (replicates, parameters of one network)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib import functional as bF
from bnnlib._checks import check_positive, check_probability, check_scale
from bnnlib.functional._autograd import total
from bnnlib.functional.spike_slab import unchecked_spike_slab_kl
from bnnlib.nn.kl_tokens import forget, remembered, take_token
from bnnlib.nn.settings import PersistentSettings, setting
from bnnlib.replicates.layout import Layout, PerReplicate


class StackedPosterior(PersistentSettings):
    """What the distributions share: draws of all weights at once, split into the layers of the network.

    Example:
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> isinstance(StackedGaussian(layout, layout.kaiming_uniform(None)), StackedPosterior)
        True
    """

    def __init__(self, layout: Layout, weight: Tensor, initial_scale: float | None = None):
        super().__init__()
        self.layout = layout
        self.weight = nn.Parameter(weight.clone())
        if initial_scale is not None:
            self.weight_rho = nn.Parameter(torch.full_like(weight, float(bF.softplus_inverse(initial_scale))))

    def _check_setting(self, name: str, value: float) -> None:
        """Every setting stands for itself."""

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """One draw of all weights, shape (replicates, parameters)."""
        raise NotImplementedError

    def draw_layers(self, generator: torch.Generator | None) -> list[tuple[Tensor, ...]]:
        """The draw of each layer, in the form that `linear` takes."""
        return list(self.layout.layers(self.draw(generator)))

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

    def kl_gradient(self, factor: float | Tensor = 1.0) -> Tensor:
        """A scalar of value 0 with the gradient of factor * `kl_divergence`, summed over replicates.

        After a draw it costs a few operations a weight, where the draw's backward pass can deliver it.

        Args:
            factor: a number, or a tensor (replicates, 1).

        Raises:
            ValueError: the factor is a tensor, but the draw's token is one number for all replicates.
        """
        token = take_token(self)
        if token is None:
            value = (factor * self.kl_divergence().unsqueeze(1)).sum()
            return value - value.detach()
        if isinstance(factor, Tensor) and not token.dim():
            raise ValueError(
                f"the divergence's factor is a tensor, but {type(self).__name__} takes one number for all replicates. "
                "Give a number, or train a stack for each."
            )
        return (factor * token).sum() if token.dim() else factor * token

    def active(self) -> Tensor:
        """Boolean mask of the weights that stay in the selected network, shape (replicates, parameters)."""
        return torch.ones_like(self.mean(), dtype=torch.bool)

    def sparsity(self) -> Tensor:
        """Share of active weights in percent, shape (replicates,)."""
        return 100.0 * self.active().double().mean(dim=1)


class StackedDeterministic(StackedPosterior):
    """Point estimates with an optional persistent mask: the substrate of magnitude pruning.

    Example:
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> posterior = StackedDeterministic(layout, layout.kaiming_uniform(None))
        >>> posterior.sparsity().shape
        torch.Size([10])
    """

    mask: Tensor

    def __init__(self, layout: Layout, weight: Tensor):
        super().__init__(layout, weight)
        self.register_buffer("mask", torch.ones_like(weight, dtype=torch.bool))

    def draw(self, generator=None):
        return self.weight * self.mask

    def mean(self):
        return self.weight.detach() * self.mask

    def kl_divergence(self):
        return self.weight.new_zeros(self.layout.replicates)

    def active(self):
        return self.mask

    def sparsity(self):
        """Share of kept weights in percent; magnitude pruning leaves the biases alone and does not count them."""
        # a product, not an index: a mask as an index has a size that a GPU would be waited for
        weights = self.layout.weight_mask(self.mask.device)
        return 100.0 * ((self.mask & weights).sum(dim=1, dtype=torch.float64) / sum(self.layout.splits[::2]))


class StackedGaussian(StackedPosterior):
    """Independent Gaussian posterior under N(0, prior_scale^2): dense variational network (Blundell et al., 2015).

    Example:
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> posterior = StackedGaussian(layout, layout.kaiming_uniform(None))
        >>> posterior.kl_divergence().shape  # one for each network
        torch.Size([10])
    """

    prior_scale = setting("prior_scale", check_scale)

    def __init__(self, layout: Layout, weight: Tensor, prior_scale: float = 1.0, initial_scale: float = 0.0025):
        super().__init__(layout, weight, initial_scale)
        self.prior_scale = prior_scale

    def draw(self, generator=None):
        noise = torch.empty_like(self.weight).normal_(generator=generator)
        draws = [(self.weight, self.weight_rho, noise, self.prior_scale)]
        return remembered(self, bF.gaussian_draw, draws, by_value=True)[0]

    def mean(self):
        return self.weight.detach()

    def kl_divergence(self):
        return total(bF.gaussian_kl(self.weight, F.softplus(self.weight_rho), self.prior_scale), dim=1)


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

    Example:
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> posterior = StackedSpikeSlab(layout, layout.kaiming_uniform(None), prior_inclusion_probability=0.01)
        >>> posterior.inclusion_probability().shape
        torch.Size([10, 57])
    """

    prior_scale = setting("prior_scale", check_scale)
    temperature = setting("temperature", check_positive)
    prior_logit: Tensor

    def __init__(
        self,
        layout: Layout,
        weight: Tensor,
        prior_inclusion_probability: PerReplicate,
        prior_scale: float = 1.0,
        initial_scale: float = 0.0025,
        initial_inclusion_probability: float = 0.99,
        temperature: float = 0.5,
    ):
        super().__init__(layout, weight, initial_scale)
        check_probability("initial_inclusion_probability", initial_inclusion_probability, open_interval=True)
        self.prior_scale, self.temperature = prior_scale, temperature
        self.register_buffer("prior_logit", None)
        self.prior_inclusion_probability = prior_inclusion_probability
        self.weight_logit = nn.Parameter(torch.full_like(weight, bF.log_odds(initial_inclusion_probability)))

    def draw(self, generator=None):
        noise = torch.empty_like(self.weight).normal_(generator=generator)
        logistic = bF.logistic_noise(torch.empty_like(self.weight).uniform_(generator=generator))
        prior = self.temperature, self.prior_logit.to(self.weight.dtype), self.prior_scale
        draws = [(self.weight, self.weight_rho, self.weight_logit, noise, logistic, *prior)]
        return remembered(self, bF.spike_slab_draw, draws, by_value=True)[0]

    @property
    def prior_inclusion_probability(self) -> Tensor:
        """lambda, float64, (1, 1) or (replicates, 1); kept as log-odds, which survive `.float()` down to 1e-200."""
        return torch.sigmoid(self.prior_logit.double())

    @prior_inclusion_probability.setter
    def prior_inclusion_probability(self, value: PerReplicate) -> None:
        column = self.layout.column("prior_inclusion_probability", value)
        check_probability("prior_inclusion_probability", column, open_interval=True)
        self.prior_logit = bF.log_odds(column).to(self.weight.device)
        forget(self)

    def inclusion_probability(self) -> Tensor:
        """phi, shape (replicates, parameters)."""
        return torch.sigmoid(self.weight_logit.detach())

    def mean(self):
        return self.inclusion_probability() * self.weight.detach()

    def kl_divergence(self):
        scale, prior = F.softplus(self.weight_rho), (self.prior_inclusion_probability, self.prior_scale)
        return total(unchecked_spike_slab_kl(self.weight, scale, self.weight_logit, *prior), dim=1)

    def active(self):
        return self.weight_logit.detach() > 0

    def sparsity(self):
        """s_hat = sum of phi over T in percent, the paper's definition (section 6)."""
        return 100.0 * self.inclusion_probability().double().mean(dim=1)
