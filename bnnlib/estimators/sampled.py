"""Chains of SGHMC with the spike-and-slab prior that they learn, as one stack: the estimators' method "sghmc"."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bnnlib.replicates import Layout, StackedMLP, StackedPosterior
from bnnlib.sampling import SGHMC, SpikeSlabGaussianLaplacePrior, polynomial
from bnnlib.sampling.samples import SampleStore
from bnnlib.train import sample

_BURN_IN = 0.5  # share of the steps before the first kept draw
# Of the Laplace spike's scale to the slab's standard deviation; with the Beta(1, p) prior of a layer's share it tells
# inputs apart. Both chosen on simulated training data (Friedman's function, products).
_SPIKE_SHARE = 0.04
_MAX_DRAWS = 100
# Every row counts ten times at first, so that the prior weighs a tenth: with the whole one from the start the spike
# takes inputs of even effect (one of Friedman's five among 200) before the network has found them.
_WARM_UP = 0.2  # share of the epochs
_WEAK = 0.1  # weight of the prior in them


class _Chains(StackedPosterior):
    """One state of every chain, layer by layer: the sampler moves it, and the prior is on the weights alone."""

    def __init__(self, layout: Layout, weight: Tensor) -> None:
        nn.Module.__init__(self)
        self.layout = layout
        layers = layout.layers(weight)
        self.weights = nn.ParameterList(nn.Parameter(part.contiguous()) for part, _ in layers)
        self.biases = nn.ParameterList(nn.Parameter(part.contiguous()) for _, part in layers)

    def draw_layers(self, generator: Any = None) -> list[tuple[Tensor, ...]]:
        return list(zip(self.weights, self.biases, strict=True))


class Sampled(nn.Module):
    """SGHMC chains with the learned prior of Deng, Zhang, Liang and Lin (2019), Algorithm 1, one a replicate.

    Weights, biases and the log of the noise scale are sampled; the prior of the weights is learned beside, sigma stays,
    as the authors advise for networks. The learning rate is that of SGD on the mean loss, whose n-th part is the
    sampler's step size; delta of every layer starts at the prior's probability. The rest is as for `Variational`.
    Called, it is the stack; a draw holds the stack and the likelihood.
    """

    memory = ("random", "sampler", "prior", "kept")

    def __init__(
        self,
        layout: Layout,
        likelihood: Any,
        activation: str,
        learning_rate: float,
        prior_inclusion_probability: float,
        prior_scale: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.stack = StackedMLP(_Chains(layout, layout.kaiming_uniform(generator)), activation)
        self.likelihood, self.learning_rate = likelihood, learning_rate
        self.inclusion_start, self.prior_scale = prior_inclusion_probability, prior_scale
        self.random = generator.get_state()
        self.sampler: dict[str, Any] | None = None
        self.prior = self._new_prior().state_dict()
        self.kept: list[dict[str, Tensor]] = []

    def forward(self, x: Tensor) -> Tensor:
        return self.stack(x if x.dim() == 2 else x.transpose(0, 1))

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """The likelihood's, of targets (batch, columns), or (batch, R, columns) where chains have rows of their own."""
        return self.likelihood(output, target if target.dim() == 2 else target.transpose(0, 1))

    def _new_prior(self) -> SpikeSlabGaussianLaplacePrior:
        chains: Any = self.stack.posterior
        weights = {str(layer): weight for layer, weight in enumerate(chains.weights)}
        return SpikeSlabGaussianLaplacePrior(
            weights,
            spike_scale=_SPIKE_SHARE * self.prior_scale,
            slab_variance=self.prior_scale**2,
            inclusion=self.inclusion_start,
            a=1.0,
            b="p",
            step_size=polynomial(1.0, 1000.0, 0.75),
            update=("rho", "kappa", "inclusion"),
            batch_dims=1,
        )

    def train_on(
        self, x: Tensor, y: Tensor, epochs: int, batch_size: int, num_data: int, progress: bool | str, warm_up: bool
    ) -> None:
        """As of `Variational`; half of a fit's steps, with the weak prior's, are burn-in, none of those that go on."""
        generator = torch.Generator()
        generator.set_state(self.random)
        prior = self._new_prior()
        prior.load_state_dict(self.prior)
        sampler = SGHMC(self.parameters(), lr=self.learning_rate / num_data, generator=torch.Generator())
        if self.sampler is None:
            sampler.generator.manual_seed(generator.initial_seed() ^ int(self.random.sum()))
        else:
            sampler.load_state_dict(self.sampler)
        batches = -(-len(x) // batch_size)
        weak = int(_WARM_UP * epochs) if warm_up else 0
        steps = (epochs - weak) * batches
        burn_in = max(0, int(_BURN_IN * epochs * batches) - weak * batches) if warm_up else 0
        store = SampleStore(max_samples=_MAX_DRAWS)
        go = partial(sample, self, (x, y), sampler=sampler, batch_size=batch_size, prior=prior, loss=self.loss)
        go = partial(go, generator=generator, progress=bool(progress))
        if weak:
            group, rate = sampler.param_groups[0], sampler.param_groups[0]["lr"]
            group["lr"] = _WEAK * rate  # that of the mean loss stays
            go(epochs=weak, num_data=round(num_data / _WEAK))
            group["lr"] = rate
        thin = max(1, (steps - burn_in) // _MAX_DRAWS)
        go(epochs=epochs - weak, num_data=num_data, store=store, burn_in=burn_in, thin=thin)
        self.kept = [dict(draw) for draw in store]
        self.random, self.sampler, self.prior = generator.get_state(), sampler.state_dict(), prior.state_dict()

    def unsettled(self) -> str | None:
        """In words, what has not converged; None when nothing is known to be wrong."""
        return f"the chain is so short that {len(self.kept)} draws are kept" if len(self.kept) < 10 else None

    def draws(self, count: int, generator: torch.Generator) -> Iterator[tuple[list[tuple[Tensor, ...]], Tensor | None]]:
        """Layers of `count` draws in float64, evenly spread over those kept, and their noise scales (R,) or None."""
        for index in torch.linspace(0, len(self.kept) - 1, min(count, len(self.kept))).round().long().tolist():
            draw = {name: value.double() for name, value in self.kept[index].items()}
            layers = [
                tuple(draw[f"stack.posterior.{kind}.{layer}"] for kind in ("weights", "biases"))
                for layer in range(self.stack.posterior.layout.num_layers)
            ]
            scale = draw.get("likelihood.log_scale")
            yield layers, None if scale is None else scale.exp().clamp_min(self.likelihood.minimum).squeeze(1)

    def inclusion(self) -> list[Tensor]:
        """rho of every layer's weights, the probability of the slab, (R, units, inputs), float64."""
        return [rho.double() for rho in self.prior["rho"].values()]

    def counted(self, layout: Layout) -> int:
        """Weights of a network without its biases, of which `sparsity` is the share."""
        return sum(layout.splits[::2])

    def sparsity(self) -> float:
        """Expected share of weights in the slab, in percent."""
        return 100.0 * float(torch.cat([rho.flatten() for rho in self.inclusion()]).mean())
