"""Experiments of the chapter on Foundations: what their cells hold, and that their rows are named right."""

from dataclasses import replace

import pytest
import torch

from bnnlib import datasets
from bnnlib.models import mlp
from book import lab
from book.lab import probes
from book.lab.metrics import metrics
from chapters.foundations import planes
from chapters.foundations.approximations import APPROXIMATIONS
from chapters.foundations.enumeration import enumerate_models
from chapters.foundations.experiments import calibration, gate, inclusion, linear, sparsity
from chapters.foundations.regression import (
    correlated_inputs,
    linear_posterior,
    linear_predictive,
    mean_field_gaussian,
)

CPU = torch.device("cpu")
NAMES = ("fnd-linear", "fnd-inclusion", "fnd-gate", "fnd-sparsity", "fnd-calibration")


def tiny(name: str, method: str, profile: str = "smoke"):
    experiment = lab.get(name)
    return probes.shrink(experiment, next(cell for cell in experiment.profiles[profile]() if cell.method == method))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fnd-linear", "fnd-gate", "fnd-calibration"])
def test_rows_are_whole_and_repeat(name):
    experiment = lab.get(name)
    for cell in experiment.profiles["smoke"]():
        small = probes.shrink(experiment, cell)
        first, second = (experiment.run_cell(small, CPU).rows for _ in range(2))
        assert first == second and first
        assert {row["replicate"] for row in first} == set(small.replicates)
        assert {row["metric"] for row in first} <= set(metrics())


def test_rows_of_designs_are_those_of_their_problems():
    cell = tiny("fnd-inclusion", "Mean field")
    result = inclusion.run_cell(cell, CPU)
    found = {
        (row["setting"], row["replicate"]): row["value"] for row in result.rows if row["metric"] == "inclusion_error"
    }
    assert set(found) == {(design, number) for design in ("orthogonal", "rho=0.9") for number in (0, 1)}
    # mean field is exact where inputs are orthogonal, and nowhere else
    assert all((found["orthogonal", number] < 1e-6) and (found["rho=0.9", number] > 1e-3) for number in (0, 1))


def test_a_method_with_its_own_spike_is_also_laid_beside_the_exact_answer_under_it():
    cell = tiny("fnd-inclusion", "sBNN")
    (need,) = cell.needs
    product = inclusion.run_cell(need.cell, CPU).product
    result = inclusion.run_cell(cell, CPU, None, [product])
    own = [row["value"] for row in result.rows if row["metric"] == "inclusion_error_own"]
    assert len(own) == 4
    assert own[0] == pytest.approx((result.product["inclusion"] - product["inclusion"])[0].abs().mean().item())


def test_problems_do_not_depend_on_their_neighbors():
    alone, together = inclusion.problems("rho=0.5", [3]), inclusion.problems(["orthogonal", "rho=0.5"], [2, 3])
    assert alone[0].gram[0].equal(together[0].gram[3]) and alone[1][0].equal(together[1][3])
    one, many = linear.problems("rho=0.9", [3]), linear.problems("rho=0.9", [2, 3])
    assert all(a[0].equal(b[1]) for a, b in zip(one, many, strict=True))


def test_the_gate_is_asked_about_a_probability_of_0_935():
    assert enumerate_models(gate.copies(2)).inclusion.flatten().tolist() == pytest.approx([0.935, 0.935])
    rows = gate.run_cell(tiny("fnd-gate", "Limit", "book"), CPU).rows
    assert next(row["value"] for row in rows if row["metric"] == "inclusion") < 0.935


@pytest.mark.slow
def test_the_exact_expectation_finds_what_the_relaxed_gate_misses():
    cell = tiny("fnd-gate", "Exact expectation", "book")
    cell = replace(cell, params=cell.params | {"steps": 1500})
    assert gate.run_cell(cell, CPU).rows[0]["value"] == pytest.approx(0.935, abs=1e-3)


