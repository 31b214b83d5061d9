"""The sum over all models against integrals, regressions and models taken one by one."""

import math

import pytest
import torch

from chapters.foundations.enumeration import all_models, enumerate_models, spike_slab_regression
from chapters.foundations.regression import correlated_inputs, linear_log_evidence, linear_posterior


def data(n=30, p=4, correlation=0.8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = correlated_inputs((n, p), correlation, generator)
    w = torch.tensor([1.0, 0.0, -0.3, 0.1][:p], dtype=torch.float64)
    return x, x @ w + 0.8 * torch.randn(n, generator=generator, dtype=torch.float64)


def test_averages_are_those_of_the_models_taken_one_by_one():
    x, y = data()
    found = enumerate_models(spike_slab_regression(x, y, 0.8, inclusion=0.3, slab_scale=1.5))
    weights, means, squares, chosen = [], [], [], []
    for model in all_models(4):
        size = int(model.sum())
        weights.append(
            linear_log_evidence(x[:, model], y, 0.8, 1.5) + size * math.log(0.3) + (4 - size) * math.log(0.7)
        )
        alone = linear_posterior(x[:, model], y, 0.8, 1.5)
        mean, square = torch.zeros(2, 4, dtype=torch.float64)
        mean[model], square[model] = alone.mean, alone.scale**2 + alone.mean**2
        means.append(mean), squares.append(square), chosen.append(model.double())
    share = torch.stack(weights).softmax(0)
    assert torch.allclose(found.probabilities, share)
    assert torch.allclose(found.inclusion, share @ torch.stack(chosen))
    assert torch.allclose(found.mean, share @ torch.stack(means))
    assert torch.allclose(found.scale**2, share @ torch.stack(squares) - found.mean**2)
    assert found.log_evidence.item() == pytest.approx(torch.stack(weights).logsumexp(0).item())
    assert found.median_model.equal(found.inclusion > 0.5)


def test_a_gaussian_spike_agrees_with_a_grid_over_the_weights():
    x, y = data(p=2)
    problem = spike_slab_regression(x, y, 0.8, inclusion=0.3, slab_scale=1.5, spike_scale=0.2)
    found = enumerate_models(problem)
    side = torch.linspace(-4.0, 4.0, 1601, dtype=torch.float64)
    first, second = torch.meshgrid(side, side, indexing="ij")
    zero = torch.zeros((), dtype=torch.float64)
    slab, spike = (torch.distributions.Normal(zero, zero + scale) for scale in (1.5, 0.2))
    parts = [(math.log(0.3) + slab.log_prob(w), math.log(0.7) + spike.log_prob(w)) for w in (first, second)]
    priors = [torch.logaddexp(*pair) for pair in parts]
    fit = first * problem.cross[0] + second * problem.cross[1]
    fit -= 0.5 * (problem.gram[0, 0] * first**2 + 2.0 * problem.gram[0, 1] * first * second)
    fit -= 0.5 * problem.gram[1, 1] * second**2
    density = (problem.constant + fit + priors[0] + priors[1]).exp()
    area = (8.0 / 1600) ** 2
    assert found.log_evidence.item() == pytest.approx(math.log(density.sum().item() * area), abs=1e-9)
    share = density / density.sum()
    included = (share * (parts[0][0] - priors[0]).exp()).sum()
    assert found.inclusion[0].item() == pytest.approx(included.item(), abs=1e-9)
    assert found.mean[1].item() == pytest.approx((share * second).sum().item(), abs=1e-9)


def test_stacks_give_what_the_problems_give_alone():
    pairs = [data(seed=seed) for seed in range(3)]
    together = enumerate_models(spike_slab_regression(*(torch.stack(part) for part in zip(*pairs, strict=True))))
    for index, pair in enumerate(pairs):
        alone = enumerate_models(spike_slab_regression(*pair))
        for name in ("probabilities", "inclusion", "mean", "scale", "log_evidence"):
            assert torch.allclose(getattr(together, name)[index], getattr(alone, name))
