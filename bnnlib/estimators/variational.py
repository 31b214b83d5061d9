"""Stacks with a variational posterior, trained by `fit_stacked`: what the estimators run for every method but SGHMC."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from bnnlib._terminal import progress_bar
from bnnlib.estimators.likelihoods import SharedGaussian
from bnnlib.replicates import (
    Layout,
    StackedGaussian,
    StackedGaussianSpikeSlab,
    StackedInputHorseshoe,
    StackedMLP,
    StackedPosterior,
    StackedSpikeSlab,
    fit_stacked,
)
from bnnlib.replicates.layout import PerReplicate

# Of the Gaussian spike's scale to the slab's. Of 200 inputs with five that matter (Friedman's function), the first
# network kept 28 at 0.01 and 9 at 0.02; at 0.04 no input was likelier in than out.
_SPIKE_SHARE = 0.02
# A fit begins with a weak prior: with the whole one from the start, inputs that only interact or whose effect is even
# leave before the network has found them. Chosen on simulated training data (Friedman's function, products, |x|).
_WARM_UP = 0.2  # share of the epochs with the weak prior
_WEAK = 0.1  # factor of the divergence in them
_STEADY = 0.7  # share of the other epochs before the learning rate falls
_FLOOR = 0.02  # share of the learning rate in the last epoch
_NEAR = 1.0  # a log-odds within it of its start has not moved: phi from 0.973 to 0.996 around 0.99
_TRAVEL = 3.0  # ways from the start to even odds that Adam must be able to go, whose step is its learning rate
_SETTLING = 0.1  # share of the weights that are in at the end that may leave in the last tenth


def _posterior(
    method: str, layout: Layout, weight: Tensor, probability: PerReplicate, scale: float
) -> StackedPosterior:
    if method == "spike_slab":
        return StackedSpikeSlab(layout, weight, probability, scale)
    if method == "gaussian_spike_slab":
        return StackedGaussianSpikeSlab(layout, weight, scale, _SPIKE_SHARE * scale, probability)
    if method == "horseshoe":
        return StackedInputHorseshoe(layout, weight, output_scale=scale)
    return StackedGaussian(layout, weight, scale)


class Variational(nn.Module):
    """Replicates of one network as a stack, with what it takes to train them, to go on, and to draw from them.

    The prior's inclusion probability may differ by network.
    """

    memory = ("random", "optimizer")  # beside the modules' state, what a saved estimator needs to go on

    def __init__(
        self,
        method: str,
        layout: Layout,
        likelihood: nn.Module,
        activation: str,
        learning_rate: float,
        prior_inclusion_probability: PerReplicate,
        prior_scale: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        weight = layout.kaiming_uniform(generator)
        posterior: Any = _posterior(method, layout, weight, prior_inclusion_probability, prior_scale)
        self.stack: Any = StackedMLP(posterior, activation)  # each posterior has methods of its own
        self.likelihood = likelihood
        self.learning_rate = learning_rate
        self.random = generator.get_state()
        self.optimizer: dict[str, Any] | None = None
        # of every log-odds
        self._start = float(posterior.weight_logit.detach()[0, 0]) if method == "spike_slab" else 0.0
        self._expected: list[float] = []  # weights that are in, by epoch of the last training
        self._travel = 0.0  # sum of the learning rates of all steps

    def train_on(
        self, x: Tensor, y: Tensor, epochs: int, batch_size: int, num_data: int, progress: bool | str, warm_up: bool
    ) -> None:
        """`epochs` more epochs on rows that stand for `num_data` rows.

        Args:
            x, y: (n, inputs) and (n, columns), or (n, R, ...) where every network has rows of its own.
        """
        replicates, generator = self.stack.replicates, torch.Generator()
        if x.dim() == 2:
            x, y = (part.unsqueeze(1).expand(-1, replicates, -1) for part in (x, y))
        generator.set_state(self.random)
        optimizer = torch.optim.Adam(self.parameters(), lr=self.learning_rate, fused=True)
        if self.optimizer is not None:
            optimizer.load_state_dict(self.optimizer)
        selecting, self._expected = hasattr(self.stack.posterior, "inclusion_probability"), []
        weak = int(_WARM_UP * epochs) if warm_up else 0
        rest = epochs - weak
        stages: list[tuple[int, float, Callable[[int], float] | None]] = [(weak, _WEAK, None)] if weak else []
        stages += [(rest, 1.0, lambda epoch: max(_FLOOR, min(1.0, (rest - epoch) / ((1.0 - _STEADY) * rest))))]
        with progress_bar(progress, epochs) as bar:

            def after(model: StackedMLP, epoch: int, _) -> None:
                if selecting:
                    self._expected.append(float(self.stack.posterior.inclusion_probability.sum()))
                self._travel += optimizer.param_groups[0]["lr"] * -(-len(x) // batch_size)
                bar.update(1)

            for count, prior_share, schedule in stages:
                fit_stacked(
                    self.stack,
                    x,
                    y,
                    epochs=count,
                    batch_size=batch_size,
                    learning_rate=self.learning_rate,
                    generator=generator,
                    kl_scale=prior_share * len(x) / num_data,
                    loss=self.likelihood,
                    schedule=schedule,
                    after_epoch=after,
                    optimizer=optimizer,
                )
        self.random, self.optimizer = generator.get_state(), optimizer.state_dict()

    def unsettled(self) -> str | None:
        """In words, what has not converged; None when nothing is known to be wrong."""
        posterior = self.stack.posterior
        if isinstance(posterior, StackedSpikeSlab):
            near = ((posterior._odds()[0] - self._start).abs() < _NEAR).double().mean().item()
            if near > 0.5:
                return (
                    f"{100 * near:.0f} % of the inclusion probabilities still sit near their start, "
                    f"{1.0 / (1.0 + math.exp(-self._start)):.2f}, so that nothing has been selected yet"
                )
            if self._travel < _TRAVEL * abs(self._start):
                return (
                    f"the steps times their learning rate add up to {self._travel:.1f}, too few to take log-odds from "
                    f"their start, {self._start:.1f}, to where the data want them: inputs may be in that do not matter"
                )
        if self._expected:
            before, now = self._expected[-max(1, len(self._expected) // 10) - 1 :][0], self._expected[-1]
            if before - now > _SETTLING * now and before - now > self.stack.replicates:
                return f"weights still leave: {before:.0f} were in before the last tenth of the epochs, now {now:.0f}"
        return None

    def draws(self, count: int, generator: torch.Generator) -> Iterator[tuple[list[tuple[Tensor, ...]], Tensor | None]]:
        """Layers of `count` posterior draws in float64, and the noise scales (R,), None without."""
        scale = self.likelihood.scale().double() if isinstance(self.likelihood, SharedGaussian) else None
        with torch.no_grad():
            for _ in range(count):
                layers = self.stack.posterior.draw_layers(generator)
                yield [tuple(part.double() for part in layer) for layer in layers], scale

    def inclusion(self) -> list[Tensor]:
        """phi of every layer's weights, (R, units, inputs), float64; 0 or 1 where the method has no probabilities."""
        posterior = self.stack.posterior
        selecting = hasattr(posterior, "inclusion_probability")
        flat = posterior.inclusion_probability if selecting else posterior.active()
        return [weight for weight, _ in posterior.layout.layers(flat.double())]

    def counted(self, layout: Layout) -> int:
        """Weights and biases of a network, of which `sparsity` is the share."""
        return layout.num_parameters

    def sparsity(self) -> float:
        """Share of weights that are in, in percent."""
        return float(self.stack.posterior.percent_active().mean())
