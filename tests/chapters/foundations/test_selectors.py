"""The book's methods as selectors: trained layers end where the fixed points say, and every method answers in form."""

import pytest
import torch

from bnnlib import functional as bF
from chapters.foundations import mean_field
from chapters.foundations.enumeration import enumerate_models
from chapters.foundations.experiments.inclusion import SETTINGS, measures, problems, rank_agreement
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
