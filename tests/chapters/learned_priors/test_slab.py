"""Regression under learned priors: Table 1's cell, the slab, the intervals, the port of the published script."""

import copy
import math
from functools import partial

import numpy as np
import pytest
import torch

from bnnlib.sampling import SGLD, SpikeSlabGaussianLaplacePrior, polynomial
from book import lab
from chapters.learned_priors.experiments import coverage, frozen, regression, script, script_exact, slab
from chapters.learned_priors.experiments.regression import step_size
from tests.chapters.cells import CPU, smoke, values


@pytest.fixture(scope="module")
def small():
    return slab.run_cell(lab.get("aeb-slab").profiles["smoke"]()[0], CPU, None)


def value(result, method: str, metric: str) -> float:
    return next(row["value"] for row in result.rows if (row["method"], row["metric"]) == (method, metric))


def test_the_weights_are_those_of_the_methods_and_of_the_grid():
    weights = slab._Weights(100, CPU)
    named, grid = weights(50).split([len(slab.METHODS) * slab.STARTS, len(slab.FIRST) * len(slab.EXPONENTS)])
    by_method = dict(zip(slab.METHODS, named.view(-1, slab.STARTS)[:, 0].tolist(), strict=True))
    assert by_method["SGLD-SA"] == by_method["SGLD-SA, then EM"] == pytest.approx(10 * 1050**-0.7)
    assert by_method["SGLD"] == 0 and by_method["SGLD-EM"] == by_method["SGLD-EM, sigma^2=3"] == 1
    late = dict(zip(slab.METHODS, weights(51)[: len(named)].view(-1, slab.STARTS)[:, 0].tolist(), strict=True))
    assert late["SGLD-SA, then EM"] == 1 > late["SGLD-SA"]
    first = weights(1)[len(named) :].view(len(slab.FIRST), len(slab.EXPONENTS))
    assert torch.allclose(first, torch.tensor(slab.FIRST)[:, None].expand_as(first))
    ratio = grid.view_as(first) / first
    assert ratio[0].tolist() == pytest.approx([(101 / 150) ** power for power in slab.EXPONENTS])


def test_what_a_run_holds_stays_there(small):
    assert value(small, "SGLD-EM, sigma^2=3", "sigma") ** 2 == pytest.approx(3.0, rel=1e-5)
    assert value(small, "SGLD", "sigma") == 1.0
    assert value(small, "SGLD-EM", "sigma") != 1.0


def test_a_data_set_is_that_of_its_replicate_alone():
    again = slab.problem(3, 20)
    assert all(torch.equal(one, two) for one, two in zip(slab.problem(3, 20), again, strict=True))
    assert not torch.equal(slab.problem(4, 20)[0], again[0])


def test_traces_have_the_points_of_their_steps(small):
    points = len(slab.traced_steps(60))
    assert small.arrays["trace SGLD-EM"].shape == (len(slab.TRACED), points)
    shape = (len(slab.TRACED), len(slab.FIRST), len(slab.EXPONENTS), points)
    assert small.arrays["grid traces"].shape == shape
    assert np.isfinite(small.arrays["grid mse"].astype(float)).all()
    assert "grid traces" not in slab.run_cell(lab.get("aeb-slab").profiles["smoke"]()[1], CPU, None).arrays


def test_intervals_are_counted_by_coefficient():
    result = coverage.run_cell(lab.get("aeb-coverage").profiles["smoke"]()[0], CPU, None)
    for method in coverage.METHODS:
        parts = [value(result, method, f"covered_beta{j}") for j in (1, 2, 3)]
        assert value(result, method, "covered_three") == pytest.approx(np.mean(parts), abs=1e-4)
    assert [value(result, method, "rho_beta1") for method in coverage.METHODS[2:4]] == [1.0, 1.0]
    assert value(result, "beta_3 in the slab", "rho_beta3") == 1.0 > value(result, "beta_3 in the slab", "rho_beta1")
    for method in ("both", "sigma^2=3", "sigma^2=3, widths as learned"):
        assert value(result, method, "sigma") == pytest.approx(3**0.5)


