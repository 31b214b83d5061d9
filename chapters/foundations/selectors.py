"""The book's methods on spike-and-slab regression, each asked for the probability that an input is in.

`SELECTORS` maps a method's name to a function of a stack of problems, its settings and a generator; another method is
another line. All see the same noise, slab and prior probability; a method whose spike is not the Dirac spike brings its
own `spike_scale`, and `EXACT` says what the exact answer under that spike would be. The misfit is that of all rows, by
X'X and X'y, so that nothing but the method's own noise is in its gradients.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib.nn import GaussianSpikeSlabLinear, SpikeSlabLinear, StructuredBayesianPruning
from bnnlib.optim import AdaptiveVariational, GroupSpikeSlab
from bnnlib.sampling import SGHMC, SpikeSlabGaussianLaplacePrior, polynomial
from book.lab.cells import Cell
from chapters.foundations import mean_field
from chapters.foundations.enumeration import SpikeSlabRegression, enumerate_models
from chapters.foundations.gibbs import gibbs

Settings = Mapping[str, Any]


class Selection(NamedTuple):
    """What a method says of every input, each (..., p).

    Args:
        score: larger is more surely in; an inclusion probability where `is_probability`.
        selected: the inputs that the method keeps, by its own rule.
        mean, scale: of the weight's posterior, where the method has one.
        is_probability: False where `score` is only a ranking.
    """

    score: Tensor
    selected: Tensor
    mean: Tensor | None = None
    scale: Tensor | None = None
    is_probability: bool = True


Selector = Callable[[SpikeSlabRegression, Settings, torch.Generator], Selection]


def _probabilities(inclusion: Tensor, mean: Tensor | None = None, scale: Tensor | None = None) -> Selection:
    return Selection(inclusion.detach(), inclusion.detach() > 0.5, mean, scale)


def misfit(problem: SpikeSlabRegression, weight: Tensor) -> Tensor:
    """Negative log-likelihood of weights (problems, p), without its constant, in nats, summed over the problems."""
    return (0.5 * weight * (problem.gram @ weight[..., None]).squeeze(-1) - weight * problem.cross).sum()


def prior_alone(problem: SpikeSlabRegression, settings: Settings, generator: torch.Generator) -> Selection:
    """The trivial rule: what was believed before there were data, w = 0 or not."""
    inclusion = torch.full_like(problem.cross, problem.inclusion)
    scale = torch.full_like(inclusion, problem.inclusion**0.5 * problem.slab_scale)
    return _probabilities(inclusion, torch.zeros_like(inclusion), scale)


def one_at_a_time(problem: SpikeSlabRegression, settings: Settings, generator: torch.Generator) -> Selection:
    """The second trivial rule: each input as if it were the only one."""
    alone = torch.diag_embed(problem.gram.diagonal(dim1=-2, dim2=-1))
    found = mean_field.coordinate_ascent(replace(problem, gram=alone, spike_scale=0.0))
    return _probabilities(found.inclusion, found.mean, found.scale)


def exact(problem: SpikeSlabRegression, settings: Settings, generator: torch.Generator) -> Selection:
    """All models; with `spike_scale` under a Gaussian spike of that width."""
    found = enumerate_models(problem.with_prior(spike_scale=settings.get("spike_scale", 0.0)))
    return _probabilities(found.inclusion, found.mean, found.scale)


def sampled(problem: SpikeSlabRegression, settings: Settings, generator: torch.Generator) -> Selection:
    """The Gibbs sampler; with `laplace_scale` under a Laplace spike."""
    found = gibbs(problem, **settings, generator=generator)
    return _probabilities(found.inclusion, found.mean, found.scale)


def mean_field_selector(problem: SpikeSlabRegression, settings: Settings, generator: torch.Generator) -> Selection:
    """Coordinate ascent in the paired family, the best of `starts` random starts beside the prior's."""
    found = mean_field.best_of_starts(mean_field.coordinate_ascent, problem, settings["starts"], generator)
    return _probabilities(found.inclusion, found.mean, found.scale)


def relaxed_limit(problem: SpikeSlabRegression, settings: Settings, generator: torch.Generator) -> Selection:
    """Where the straight-through gradient of the relaxed gate is zero on average, at a temperature."""
    found = mean_field.relaxed_fixed_point(problem, settings["temperature"])
    return _probabilities(found.inclusion, found.mean, found.scale)


