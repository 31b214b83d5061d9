"""Table 1's cell: its rows, its chains against separate ones, its resume, and what it says about the ridge."""

import math
from functools import partial

import pytest
import torch

from chapters.learned_priors.experiments import regression
from tests.chapters.cells import CPU, smoke

EXPERIMENT = regression.EXPERIMENTS[0]
_cell = partial(smoke, "aeb-regression")


def test_every_method_has_every_metric_in_every_setting():
    cell = _cell(methods=list(regression.METHODS))
    result = regression.run_cell(cell, CPU, None)
    metrics = {row["metric"] for row in result.rows}
    assert {"mae_test", "mse_test", "covered", "sigma", "included"} <= metrics
    found = {(row["setting"], row["method"], row["metric"]) for row in result.rows}
    wanted = {
        (regression.setting_name(*setting), method, metric)
        for setting in regression.SETTINGS
        for method in regression.METHODS
        for metric in metrics - {"mse_test_exact"}
    }
    assert wanted <= found
    assert all(math.isfinite(row["value"]) for row in result.rows)
    assert result.arrays["samples SGLD-SA"].shape[1] == 3


def test_the_published_profile_has_the_published_sizes():
    cells = EXPERIMENT.profiles["paper"]()
    assert len(cells) >= 10
    assert {(cell.params["iterations"], cell.params["num_inputs"]) for cell in cells} == {(500_000, 1000)}
    assert cells[0].params["burn_in"] == 100_000  # 1000 of the 5000 stored draws


def test_coefficients_inputs_and_noise_are_those_of_the_text():
    draws = [regression.problem(replicate, 30) for replicate in range(40)]
    first = torch.stack([coefficients[:3] for *_, coefficients in draws])
    # 40 draws with sd 0.2: the mean's standard error is 0.032, four of them
    assert torch.allclose(first.mean(dim=0), torch.tensor(regression.MEANS), atol=0.13)
    assert all((coefficients[3:] == 0).all() for *_, coefficients in draws)
    x = torch.cat([part[0] for part in draws])
    products = x.t() @ x / len(x)
    # 4000 rows: standard error of an entry at most sqrt(2 / 4000) = 0.022, five of them
    lags = torch.arange(30)
    assert torch.allclose(products, 0.6 ** (lags[:, None] - lags).abs().float(), atol=0.11)
    residuals = torch.cat([y - x @ coefficients for x, y, _, _, coefficients in draws])
    assert residuals.var().item() == pytest.approx(3.0, rel=0.11)  # five standard errors sqrt(2 / 4000)


def test_frozen_chains_keep_their_prior_and_the_others_learn_theirs():
    chains = regression._Chains(_cell(methods=list(regression.METHODS)).params, 0, CPU)
    for k in range(1, 51):
        chains.step(k)
    for index, (method, (_, sigma)) in enumerate(chains.chains):
        learned = method in ("SGLD-SA", "SGLD-EM", "SGLD-SA, w=0.1")
        assert (chains.prior.sigma[index] != sigma) == learned
        kappa0 = chains.prior.kappa0["weight"][index]
        assert (kappa0 == (0.0 if method == "SGLD, no L1" else 1.0)).all() != learned


def test_without_the_laplace_term_the_gradient_is_that_of_a_ridge():
    chains = regression._Chains(_cell(methods=["SGLD, no L1"]).params, 0, CPU)
    chains.sampler.param_groups[0]["temperature"] = 0.0
    before = chains.weight.detach().clone()
    chains.step(1)
    sigma = torch.tensor([sigma for _, (_, sigma) in chains.chains]).unsqueeze(1)
    gradient = ((before @ chains.x.t() - chains.y) @ chains.x + before) / sigma**2
    assert torch.allclose(chains.weight, before - 1e-3 * gradient, atol=1e-4)  # float32 sums of 100 terms


def test_exact_ridge_is_the_posterior_mean():
    chains = regression._Chains(_cell().params, 0, CPU)
    x, y = chains.x.double(), chains.y.double()
    mean = torch.linalg.solve(x.t() @ x + torch.eye(x.shape[1], dtype=x.dtype), x.t() @ y)
    expected = (chains.test_x.double() @ mean - chains.test_y).square().mean().item()
    assert chains.exact_ridge() == pytest.approx(expected, rel=1e-9)
