"""Approximate posteriors of linear regression: those that are exact here, and those whose error is known."""

import pytest
import torch

from chapters.foundations.approximations import APPROXIMATIONS, law_of
from chapters.foundations.regression import correlated_inputs, linear_posterior, mean_field_gaussian


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(3)
    x = correlated_inputs((2, 60, 3), 0.6, generator)
    w = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    return x, (x @ w[..., None]).squeeze(-1) + torch.randn(2, 60, generator=generator, dtype=torch.float64)


def found(method, data, **settings):
    return APPROXIMATIONS[method](*data, settings, torch.Generator().manual_seed(0))


def test_laplace_is_exact(data):
    law, exact = found("Laplace", data).law, linear_posterior(*data)
    assert torch.allclose(law.mean, exact.mean) and torch.allclose(law.covariance, exact.covariance)


@pytest.mark.slow
def test_the_layer_learns_the_independent_gaussian_nearest_to_the_posterior(data):
    law = found("Mean field", data, steps=4000, learning_rate=0.03, initial_scale=0.1).law
    exact = linear_posterior(*data)
    nearest = mean_field_gaussian(exact)
    # the steps' noise is a twentieth of an sd
    assert ((law.mean - nearest.mean).abs() < 0.1 * exact.scale).all()
    assert torch.allclose(law.scale, nearest.scale, rtol=0.05)


def test_dropout_is_the_ridge_of_its_expected_loss(data):
    x, y = data
    rate = 0.2
    law = found("MC dropout", data, rate=rate, draws=40_000).law
    gram = x.mT @ x
    # E |y - X D w|^2 in full: the misfit of w and the variance of the masks
    ridge = torch.linalg.solve(
        gram
        + torch.diag_embed(gram.diagonal(dim1=-2, dim2=-1)) * rate / (1 - rate)
        + (1 - rate) * torch.eye(3, dtype=torch.float64),
        (x.mT @ y[..., None]).squeeze(-1),
    )
    weight = ridge.clone().requires_grad_()
    misfit = (y - (x @ weight[..., None]).squeeze(-1)).square().sum()
    noise = (rate / (1 - rate) * weight.square() * x.square().sum(dim=-2)).sum()
    loss = 0.5 * (misfit + noise) + 0.5 * (1 - rate) * weight.square().sum()
    (slope,) = torch.autograd.grad(loss, weight)
    assert slope.abs().max() < 1e-9
    spread = weight.detach().abs() * (rate / (1 - rate)) ** 0.5
    assert ((law.mean - weight.detach()).abs() < 4 * spread / 200).all()
    assert torch.allclose(law.scale, spread, rtol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["SGHMC, all rows", "SGHMC, long step", "HMC"])
def test_samplers_with_all_rows_find_the_posterior(data, method):
    settings = {"chains": 4, "steps": 6000, "burn_in": 500, "thin": 2, "batch_size": 60, "momentum": 0.9}
    if method == "HMC":
        settings = {"chains": 4, "warm_up": 100, "draws": 500}
    answer = found(method, data, learning_rate=1e-3, **settings)
    exact = linear_posterior(*data)
    # ESS is above 1000: four standard errors
    assert ((answer.law.mean - exact.mean).abs() < 0.13 * exact.scale).all()
    assert torch.allclose(answer.law.scale, exact.scale, rtol=0.1)
    assert answer.draws.shape[:2] == (2, 4) and answer.passes > 0


@pytest.mark.slow
def test_mini_batches_widen_what_sgld_says(data):
    settings = {"chains": 4, "steps": 4000, "burn_in": 500, "thin": 2, "learning_rate": 1e-3}
    noisy = found("SGLD", data, batch_size=2, **settings).law.scale
    whole = found("SGLD", data, batch_size=60, **settings).law.scale
    assert (noisy > 1.1 * whole).all()


def test_the_law_of_draws_is_their_mean_and_covariance():
    draws = torch.randn(2, 50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    law = law_of(draws)
    assert torch.allclose(law.mean, draws.mean(1))
    assert torch.allclose(law.covariance[1], torch.cov(draws[1].T, correction=0))