def relaxed_gate(problem: SpikeSlabRegression, settings: Settings, generator: torch.Generator) -> Selection:
    """Chapter 3: `SpikeSlabLinear` trained by the straight-through gradient, logits averaged over the last half."""
    layer = _layer(SpikeSlabLinear, problem, settings, prior_inclusion_probability=problem.inclusion,
                   prior_scale=problem.slab_scale, temperature=settings["temperature"],
                   initial_inclusion_probability=problem.inclusion)  # fmt: skip
    averages = [torch.zeros_like(p) for p in (layer.weight, layer.weight_rho, layer.weight_logit)]
    last = settings["steps"] // 2

    def keep(step: int) -> None:
        for average, value in zip(averages, (layer.weight, layer.weight_rho, layer.weight_logit), strict=True):
            average.add_(value.detach(), alpha=float(step >= last) / (settings["steps"] - last))

    train(lambda: misfit(problem, layer.draw(generator)[0]) + layer.kl_divergence(), layer, settings, keep)
    found = mean_field.paired(problem, averages[0], F.softplus(averages[1]), averages[2])
    return _probabilities(found.inclusion, found.mean, found.scale)


def group_em(problem: SpikeSlabRegression, settings: Settings, generator: torch.Generator) -> Selection:
    """Chapter 2: its chain within hard EM, each input a group of one weight; P(slab | weight) over the last half.

    The E-step follows every step after a tenth of them. Nothing is removed, as a group that is gone has no probability.
    """
    rows = settings["rows"]
    weight = nn.Parameter(torch.zeros_like(problem.cross)[:, None])
    prior = GroupSpikeSlab(
        {"weight": weight},
        spike=1.0 / (rows * settings["spike_scale"] ** 2),
        slab=1.0 / (rows * problem.slab_scale**2),
        num_data=rows,
        prior_slab_probability=problem.inclusion,
        batch_dims=1,
    )
    optimizer = AdaptiveVariational([weight], settings["learning_rate"], rows, prior=prior, generator=generator)
    steps, draws = settings["steps"], []
    for step in range(steps):
        if step >= steps // 10:
            prior.update()
        with torch.no_grad():
            weight.grad = ((problem.gram @ weight.mT).mT - problem.cross[:, None]) / rows
        optimizer.step()
        if step >= steps // 2:
            draws.append(torch.stack([prior.slab_probability()["weight"], weight.detach().clone()])[..., 0, :])
    inclusion, kept = torch.stack(draws).unbind(dim=1)
    return _probabilities(inclusion.mean(dim=0), kept.mean(dim=0), kept.std(dim=0, correction=0))


def closed_form(problem: SpikeSlabRegression, settings: Settings, generator: torch.Generator) -> Selection:
    """Chapter 4: `GaussianSpikeSlabLinear`, whose p* follows the weights; the misfit's mean over the weights is exact.

    With `starts` in place of `steps` the same objective by alternation, the best of that many random starts.
    """
    if "starts" in settings:
        own = problem.with_prior(spike_scale=settings["spike_scale"])
        method = mean_field.independent_fixed_point
        found = mean_field.best_of_starts(method, own, settings["starts"], generator)
        return _probabilities(found.inclusion, found.mean, found.scale)
    layer = _layer(GaussianSpikeSlabLinear, problem, settings, prior_inclusion_probability=problem.inclusion,
                   slab_scale=problem.slab_scale, spike_scale=settings["spike_scale"])  # fmt: skip
    own = problem.gram.diagonal(dim1=-2, dim2=-1)

    def loss() -> Tensor:
        spread = 0.5 * (own * layer.scale()[0].square()).sum()
        return misfit(problem, layer.weight) + spread + layer.kl_divergence()

    train(loss, layer, settings)
    return _probabilities(layer.inclusion_probability, layer.weight.detach(), layer.scale()[0].detach())


def stochastic_approximation(problem: SpikeSlabRegression, settings: Settings, generator: torch.Generator) -> Selection:
    """Chapter 1: SGHMC under the Laplace spike and Gaussian slab whose rho is learned beside it.

    Noise and prior probability are known here, so that sigma = 1 and delta stay where they are; rho and kappa move.
    """
    weight = nn.Parameter(torch.zeros_like(problem.cross))
    prior = SpikeSlabGaussianLaplacePrior(
        {"weight": weight},
        spike_scale=settings["spike_scale"],
        slab_variance=problem.slab_scale**2,
        inclusion=problem.inclusion,
        rho=problem.inclusion,
        step_size=polynomial(*settings["weights"]),
        update=("rho", "kappa"),
        batch_dims=1,
    )
    sampler = SGHMC([weight], lr=settings["learning_rate"], momentum=settings["momentum"], generator=generator)
    total, square, last = torch.zeros_like(problem.cross), torch.zeros_like(problem.cross), settings["steps"] // 2
    for step in range(settings["steps"]):
        with torch.no_grad():
            weight.grad = (problem.gram @ weight[..., None]).squeeze(-1) - problem.cross
        prior.add_gradient_()
        sampler.step()
        prior.update()
        if step >= last:
            total += weight.detach()
            square += weight.detach().square()
    mean, second = total / (settings["steps"] - last), square / (settings["steps"] - last)
    return _probabilities(prior.rho["weight"], mean, (second - mean.square()).clamp_min(0.0).sqrt())


