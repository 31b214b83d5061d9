"""Approximate posteriors of Bayesian linear regression, each a Gaussian law of the weights and perhaps its draws.

`APPROXIMATIONS` maps a method's name to a function of a stack of problems, its settings and a generator. None uses the
closed form of the posterior; noise and prior are those of `linear_posterior` with both scales 1.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bnnlib import sampling as mcmc
from bnnlib.models.layers import Dropout
from bnnlib.nn import GaussianLinear, use_generator
from bnnlib.sampling import SGHMC, SGLD
from chapters.foundations.regression import Gaussian, linear_posterior
from chapters.foundations.selectors import train

Settings = Mapping[str, Any]


class Approximation(NamedTuple):
    """What a method says of a stack of problems.

    Args:
        law: mean (problems, p) and covariance (problems, p, p).
        draws: of a chain, (problems, chains, draws, p); None where there is none.
        passes: over all rows that the gradients of the chains have taken in all, warm-up included.
    """

    law: Gaussian
    draws: Tensor | None = None
    passes: float = 0.0


def energy(weight: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """-log posterior of weights (..., p) without its constant, in nats, shape (...); x (..., n, p) and y (..., n)."""
    residual = y - (x @ weight[..., None]).squeeze(-1)
    return 0.5 * residual.square().sum(dim=-1) + 0.5 * weight.square().sum(dim=-1)


def law_of(draws: Tensor) -> Gaussian:
    """Mean and covariance of draws (..., draws, p)."""
    mean = draws.mean(dim=-2)
    centered = draws - mean[..., None, :]
    return Gaussian(mean, centered.mT @ centered / draws.shape[-2])


def exact(x: Tensor, y: Tensor, settings: Settings, generator: torch.Generator) -> Approximation:
    """The closed form, to have it in the same table."""
    return Approximation(linear_posterior(x, y))


def laplace(x: Tensor, y: Tensor, settings: Settings, generator: torch.Generator) -> Approximation:
    """The mode by one Newton step and the curvature there by autograd; exact for a Gaussian posterior."""
    means, covariances = [], []
    for one in zip(x, y, strict=True):
        at = torch.zeros(x.shape[-1], dtype=x.dtype)
        curvature = torch.func.hessian(energy)(at, *one)
        means.append(at - torch.linalg.solve(curvature, torch.func.grad(energy)(at, *one)))
        covariances.append(torch.linalg.inv(curvature))
    return Approximation(Gaussian(torch.stack(means), torch.stack(covariances)))


def mean_field(x: Tensor, y: Tensor, settings: Settings, generator: torch.Generator) -> Approximation:
    """`GaussianLinear` trained by the gradient of one draw a step; row i of its weight is problem i."""
    layer = GaussianLinear(
        x.shape[-1], len(x), bias=False, dtype=x.dtype, prior_scale=1.0, initial_scale=settings["initial_scale"]
    )
    nn.init.zeros_(layer.weight)

    def loss() -> Tensor:
        residual = y - (x @ layer.draw(generator)[0][..., None]).squeeze(-1)
        return 0.5 * residual.square().sum() + layer.kl_divergence()

    train(loss, layer, settings)
    return Approximation(Gaussian(layer.weight.detach(), torch.diag_embed(layer.scale()[0].detach().square())))


def dropout(x: Tensor, y: Tensor, settings: Settings, generator: torch.Generator) -> Approximation:
    """Dropout on the inputs, trained to the minimum of its expected loss, then left on (Gal and Ghahramani, 2016).

    The expected loss of a linear model is a ridge regression: dropout adds rate / (1 - rate) times the diagonal of X'X,
    and the weight decay that stands for the prior N(0, 1) is 1 - rate.
    """
    rate, gram = settings["rate"], x.mT @ x
    added = rate / (1.0 - rate) * gram.diagonal(dim1=-2, dim2=-1) + (1.0 - rate)
    weight = torch.linalg.solve(gram + torch.diag_embed(added), (x.mT @ y[..., None]).squeeze(-1))
    with use_generator(generator):
        draws = Dropout(rate).train()(weight[:, None].expand(-1, settings["draws"], -1).clone())
    return Approximation(law_of(draws))


def chains_of(kind: str, x: Tensor, y: Tensor, settings: Settings, generator: torch.Generator) -> Approximation:
    """Chains of all problems as one tensor; mini-batches are drawn with replacement, for each chain its own."""
    problems, rows, inputs = x.shape
    chains, size = settings["chains"], settings["batch_size"]
    start = torch.randn(problems, chains, inputs, generator=generator, dtype=x.dtype)
    weight = nn.Parameter(start)
    options = {"momentum": settings["momentum"]} if kind == "SGHMC" else {}
    sampler = {"SGLD": SGLD, "SGHMC": SGHMC}[kind](
        [weight], lr=settings["learning_rate"], generator=generator, **options
    )
    gram, cross = x.mT @ x, (x.mT @ y[..., None]).squeeze(-1)
    place, kept = torch.arange(problems)[:, None, None], []
    for step in range(settings["burn_in"] + settings["steps"]):
        with torch.no_grad():
            if size == rows:
                gradient = weight @ gram - cross[:, None]
            else:
                chosen = torch.randint(rows, (problems, chains, size), generator=generator)
                some, targets = x[place, chosen], y[place, chosen]
                residual = (some @ weight[..., None]).squeeze(-1) - targets
                gradient = (rows / size) * (residual[..., None, :] @ some).squeeze(-2)
            weight.grad = gradient + weight
        sampler.step()
        if step >= settings["burn_in"] and step % settings["thin"] == 0:
            kept.append(weight.detach().clone())
    draws = torch.stack(kept, dim=2)
    passes = (settings["burn_in"] + settings["steps"]) * chains * size / rows
    return Approximation(law_of(draws.flatten(1, 2)), draws, passes)


def hmc(x: Tensor, y: Tensor, settings: Settings, generator: torch.Generator) -> Approximation:
    """Hamiltonian Monte Carlo of `bnnlib.sampling`, step size and mass matrix from a warm-up; problem by problem."""
    draws, passes = [], 0.0
    for rows, targets in zip(x, y, strict=True):

        def log_prob(point: Tensor, rows=rows, targets=targets) -> Tensor:
            return -energy(point, rows, targets)

        start = torch.randn(settings["chains"], x.shape[-1], generator=generator, dtype=x.dtype)
        found = mcmc.warm_up(log_prob, start, settings["warm_up"], generator=generator)
        trace = mcmc.sample(found.kernel, found.state, settings["draws"], burn_in=10, generator=generator)
        draws.append(trace.draws)
        # a warm-up step has at most 8 leapfrog steps, as many as the first windows take
        passes += settings["chains"] * (8 * settings["warm_up"] + found.kernel.num_leapfrog * (settings["draws"] + 10))
    together = torch.stack(draws)
    return Approximation(law_of(together.flatten(1, 2)), together, passes / len(x))


APPROXIMATIONS: dict[str, Callable[[Tensor, Tensor, Settings, torch.Generator], Approximation]] = {
    "Exact": exact,
    "Laplace": laplace,
    "Mean field": mean_field,
    "MC dropout": dropout,
    "SGLD": partial(chains_of, "SGLD"),
    "SGLD, all rows": partial(chains_of, "SGLD"),
    "SGHMC": partial(chains_of, "SGHMC"),
    "SGHMC, all rows": partial(chains_of, "SGHMC"),
    "SGHMC, long step": partial(chains_of, "SGHMC"),
    "HMC": hmc,
}