def test_all_slow_or_all_fast_is_stochastic_approximation_or_em():
    cell = lab.get("aeb-slab").profiles["smoke"]()[-1]
    result = slab.run_apart(cell, CPU)
    x, y, _, _ = slab.problem(1, 20)
    assert {row["setting"] for row in result.rows} == {slab.APART} and len(result.rows) == 3 * len(slab.SLOW)
    for place, (method, weights) in enumerate({"SGLD-SA": polynomial(10.0, 1000.0, 0.7), "SGLD-EM": 1.0}.items()):
        generator = torch.Generator().manual_seed(86_001)
        beta = 0.1 * torch.randn(1, 20, generator=torch.Generator().manual_seed(85_001))
        beta = torch.nn.Parameter(beta.repeat(len(slab.SLOW), 1))
        settings = {"spike_scale": 0.01, "slab_variance": 10.0, "a": 1.0, "nu": 1.0, "lam": 1.0, "kappa": (1.0, 1.0)}
        settings |= {"likelihood": "regression", "num_data": 100, "step_size": weights, "batch_dims": 1}
        prior = SpikeSlabGaussianLaplacePrior({"beta": beta}, **settings)
        sampler = SGLD([beta], lr=1e-3, generator=generator)
        for k in range(1, 61):
            residual = beta.detach() @ x.t() - y
            beta.grad = residual @ x / prior.sigma.square().unsqueeze(1)
            prior.add_gradient_()
            sampler.param_groups[0]["lr"] = step_size(k)
            sampler.step()
            prior.update(residual.square().sum(dim=1))
        assert value(result, method, "sigma") == pytest.approx(prior.sigma[place].item(), rel=1e-4)


def test_the_book_profiles_are_as_long_as_said():
    cells, others = (lab.get(name).profiles["book"]() for name in ("aeb-slab", "aeb-coverage"))
    assert lab.get("aeb-slab").budget(cells[0]) == (4000, "iterations")
    assert len(cells) == 2 * 20 and len(others) == 10


def test_a_fair_prior_that_is_frozen_stays_where_it_began():
    cell = lab.get("aeb-frozen").profiles["smoke"]()[-1]
    assert cell.setting == frozen.TABLE
    rows = frozen.run_table(cell, CPU).rows
    assert len(rows) == 5 * len(frozen.TABLE_METHODS) * len(regression.SETTINGS)
    for setting in regression.SETTINGS:
        here = [row for row in rows if row["setting"] == f"Table 1, {regression.setting_name(*setting)}"]
        found = {row["method"]: row["value"] for row in here if row["metric"] == "sigma"}
        assert found["SGLD, rho=1/2"] == found["SGLD, kappa=1"] == setting[1] != found["SGLD-EM"]
    errors = {row["method"]: row["value"] for row in rows if row["metric"] == "mse_test"}
    assert len(set(errors.values())) == len(frozen.TABLE_METHODS)


def test_every_program_has_finite_errors_and_ours_stays_with_it():
    result = script.run_cell(smoke("aeb-script"), CPU)
    assert {(row["setting"], row["method"]) for row in result.rows} == set(script.CHAINS)
    assert all(math.isfinite(row["value"]) for row in result.rows)
    parted = [row for row in result.rows if row["metric"] == "parted"]
    assert {(row["setting"], row["method"]) for row in parted} == {("sigma=2", name) for name in script.OURS}
    assert all(0.0 < row["value"] < 0.01 for row in parted)
    assert values(result, setting="sigma=2", method="script")["mse_test"] > 0.0


