"""The port of the published script: a step by hand, its stored draws, and our own code beside it."""

import copy
import math

import pytest
import torch

from chapters.learned_priors.experiments import regression, script, script_exact
from tests.chapters.cells import CPU, smoke, values


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
