"""Variational fixed points of spike-and-slab regression: exact where they should be, optimal where they are not."""

import pytest
import torch

from bnnlib import functional as bF
from chapters.foundations import mean_field as V
from chapters.foundations.enumeration import enumerate_models, spike_slab_regression
from chapters.foundations.regression import correlated_inputs


def problem(correlation=0.6, p=5, n=50, seed=0, **prior):
    generator = torch.Generator().manual_seed(seed)
    x = correlated_inputs((n, p), correlation, generator, orthogonal=correlation == 0.0)
    w = torch.tensor([0.0, 0.0, 0.2, 0.35, 0.8], dtype=torch.float64)[:p]
    y = x @ w + torch.randn(n, generator=generator, dtype=torch.float64)
    return spike_slab_regression(x, y, **prior)


def test_the_bound_is_an_average_over_draws():
    one = problem(p=3)
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
        one = problem(correlation)
        exact = V.coordinate_ascent(one).inclusion
        errors = [(V.relaxed_fixed_point(one, t).inclusion - exact).abs().max().item() for t in (0.5, 0.05, 0.005)]
        # once the temperature is small, the error is proportional to it
        assert errors[0] > errors[1]
        assert errors[1] / errors[2] == pytest.approx(10.0, rel=0.1)
        assert errors[2] < 0.002


def test_independent_weights_and_gates_end_where_their_bound_has_no_slope():
    one = problem(spike_scale=0.1)
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
    one = problem(0.9)
    for method, chosen in ((V.coordinate_ascent, one), (V.independent_fixed_point, one.with_prior(spike_scale=0.1))):
        best = V.best_of_starts(method, chosen, 5, torch.Generator().manual_seed(0))
        assert best.objective >= method(chosen).objective


def test_one_input_has_the_probability_that_was_asked_for():
    for prior in (0.1, 0.5):
        one = V.single_input(0.935, 100, prior)
        assert enumerate_models(one).inclusion.item() == pytest.approx(0.935, abs=1e-12)
        assert V.coordinate_ascent(one).inclusion.item() == pytest.approx(0.935, abs=1e-9)
