"""The port of the published script: a step by hand, its stored draws, and our own code beside it."""

from __future__ import annotations

import math

import pytest
import torch

from chapters.learned_priors.experiments import regression, script
from tests.chapters.cells import CPU, smoke, values


def test_every_program_has_finite_errors_and_ours_stays_with_it():
    result = script.run_cell(smoke("aeb-script"), CPU)
    assert {(row["setting"], row["method"]) for row in result.rows} == set(script.CHAINS)
    assert all(math.isfinite(row["value"]) for row in result.rows)
    parted = [row for row in result.rows if row["metric"] == "parted"]
    assert {(row["setting"], row["method"]) for row in parted} == {
        (setting, name) for setting in ("sigma=1", "sigma=2") for name in script.OURS
    }
    assert all(0.0 < row["value"] < 0.01 for row in parted)
    assert values(result, setting="sigma=2", method="script")["mse_test"] > 0.0


@pytest.mark.parametrize("name", script.PROGRAMS)
def test_a_step_is_that_of_the_lines_of_the_script(name):
    params = smoke("aeb-script").params
    chains, draws = script.Script(params, 0), script.Script(params, 0).generator
    before, k = chains.start, 7
    added, noise = (torch.randn(len(before), generator=draws, dtype=torch.float64) for _ in range(2))
    rows = torch.randint(100, (50,), generator=draws)
    factor = {"script": 1.0, "script, L1": 1.0}.get(name, 2.0 if "times 2" in name else 1.0)
    x, y = (chains.x[rows], chains.y[rows]) if "50 rows" in name else (chains.x, chains.y)
    gradient = (factor * (x.t() @ y - x.t() @ x @ before) - before) / 2.0**2
    if name.endswith("L1"):
        gradient -= before.sign() / 2.0
    size = 0.001 * k ** (-1 / 3)
    expected = before + size * (gradient + 0.01 * added) + math.sqrt(2 * size) * noise
    chains.step(k)
    assert torch.allclose(chains.weight[script.CHAINS.index(("sigma=2", name))], expected, atol=1e-12)


def test_the_mean_is_of_every_hundredth_draw_from_the_thousandth_on():
    (cell, *_) = script.EXPERIMENTS[0].profiles["book"]()
    chains = script.Script(smoke("aeb-script").params | {"thin": 2, "burn_in": 6}, 0)
    kept = []
    for k in range(1, 11):
        chains.step(k)
        kept += [chains.weight.clone()] if k in (6, 8, 10) else []
    assert torch.allclose(chains.total / chains.stored, torch.stack(kept).mean(dim=0), atol=1e-12)
    assert (cell.params["thin"], cell.params["burn_in"], cell.params["iterations"]) == (100, 100_000, 500_000)


def test_test_responses_have_the_mean_of_all_coefficients():
    *_, test_x, test_y, coefficients = regression.problem(0, 50)
    shift = script.Script(smoke("aeb-script").params, 0).test_y - test_y
    exact = torch.linalg.lstsq(test_x[:, :3].double(), shift.unsqueeze(1)).solution[:, 0] + coefficients[:3]
    # a mean of about 100 draws with standard deviation 0.2, five standard errors
    assert torch.allclose(exact, torch.tensor(regression.MEANS).double(), atol=0.1)