@pytest.mark.parametrize("name", script.PROGRAMS)
def test_a_step_is_that_of_the_lines_of_the_script(name):
    chains, draws = (script.Script(smoke("aeb-script").params, (3, 4)) for _ in range(2))
    before, k = chains.start, 7
    added, noise = draws._normal(2, *before.shape)
    chosen = torch.randint(100, (2, 1, 50), generator=draws.generator)
    chains.step(k)
    for index in range(2):
        rows = chosen[index, 0] if "50 rows" in name else slice(None)
        x, y, b = chains.x[index][rows], chains.y[index, 0][rows], before[index, 0]
        gradient = ((2.0 if "times 2" in name else 1.0) * (x.t() @ y - x.t() @ x @ b) - b) / 2.0**2
        if name.endswith("L1"):
            gradient -= b.sign() / 2.0
        size = 0.001 * k ** (-1 / 3)
        expected = b + size * (gradient + 0.01 * added[index, 0]) + math.sqrt(2 * size) * noise[index, 0]
        found = chains.weight[index, script.CHAINS.index(("sigma=2", name))]
        assert torch.allclose(found, expected, atol=1e-12)


def test_the_mean_is_of_every_hundredth_draw_from_the_thousandth_on():
    (cell, *_) = script.EXPERIMENTS[0].profiles["book"]()
    chains = script.Script(smoke("aeb-script").params | {"thin": 2, "burn_in": 6}, (0,))
    kept = []
    for k in range(1, 11):
        chains.step(k)
        kept += [chains.weight.clone()] if k in (6, 8, 10) else []
    assert torch.allclose(chains.total / chains.stored, torch.stack(kept).mean(dim=0), atol=1e-12)
    assert (cell.params["thin"], cell.params["burn_in"], cell.params["iterations"]) == (100, 100_000, 500_000)


def test_test_responses_have_the_mean_of_all_coefficients():
    *_, test_x, test_y, coefficients = regression.problem(0, 50)
    shift = script.Script(smoke("aeb-script").params, (0,)).test_y[0, 0] - test_y
    exact = torch.linalg.lstsq(test_x[:, :3].double(), shift.unsqueeze(1)).solution[:, 0] + coefficients[:3]
    # a mean of about 100 draws with standard deviation 0.2, five standard errors
    assert torch.allclose(exact, torch.tensor(regression.MEANS).double(), atol=0.1)


@pytest.mark.slow
def test_a_run_goes_on_from_its_checkpoint():
    class Stopped(Exception):
        pass

    class Kept:
        state = None

        def load(self):
            return copy.deepcopy(self.state)

        def due(self):
            return True

        def save(self, state):
            self.state = copy.deepcopy(state)
            raise Stopped

    cell = smoke("aeb-script", iterations=1500, burn_in=300, thin=1)
    kept, whole = Kept(), script.run_cell(cell, CPU)
    with pytest.raises(Stopped):
        script.run_cell(cell, CPU, kept)
    assert kept.state["iteration"] == 1000 and script.run_cell(cell, CPU, kept).rows == whole.rows


@pytest.mark.slow
def test_the_exact_law_is_that_of_many_chains(monkeypatch):
    """Of 400 chains of one data set: means within five standard errors, variances within five of theirs."""
    params = smoke("aeb-script-exact").params | {"iterations": 60, "burn_in": 12, "thin": 6, "num_inputs": 110}
    chains, count = script.Script(params, (0,)), 400
    monkeypatch.setattr(script.regression, "step_size", lambda k: 4e-3 * k ** (-1 / 3))
    mean, spread = script_exact.errors(chains, 2.0)
    for name in ("x", "transposed", "y"):
        setattr(chains, name, getattr(chains, name).expand(count, -1, -1))
    chains.start = 0.1 * chains._normal(count, 1, 110)
    chains.weight = chains.start.repeat(1, len(script.CHAINS), 1)
    chains.total = torch.zeros_like(chains.weight)
    for k in range(1, 61):
        chains.step(k)
    found = (chains.total[:, 0] / chains.stored) @ chains.test_x[0].t() - chains.test_y[0]
    deviation = spread[0].diagonal().sqrt()
    assert ((found.mean(dim=0) - mean[0]).abs() < 5 * deviation / count**0.5).all()
    assert ((found.var(dim=0) / spread[0].diagonal() - 1).abs() < 5 * (2 / count) ** 0.5).all()


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
