"""The experiments on the slab and on the intervals: schedules, what is held, and what is stored."""

import numpy as np
import pytest
import torch

from bnnlib.sampling import SGLD, SpikeSlabGaussianLaplacePrior, polynomial
from book import lab
from chapters.learned_priors.experiments import coverage, frozen, regression, slab
from chapters.learned_priors.experiments.regression import step_size

CPU = torch.device("cpu")


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
        prior = SpikeSlabGaussianLaplacePrior(
            {"beta": beta},
            spike_scale=0.01,
            slab_variance=10.0,
            a=1.0,
            nu=1.0,
            lam=1.0,
            kappa=(1.0, 1.0),
            likelihood="regression",
            num_data=100,
            step_size=weights,
            batch_dims=1,
        )
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
