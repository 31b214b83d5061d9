"""Samplers: chains of weights whose draws are what predicts."""

import inspect
import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from bnnlib.contest.predictor import Predictor
from bnnlib.contest.problem import GaussianNoise, Problem, descend
from bnnlib.optim import AdaptiveVariational, GroupSpikeSlab
from bnnlib.pruning import MagnitudePruner, prunable_weights, smooth_sparsity
from bnnlib.sampling import SGHMC, SampleStore, SpikeSlabGaussianLaplacePrior, polynomial
from bnnlib.train import sample

DRAWS = 30


class _WithPrior(nn.Module):
    """The mean loss plus a normal prior's energy of all weights, shared over n rows."""

    def __init__(self, loss: nn.Module, network: nn.Module, precision: float, num_data: int) -> None:
        super().__init__()
        self.loss, self.factor = loss, 0.5 * precision / num_data
        self.parts = list(network.parameters())

    def forward(self, output: Tensor, y: Tensor) -> Tensor:
        return self.loss(output, y) + self.factor * sum(part.square().sum() for part in self.parts)


def _from_store(store: SampleStore):
    def draws(model: nn.Module, x: Tensor, num_samples: int, generator: torch.Generator) -> Tensor:
        outputs = torch.stack(list(inspect.unwrap(SampleStore.outputs)(store, model, x, 4096)))
        return outputs[torch.linspace(0, len(outputs) - 1, min(num_samples, len(outputs))).round().long()]

    return draws


def _chain(network, problem: Problem, steps: int, seed: int, lr: float, temperature: float, loss, **more) -> Predictor:
    count, device = len(problem.x), problem.x.device
    noise = torch.Generator(device).manual_seed(2 * seed)
    sampler = SGHMC(network.parameters(), lr=lr / count, momentum=0.9, temperature=temperature, generator=noise)
    store = SampleStore(max_samples=2 * DRAWS)
    half = steps // 2
    sample(
        network,
        (problem.x, problem.y),
        sampler=sampler,
        epochs=problem.epochs(steps),
        max_steps=steps,
        batch_size=problem.batch_size,
        loss=loss,
        store=store,
        burn_in=half,
        thin=max(1, (steps - half) // DRAWS),
        generator=torch.Generator(device).manual_seed(2 * seed + 1),
        **more,
    )
    inner = getattr(loss, "loss", loss)
    variance = float(inner.variance) if isinstance(inner, GaussianNoise) else math.nan
    return Predictor(network, problem, _from_store(store), variance, networks=len(store))


def sghmc(network, problem: Problem, steps: int, seed: int, lr: float, temperature: float) -> Predictor:
    """SGHMC under N(0, 1) priors; the second half of the chain predicts."""
    loss = _WithPrior(problem.loss().to(problem.x.device), network, 1.0, len(problem.x))
    return _chain(network, problem, steps, seed, lr, temperature, loss)


def sghmc_sa(
    network, problem: Problem, steps: int, seed: int, lr: float, temperature: float, sparsity: float
) -> Predictor:
    """SGHMC with the prior learned by stochastic approximation and magnitude pruning, of Deng et al. (2019)."""
    names = list(prunable_weights(network))[:-1]  # a layer that makes one output has no weights to spare
    prior = SpikeSlabGaussianLaplacePrior(
        network,
        sparse=names,
        spike_scale=0.1,
        slab_variance=1.0,
        step_size=polynomial(1.0, 1000.0, 0.75),
        update=("rho", "kappa", "inclusion"),
        weight_decay=1.0,
    )
    pace = steps / 600.0  # so that the share has come within 2 % of its end after two thirds of the chain
    pruner = MagnitudePruner(network, lambda k: smooth_sparsity(k, sparsity, steps=pace), names=names, persistent=False)
    loss = problem.loss().to(problem.x.device)
    predictor = _chain(network, problem, steps, seed, lr, temperature, loss, prior=prior, callbacks=[pruner])
    predictor.selects = True
    return predictor


def adaptive_variational(
    network, problem: Problem, steps: int, seed: int, lr: float, spike: float, hard_threshold: float
) -> Predictor:
    """The adaptive variational optimizer with the group prior of Ke and Fan (2023)."""
    count, epochs = len(problem.x), problem.epochs(steps)
    prior = GroupSpikeSlab(
        network,
        spike,
        min(5e-4, spike / 2.0),
        count,
        hard_threshold=hard_threshold,
        warm_up=epochs // 2,
        when_empty="allow",
    )
    noise = torch.Generator(problem.x.device).manual_seed(2 * seed)
    optimizer = AdaptiveVariational(network.parameters(), lr, count, weight_decay=5e-4, prior=prior, generator=noise)
    half = steps // 2
    store = SampleStore(max_samples=2 * DRAWS, burn_in=half, every=max(1, (steps - half) // DRAWS))
    own = replace(problem, keep="last")  # the prior empties groups at the end, and the draws are what predicts
    variance = descend(network, own, steps, seed, optimizer, callbacks=[prior, store])
    return Predictor(network, problem, _from_store(store), variance, networks=len(store), selects=True)
