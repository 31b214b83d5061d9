"""The equations of the chapter side by side, each checked by a number computed another way."""

import io
import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from bnnlib import metrics
from bnnlib.contest import Predictor, Problem, Range, predictive_nll
from bnnlib.contest.problem import GaussianNoise
from bnnlib.models import mlp
from bnnlib.nn import to_bayesian
from chapters.side_by_side import tables
from chapters.side_by_side.costs import bought
from chapters.side_by_side.signed_rank import signed_rank
from chapters.side_by_side.standing import judge


# equation: side-budget
def test_steps_times_cost_are_the_budget():
    for one, budget, cost in itertools.product((3, 500), (1, 4, 16), (0.7, 1.0, 3.3, 40.0)):
        assert abs(bought(one, budget, cost) * cost - one * budget) <= max(0.5 * cost, cost - one * budget)


# equation: side-box
def test_a_share_of_a_range_is_a_straight_line_in_the_logarithm_or_as_it_is():
    for share in (0.0, 0.25, 1.0):  # three digits are kept
        assert Range(0.1, 0.01, 10.0).at(share) == pytest.approx(math.exp(math.log(0.01) + share * math.log(1e3)), 6e-3)
        assert Range(0.5, 0.2, 1.0, log=False).at(share) == pytest.approx(0.2 + 0.8 * share, 6e-3)


# equation: side-predictive, side-nll
def test_densities_and_probabilities_are_averaged_before_the_logarithm():
    generator = torch.Generator().manual_seed(0)
    outputs, y = torch.randn(7, 5, 1, generator=generator), torch.randn(5, 1, generator=generator)
    density = stats.norm(outputs.double().numpy(), math.sqrt(0.3)).pdf(y.double().numpy()).mean(axis=0)
    assert float(predictive_nll(outputs, y, 0.3)) == pytest.approx(-np.log(density).mean(), rel=1e-5)
    logits, labels = torch.randn(7, 5, 3, generator=generator), torch.tensor([0, 1, 2, 1, 0])
    right = logits.double().softmax(-1).mean(0)[torch.arange(5), labels]
    assert float(predictive_nll(logits, labels)) == pytest.approx(float(-right.log().mean()), rel=1e-5)


# equation: side-noise
def test_the_variance_follows_the_mean_squared_residual():
    loss, generator = GaussianNoise(variance=2.0, rate=0.25), torch.Generator().manual_seed(1)
    expected = 2.0
    for _ in range(3):
        prediction, y = torch.randn(2, 6, 1, generator=generator).unbind()
        loss(prediction.requires_grad_(), y)
        expected = 0.75 * expected + 0.25 * float((prediction - y).detach().square().mean())
    assert float(loss.variance) == pytest.approx(expected, rel=1e-5)


def _predictor(model: nn.Module, networks: int = 1, inputs: int = 3) -> Predictor:
    rows = torch.randn(6, inputs, generator=torch.Generator().manual_seed(2)), torch.zeros(6, 1)
    return Predictor(model, Problem(*rows, *rows), networks=networks)


# equation: side-bytes
def test_bytes_are_those_of_all_networks():
    model = mlp((3, 4, 1), generator=torch.Generator().manual_seed(3))
    one, five = _predictor(model).size_in_bytes(), _predictor(model, 5).size_in_bytes()
    assert five == {name: 5 * size for name, size in one.items()}
    file = io.BytesIO()
    torch.save(_predictor(model).deployed.state_dict(), file)
    assert one["dense"] == file.tell() and min(one.values()) > 4 * sum(p.numel() for p in model.parameters())


# equation: side-inclusion
def test_an_input_is_in_when_a_path_of_open_gates_leads_on():
    model = to_bayesian(
        mlp((2, 2, 1), generator=torch.Generator().manual_seed(4)), "spike_slab", prior_inclusion_probability=0.5
    )
    first, last = (one for one in model.modules() if isinstance(one, nn.Linear))
    with torch.no_grad():
        first.weight_logit.copy_(torch.tensor([[0.3, -1.0], [1.2, -0.4]]))
        last.weight_logit.copy_(torch.tensor([[0.5, -0.7]]))
    p, q = first.inclusion_probability, last.inclusion_probability[0]
    # the two paths of an input share no gate, so that they are independent
    exact = [1.0 - math.prod(1.0 - float(p[unit, j] * q[unit]) for unit in range(2)) for j in range(2)]
    found = _predictor(model, inputs=2)
    # 20,000 draws of a coin: 4 standard errors are 4 * .5 / sqrt(20,000) = .014
    assert found.inclusion(20_000).tolist() == pytest.approx(exact, abs=0.0142)


