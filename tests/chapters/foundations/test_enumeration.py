"""Posteriors of regression: enumeration, closed forms, the Gibbs sampler, variational fixed points."""

import math

import pytest
import torch

from bnnlib import functional as bF
from chapters.foundations import mean_field as V
from chapters.foundations import regression as R
from chapters.foundations.enumeration import SpikeSlabRegression, all_models, enumerate_models, spike_slab_regression
from chapters.foundations.gibbs import gibbs
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


def regression(n=12, p=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = R.correlated_inputs((n, p), 0.7, generator)
    return x, torch.randn(n, generator=generator, dtype=torch.float64)


def test_stacks_of_regressions_give_what_they_give_alone():
    regressions = [regression(seed=seed) for seed in range(3)]
    x, y = (torch.stack(part) for part in zip(*regressions, strict=True))
    together = R.linear_posterior(x, y, 0.5)
    for index, one in enumerate(regressions):
        alone = R.linear_posterior(*one, 0.5)
        assert torch.allclose(together.mean[index], alone.mean)
        assert torch.allclose(together.covariance[index], alone.covariance)
        assert torch.allclose(R.linear_log_evidence(x, y)[index], R.linear_log_evidence(*one))


def test_inputs_are_as_correlated_as_they_should_be():
    x = R.correlated_inputs((20_000, 3), 0.9, torch.Generator().manual_seed(1))
    gram = x.T @ x / len(x)
    assert torch.allclose(gram.diagonal(), torch.ones(3, dtype=torch.float64))
    # the sd of a sample correlation is (1 - 0.9^2) / sqrt(20000) = 0.0013
    assert (gram[0, 1:] - 0.9).abs().max() < 6 * 0.0013
    x = R.correlated_inputs((50, 4), 0.0, torch.Generator().manual_seed(1), orthogonal=True)
    assert torch.allclose(x.T @ x, 50.0 * torch.eye(4, dtype=torch.float64), atol=1e-12)


def sampled(correlation, count=2, p=3, **prior):
    generator = torch.Generator().manual_seed(5)
    x = correlated_inputs((count, 40, p), correlation, generator)
    w = torch.tensor([0.0, 0.25, 0.6], dtype=torch.float64)[:p]
    y = x @ w + torch.randn(count, 40, generator=generator, dtype=torch.float64)
    return spike_slab_regression(x, y, inclusion=0.4, **prior)


@pytest.mark.parametrize("spike", [0.0, 0.15])
def test_the_sampler_agrees_with_enumeration(spike):
    stack = sampled(0.5, spike_scale=spike)
    found = gibbs(stack, chains=40, sweeps=400, burn_in=50, generator=torch.Generator().manual_seed(0))
    exact = enumerate_models(stack)
    # 40 chains are independent of each other: their spread is the error
    assert ((found.inclusion - exact.inclusion).abs() < 4 * found.standard_error).all()
    assert found.standard_error.max() < 0.01
    assert (found.r_hat < 1.05).all()  # chains of 400 sweeps
    assert ((found.mean - exact.mean).abs() < 0.05 * exact.scale).all()
    assert torch.allclose(found.scale, exact.scale, rtol=0.05)


def test_a_laplace_spike_agrees_with_a_grid():
    own, cross, scale = 40.0, 9.0, 0.1
    w = torch.linspace(-3.0, 3.0, 60_001, dtype=torch.float64)
    fit = cross * w - 0.5 * own * w**2
    slab = math.log(0.4) + fit - 0.5 * w**2 - 0.5 * math.log(2 * math.pi)
    spike = math.log(0.6) + fit - w.abs() / scale - math.log(2 * scale)
    both = torch.stack([slab, spike]).exp()
    share = both / both.sum()
    tensors = torch.full((1, 1), own, dtype=torch.float64), torch.full((1,), cross, dtype=torch.float64)
    one = SpikeSlabRegression(*tensors, torch.zeros((), dtype=torch.float64), inclusion=0.4)
    generator = torch.Generator().manual_seed(0)
    found = gibbs(one, chains=200, sweeps=200, burn_in=1, laplace_scale=scale, generator=generator)
    # with one weight the conditional probability is the answer; the draws are independent
    assert found.inclusion.item() == pytest.approx(share[0].sum().item(), abs=1e-6)
    mean = (share * w).sum().item()
    sd = ((share * w**2).sum() - mean**2).sqrt().item()
    assert found.mean.item() == pytest.approx(mean, abs=4 * sd / 200)
    assert found.scale.item() == pytest.approx(sd, rel=0.02)


def test_the_same_seed_gives_the_same_draws():
    stack = sampled(0.5)
    first, second = (
        gibbs(stack, chains=3, sweeps=10, burn_in=0, generator=torch.Generator().manual_seed(1)) for _ in range(2)
    )
    assert first.inclusion.equal(second.inclusion)


def fitted(correlation=0.6, p=5, n=50, seed=0, **prior):
    generator = torch.Generator().manual_seed(seed)
    x = correlated_inputs((n, p), correlation, generator, orthogonal=correlation == 0.0)
    w = torch.tensor([0.0, 0.0, 0.2, 0.35, 0.8], dtype=torch.float64)[:p]
    y = x @ w + torch.randn(n, generator=generator, dtype=torch.float64)
    return spike_slab_regression(x, y, **prior)


def test_the_bound_is_an_average_over_draws():
    one = fitted(p=3)
    mean, scale, logit = torch.tensor([[0.3, 0.5, -0.2], [0.2, 0.1, 0.3], [0.4, 1.0, -1.0]], dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    gate = torch.rand(400_000, 3, generator=generator, dtype=torch.float64) < torch.sigmoid(logit)
    draws = gate * (mean + scale * torch.randn(400_000, 3, generator=generator, dtype=torch.float64))
    fit = one.constant + draws @ one.cross - 0.5 * (draws @ one.gram * draws).sum(1)
    kl = bF.spike_slab_kl(mean, scale, logit, 0.5, 1.0).sum()
    error = fit.std() / 400_000**0.5
    assert abs(V.paired_elbo(one, mean, scale, logit) - (fit.mean() - kl)) < 4 * error


def test_the_slopes_shares_are_those_of_draws():
    logit, temperature = torch.tensor([1.5, -0.5], dtype=torch.float64), 0.5
    uniform = torch.rand(1_000_000, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    eta = logit + bF.logistic_noise(uniform)
    soft = torch.sigmoid(eta / temperature)
    slope = soft * (1 - soft) / temperature / (torch.sigmoid(logit) * torch.sigmoid(-logit))
    for share, part in zip(V.slope_shares(logit, temperature), (eta > 0, eta <= 0), strict=True):
        values = slope * part
        assert ((share - values.mean(0)).abs() < 4 * values.std(0) / 1000).all()
    for share in V.slope_shares(logit, 1e-3):
        assert torch.allclose(share, torch.full((2,), 0.5, dtype=torch.float64), atol=1e-3)


@pytest.mark.slow
def test_the_relaxed_gate_comes_to_mean_field_as_the_temperature_falls():
    for correlation in (0.0, 0.6):
        one = fitted(correlation)
        exact = V.coordinate_ascent(one).inclusion
        errors = [(V.relaxed_fixed_point(one, t).inclusion - exact).abs().max().item() for t in (0.5, 0.05, 0.005)]
        # once the temperature is small, the error is proportional to it
        assert errors[0] > errors[1]
        assert errors[1] / errors[2] == pytest.approx(10.0, rel=0.1)
        assert errors[2] < 0.002


def test_independent_weights_and_gates_end_where_their_bound_has_no_slope():
    one = fitted(spike_scale=0.1)
    found = V.independent_fixed_point(one)
    mean, scale = found.mean.clone().requires_grad_(), found.scale.clone().requires_grad_()
    prior = bF.mixture_prior(1.0, 0.1, 0.5)
    fit = mean @ one.cross - 0.5 * mean @ one.gram @ mean - 0.5 * (one.gram.diagonal() * scale**2).sum()
    elbo = one.constant + fit - (bF.spike_slab_profile_penalty(mean, scale, prior) - 0.5).sum()
    elbo.backward()
    assert max(mean.grad.abs().max().item(), scale.grad.abs().max().item()) < 1e-6
    assert found.objective.item() == pytest.approx(elbo.item())
    assert found.objective < enumerate_models(one).log_evidence


def test_more_starts_never_lower_the_bound():
    one = fitted(0.9)
    for method, chosen in ((V.coordinate_ascent, one), (V.independent_fixed_point, one.with_prior(spike_scale=0.1))):
        best = V.best_of_starts(method, chosen, 5, torch.Generator().manual_seed(0))
        assert best.objective >= method(chosen).objective


def test_one_input_has_the_probability_that_was_asked_for():
    for prior in (0.1, 0.5):
        one = V.single_input(0.935, 100, prior)
        assert enumerate_models(one).inclusion.item() == pytest.approx(0.935, abs=1e-12)
        assert V.coordinate_ascent(one).inclusion.item() == pytest.approx(0.935, abs=1e-9)