def test_the_exact_posterior_has_no_error_and_its_bands_hold_what_they_say():
    x, y, truth = linear.problems("rho=0.9", range(400))
    exact = linear_posterior(x, y)
    values = linear.moments(exact, exact)
    assert values["weight_mean_error"].max() == 0.0
    for name in ("weight_sd_ratio", "sd_ratio_widest", "sd_ratio_narrowest"):
        assert torch.allclose(values[name], torch.ones(400, dtype=torch.float64))
    noise = torch.randn(400, len(y[0]), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = linear.bands(exact, exact, x, truth, noise)
    for name in ("band_coverage", "outcome_coverage"):
        # weights from the prior: exactly 90 % on average over problems
        error = found[name].std() / 20
        assert abs(found[name].mean() - 90.0) < 4 * error


@pytest.mark.parametrize("rate", [0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2])
def test_no_rate_of_dropout_has_bands_near_90_percent_where_inputs_are_correlated(rate):
    x, y, truth = linear.problems("rho=0.9", range(20), first=910_000)
    exact = linear_posterior(x, y)
    settings = {"rate": rate, "draws": 4000}
    law = APPROXIMATIONS["MC dropout"](x, y, settings, torch.Generator().manual_seed(0)).law
    for correlation, most in ((0.9, 76.0), (0.0, 42.0)):
        new = correlated_inputs((20, 500, 10), correlation, torch.Generator().manual_seed(1))
        found = linear.bands(law, exact, new, truth, torch.zeros(20, 500, dtype=torch.float64))
        assert found["band_coverage"].mean() < most


def test_masks_take_out_what_they_say():
    model = mlp(sparsity.SIZES, generator=torch.Generator().manual_seed(0))
    weights, units = (keep(model, 0.75) for keep in (sparsity.keep_weights, sparsity.keep_units))
    # inputs that hardly vary go first, however large their columns are
    inputs = sparsity.keep_inputs(model, 0.75, torch.where(torch.arange(64) < 16, 1.0, 1e-3))
    first, second, last = (list(weights)[index] for index in (0, 1, 2))
    assert weights[first].double().mean() == 0.25 and weights[last].all()
    assert units[first].any(1).sum() == 75 and units[second].any(1).sum() == 25 and units[last].any(0).sum() == 25
    assert inputs[first].any(0).nonzero().flatten().tolist() == list(range(16)) and inputs[second].all()


@pytest.mark.skipif(not datasets.available("digits"), reason="scikit-learn is absent")
def test_pixels_of_digits_are_scaled_once():
    (train, _), (test, _) = sparsity.load_digits()
    assert train.max() == test.max() == 1.0 and train.min() == 0.0


@pytest.mark.skipif(not datasets.available("digits"), reason="scikit-learn is absent")
def test_units_make_a_file_and_the_work_smaller_and_weights_do_not():
    rows = sparsity.run_cell(tiny("fnd-sparsity", "all kinds"), CPU).rows
    found = {(row["method"], row["metric"]): row["value"] for row in rows}
    assert found["Nothing", "flops_ratio"] == found["Nothing", "products_ratio"] == 1.0
    # 75 % of the units of both hidden layers: 64 x 75 + 75 x 25 + 25 x 10 products of 50,200
    assert found["Units", "flops_ratio"] == pytest.approx(50_200 / 6_925)
    assert all(found[kind, "bytes_ratio_zeros"] == 1.0 for kind in (*sparsity.KINDS, "Nothing"))
    assert found["Weights", "flops_ratio"] == 1.0 and found["Weights", "products_ratio"] > 3
    assert found["Weights", "bytes_ratio_csr"] < found["Units", "bytes_ratio"]


def test_the_truth_is_the_law_that_draws_the_points():
    x, y = calibration.draw_points(200_000, torch.Generator().manual_seed(0))
    probability = calibration.truth(x)
    assert torch.allclose(probability.sum(1), torch.ones(len(x)))
    for low in (0.0, 0.3, 0.6):
        chosen = (probability[:, 1] > low) & (probability[:, 1] < low + 0.3)
        share, said = (y[chosen] == 1).double().mean(), probability[chosen, 1].double().mean()
        assert abs(share - said) < 4 * 0.5 / chosen.sum() ** 0.5


def test_a_stopped_network_is_where_its_held_out_misfit_was_least():
    data = calibration.data_sets([0, 1], first=60_000)
    found = {}
    for steps in (5, 10, 15, 20):  # with a large step the misfit rises and falls on the way
        parameters = planes.start(2, (2, 5, 2), torch.Generator().manual_seed(0))
        planes.descend(parameters, *data["train"], steps=steps, learning_rate=0.5, prior=False)
        found[steps] = planes.misfits(parameters, *data["held_out"])
        assert found[steps].sum().item() == pytest.approx(planes.misfit(parameters, *data["held_out"]).item(), rel=1e-5)
    parameters = planes.start(2, (2, 5, 2), torch.Generator().manual_seed(0))
    settings = {"steps": 20, "learning_rate": 0.5, "prior": False, "every": 5}
    planes.descend_and_stop(parameters, *data["train"], data["held_out"], **settings)
    least = torch.stack(list(found.values())).amin(dim=0)
    torch.testing.assert_close(planes.misfits(parameters, *data["held_out"]), least)


def test_omega_of_a_posterior_that_is_the_prior_is_the_expected_misfit():
    generator = torch.Generator().manual_seed(0)
    means = [torch.nn.Parameter(torch.zeros_like(one)) for one in planes.start(2, (2, 5, 2), generator)]
    x, y = torch.randn(2, 7, 2, generator=generator), torch.randint(2, (2, 7), generator=generator)
    posterior = planes.MeanFieldPlane(means, 1.0)
    drawn = torch.Generator().manual_seed(1)
    mean = sum(planes.misfits(posterior.draw(drawn), x, y) for _ in range(4)) / 4
    found = posterior.omega(x, y, 4, torch.Generator().manual_seed(1))
    torch.testing.assert_close(found, mean.detach(), rtol=1e-4, atol=1e-4)


def test_a_mean_field_has_the_right_variance_at_inputs_like_the_data_in_the_wrong_places():
    x, y, _ = linear.problems("rho=0.9", range(20))
    exact = linear_posterior(x, y)
    alone = mean_field_gaussian(exact)
    new = correlated_inputs((20, 2000, 10), 0.9, torch.Generator().manual_seed(0))
    ours, right = (linear_predictive(law, new).scale.square() for law in (alone, exact))
    assert (ours.mean() / right.mean()).item() == pytest.approx(1.0, abs=0.02)
    assert 0.25 < (ours > right).double().mean() < 0.45  # "a third"


def test_entropy_splits_into_what_draws_share_and_what_they_dispute():
    draws = torch.tensor([[[0.5, 0.5], [1.0, 0.0]], [[0.5, 0.5], [0.0, 1.0]]], dtype=torch.float64)
    aleatoric, epistemic = calibration.decompose(draws)
    ln2 = torch.log(torch.tensor(2.0)).item()
    assert aleatoric.tolist() == pytest.approx([ln2, 0.0]) and epistemic.tolist() == pytest.approx([0.0, ln2])


def test_a_stacked_network_is_the_network_of_torch():
    generator = torch.Generator().manual_seed(0)
    parameters = planes.start(3, (2, 5, 2), generator)
    x, y = torch.randn(3, 7, 2, generator=generator), torch.randint(2, (3, 7), generator=generator)
    total = 0.0
    for index in range(3):
        network = mlp((2, 5, 2), "tanh")
        with torch.no_grad():
            for layer, (weight, bias) in zip((network[0], network[2]), (parameters[:2], parameters[2:]), strict=True):
                layer.weight.copy_(weight[index].T)
                layer.bias.copy_(bias[index, 0])
        torch.testing.assert_close(planes.logits(parameters, x)[index], network(x[index]))
        total += torch.nn.functional.cross_entropy(network(x[index]), y[index], reduction="sum").item()
    assert planes.misfit(parameters, x, y).item() == pytest.approx(total, rel=1e-5)