# equation: side-paired, side-region
def test_an_interval_is_that_of_a_paired_t_test_and_the_region_decides():
    random = np.random.default_rng(5)
    method, reference = random.normal(0.0, 1.0, (2, 10)) + random.normal(0.0, 3.0, 10)
    test = stats.ttest_rel(method, reference).confidence_interval(0.95)
    found = judge({"one": method - reference}, 1.0, 0.0)["one"]
    assert (found["low"], found["high"]) == pytest.approx((test.low, test.high))
    gaps = 0.1 + 0.01 * random.standard_normal(10)  # decided beyond any doubt, and about .1
    said = {region: judge({"one": gaps}, 1.0, region)["one"]["verdict"] for region in (0.0, 0.05, 0.2)}
    assert said == {0.0: "worse", 0.05: "worse", 0.2: "tie"}
    assert judge({"one": 10.0 * gaps * random.choice([-1, 1], 10)}, 1.0, 0.05)["one"]["verdict"] == "undecided"


# equation: side-holm
def test_the_sorted_chances_are_held_against_rising_levels():
    random = np.random.default_rng(6)
    gaps = {str(k): random.normal(0.25 * k, 1.0, 10) for k in range(6)}
    chances = np.array([stats.ttest_1samp(one, 0.0).pvalue for one in gaps.values()])
    order, kept = chances.argsort(), 0
    while kept < 6 and chances[order[kept]] <= 0.05 / (6 - kept):
        kept += 1
    said = {int(k) for k, one in judge(gaps, 1.0, 0.0).items() if one["verdict"] in ("better", "worse")}
    assert said == set(order[:kept].tolist()) and 0 < kept < 6


# equation: side-crps
def test_the_score_is_the_area_between_two_distribution_functions():
    draws, y = torch.tensor([[-1.0], [0.5], [2.0]]).double(), torch.tensor([0.7]).double()
    sd = 0.4
    z = np.linspace(-8.0, 8.0, 160_001)
    distribution = stats.norm(draws.numpy(), sd).cdf(z).mean(axis=0)
    area = np.trapezoid((distribution - (z >= 0.7)) ** 2, z)
    assert float(metrics.crps(draws, y, sd)) == pytest.approx(area, abs=1e-4)  # the grid's error at the step


# equation: side-balanced
def test_the_balanced_error_is_that_of_scikit_learn_and_half_for_the_extremes():
    from sklearn.metrics import balanced_accuracy_score

    chosen = torch.arange(40) % 4 == 0
    rates = tables.selection(chosen)
    expected = 100.0 - 100.0 * balanced_accuracy_score((torch.arange(40) < tables.NUM_RELEVANT).numpy(), chosen.numpy())
    assert 0.5 * (rates["fpr"] + rates["fnr"]) == pytest.approx(expected, rel=1e-6)
    for extreme in (torch.zeros(40, dtype=torch.bool), torch.ones(40, dtype=torch.bool)):
        rates = tables.selection(extreme)
        assert rates["fpr"] + rates["fnr"] == 100.0


# equation: side-signed-rank
def test_the_signed_rank_of_one_data_set_is_known_exactly():
    # with one gap above 0 only the pair of the prior with itself is equal: its weight w0^2, w0 ~ Beta(1/2, 1), is
    # less than a half with probability 2^(-1/4); the standard error of 20,000 draws is .0026
    below, inside, above = signed_rank([1.0], 0.0)
    assert below == 0.0 and above == pytest.approx(2.0**-0.25, abs=0.01) and inside == pytest.approx(1.0 - above)
    assert signed_rank([-1.0], 0.0)[0] == pytest.approx(2.0**-0.25, abs=0.01)
    assert signed_rank([0.01, -0.015, 0.005], 0.02) == (0.0, 1.0, 0.0)  # all inside, and every mean of two of them
