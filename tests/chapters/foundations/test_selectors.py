"""The book's methods as selectors and as posteriors of regression: where they end, and every method answers in form."""

import pytest
import torch

from bnnlib import functional as bF
from chapters.foundations import mean_field
from chapters.foundations.approximations import APPROXIMATIONS, law_of
from chapters.foundations.enumeration import enumerate_models
from chapters.foundations.experiments.inclusion import SETTINGS, measures, problems, rank_agreement
from chapters.foundations.regression import correlated_inputs, linear_posterior, mean_field_gaussian
from chapters.foundations.selectors import EXACT, SELECTORS, Selection

SMALL = {"steps": 20, "chains": 2, "sweeps": 8, "burn_in": 2, "starts": 1}


def select(method, stack, **settings):
    return SELECTORS[method](stack, SETTINGS[method] | settings, torch.Generator().manual_seed(0))


@pytest.mark.slow
@pytest.mark.parametrize("method", list(SETTINGS))
def test_every_method_answers_in_form(method):
    stack, _ = problems("rho=0.5", [0, 1])
    own = {name: value for name, value in SMALL.items() if name in SETTINGS[method]}
    found = select(method, stack, **own)
    assert found.score.shape == found.selected.shape == (2, 10) and found.score.isfinite().all()
    if found.is_probability:
        assert (found.score >= 0).all() and (found.score <= 1).all() and found.selected.equal(found.score > 0.5)
    if found.mean is not None:
        assert found.mean.shape == found.scale.shape == (2, 10) and (found.scale >= 0).all()
    assert {"median_model", "inputs_as_exact"} <= measures(found, enumerate_models(stack)).keys()


def test_settings_selectors_and_exact_answers_name_the_same_methods():
    assert SETTINGS.keys() == SELECTORS.keys() >= EXACT.keys() | set(EXACT.values())


@pytest.mark.slow
def test_trained_gates_stand_where_their_gradient_has_no_slope():
    stack, _ = problems("orthogonal", [0, 1])
    found = select("SVBNN", stack, steps=4000)
    limit = select("SVBNN, limit", stack)
    # noise of a logit that has been averaged over 2000 steps
    assert (found.score - limit.score).abs().mean() < 0.03
    cold = select("SVBNN, cold limit", stack)
    assert (cold.score - enumerate_models(stack).inclusion).abs().max() < 0.01


@pytest.mark.slow
def test_the_trained_layer_of_chapter_4_and_alternation_end_at_the_same_point():
    stack, _ = problems("orthogonal", [0, 1])
    trained = select("sBNN", stack)
    alternating = mean_field.independent_fixed_point(stack.with_prior(spike_scale=0.1))
    assert torch.allclose(trained.score, alternating.inclusion, atol=1e-4)
    assert torch.allclose(trained.scale, alternating.scale, rtol=1e-3)


def test_orthogonal_inputs_are_judged_exactly_one_at_a_time():
    stack, _ = problems("orthogonal", [0, 1])
    exact = enumerate_models(stack)
    for method in ("One at a time", "Mean field", "Enumeration"):
        values = measures(select(method, stack), exact)
        assert values["inclusion_error"].max() < 1e-9 and values["median_model"].min() == 100.0
        assert values["weight_mean_error"].max() < 1e-9
        assert values["weight_sd_ratio"].tolist() == pytest.approx([1.0, 1.0])


@pytest.mark.slow
def test_stochastic_approximation_stands_at_its_own_conditions():
    """At the end rho is the average of the slab's probability over the chain, equation (aeb-slab-probability)."""
    stack, _ = problems("orthogonal", [0])
    found = select("SGHMC-SA", stack, steps=4000)
    assert 0.0 < found.score.min() and found.score.max() <= 1.0
    # a weight as far out as this leaves no doubt, under the spike of scale 0.05
    largest = found.mean.abs().argmax()
    assert found.score[0, largest] > 0.99
    assert bF.slab_probability(found.mean[0, largest], 0.5, 1.0, 0.05, 1.0) > 0.99


def test_group_em_of_chapter_2_stands_where_em_by_hand_does():
    """The chain stays around the ridge regression under its own decays, each by the E-step."""
    stack, _ = problems("orthogonal", [0, 1])
    found = select("AVO", stack, steps=400)
    spike, slab, rows = 1.0, 1e-2, 100  # decays of N(0, 0.1^2) and N(0, 1) over 100 rows
    estimate = stack.cross / rows  # orthogonal inputs of mean square one
    decay = torch.full_like(estimate, slab)
    for _ in range(20):
        weight = estimate / (1.0 + decay)
        decay = torch.where(weight.square() >= bF.group_threshold(spike, slab, rows), slab, spike)
    sure = (weight.abs() < 0.1) | (weight.abs() > 0.35)  # the threshold is 0.22, and the chain's noise at most 0.1
    assert sure.double().mean() > 0.5 and (found.score > 0.5)[sure].equal((decay == slab)[sure])
    assert ((found.mean - weight)[sure].abs() < 0.06).all()  # means of 200 draws, each resembling the one before
    assert (found.scale < 0.15).all() and (found.scale > 0.02).all()


def test_measures_worked_out_by_hand():
    stack, _ = problems("rho=0.5", [0])
    exact = enumerate_models(stack)
    score = exact.inclusion.clone()
    score[0, 0] += 0.1
    values = measures(Selection(score, exact.median_model, exact.mean + exact.scale, 2.0 * exact.scale), exact)
    assert values["inclusion_error"].item() == pytest.approx(0.01)
    assert values["inclusion_error_largest"].item() == pytest.approx(0.1)
    assert values["inclusion_bias"].item() == pytest.approx(0.01)
    assert values["weight_mean_error"].item() == pytest.approx(1.0)
    assert values["weight_sd_ratio"].item() == pytest.approx(2.0)


def test_ranks_share_their_ties():
    first = torch.tensor([[1.0, 2.0, 2.0, 4.0]])
    assert rank_agreement(first, first).item() == pytest.approx(1.0)
    # mean ranks 1, 2.5, 2.5, 4 against 4, 3, 2, 1
    assert rank_agreement(first, torch.tensor([[4.0, 3.0, 2.0, 1.0]])).item() == pytest.approx(-4.5 / (4.5 * 5) ** 0.5)


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