def unit_noise(problem: SpikeSlabRegression, settings: Settings, generator: torch.Generator) -> Selection:
    """Chapter 5: noise theta on every input. Its signal-to-noise ratio is a ranking and no probability."""
    shape = problem.cross.shape
    noise = StructuredBayesianPruning(problem.cross.numel(), dtype=torch.float64)
    weight = nn.Parameter(_ridge(problem))
    model = nn.ParameterList([weight, *noise.parameters()])
    train(lambda: misfit(problem, noise.draw(generator).view(shape) * weight) + noise.kl_divergence(), model, settings)
    ratio = noise.signal_to_noise().view(shape)
    return Selection(ratio, ratio > noise.threshold, is_probability=False)


def standard_scores(problem: SpikeSlabRegression, settings: Settings, generator: torch.Generator) -> Selection:
    """The trivial ranking: |mean| / sd of each weight under the slab alone, a ridge regression; kept above 2."""
    covariance = torch.linalg.inv(_ridge_precision(problem))
    mean, scale = _ridge(problem), covariance.diagonal(dim1=-2, dim2=-1).sqrt()
    score = mean.abs() / scale
    return Selection(score, score > 2.0, mean, scale, is_probability=False)


def _ridge_precision(problem: SpikeSlabRegression) -> Tensor:
    return problem.gram + torch.eye(problem.cross.shape[-1]).to(problem.gram) / problem.slab_scale**2


def _ridge(problem: SpikeSlabRegression) -> Tensor:
    return torch.linalg.solve(_ridge_precision(problem), problem.cross)


def _layer(kind, problem: SpikeSlabRegression, settings: Settings, **prior):
    """A layer whose rows are the problems' weights, started at the ridge regression."""
    count, p = problem.cross.shape
    layer = kind(p, count, bias=False, dtype=torch.float64, initial_scale=settings["initial_scale"], **prior)
    with torch.no_grad():
        layer.weight.copy_(_ridge(problem))
    return layer


def falling(step: int, steps: int) -> float:
    """Of the learning rate: constant over the first half, then down to a hundredth of it."""
    return 0.01 ** max(0.0, 2.0 * step / steps - 1.0)


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell that trains or samples, for its probe."""
    if "learning_rate" not in cell.params:
        return {}
    steps = cell.params["steps"]
    weights = {"weight": (polynomial(*cell.params["weights"]), range(1, steps + 1))} if "weights" in cell.params else {}
    return {"learning rate": (partial(falling, steps=steps), range(steps))} | weights


def train(
    loss: Callable[[], Tensor],
    model: nn.Module,
    settings: Settings,
    after: Callable[[int], None] = lambda step: None,
) -> None:
    """Adam, whose step is `falling`."""
    optimizer = torch.optim.Adam(model.parameters(), lr=settings["learning_rate"])
    steps = settings["steps"]
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = settings["learning_rate"] * falling(step, steps)
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        after(step)


SELECTORS: dict[str, Selector] = {
    "Enumeration": exact,
    "Prior": prior_alone,
    "One at a time": one_at_a_time,
    "Gibbs": sampled,
    "Mean field": mean_field_selector,
    "Mean field, best start": mean_field_selector,
    "SVBNN": relaxed_gate,
    "SVBNN, limit": relaxed_limit,
    "SVBNN, cold limit": relaxed_limit,
    "sBNN": closed_form,
    "sBNN, best start": closed_form,
    "sBNN, narrow spike": closed_form,
    "SGHMC-SA": stochastic_approximation,
    "SGHMC-SA, longer": stochastic_approximation,
    "AVO": group_em,
    "SBP": unit_noise,
    "|mean| / sd": standard_scores,
    "Exact, Gaussian spike": exact,
    "Exact, Laplace spike": sampled,
}
EXACT = {
    "sBNN": "Exact, Gaussian spike",
    "sBNN, best start": "Exact, Gaussian spike",
    "SGHMC-SA": "Exact, Laplace spike",
    "SGHMC-SA, longer": "Exact, Laplace spike",
    "AVO": "Exact, Gaussian spike",
}
