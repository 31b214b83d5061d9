"""The runs that show causes, the theorem's rate, coverage, two gradients and the linear model, against other sums."""

import itertools
import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from scipy import integrate
from torch.distributions import Normal

from bnnlib import functional as bF
from bnnlib.replicates import Layout, StackedDeterministic, StackedMLP
from book import lab
from book.lab.cells import Cell
from chapters.shared import simulated
from chapters.spike_slab.experiments import causes, contraction, coverage, gradients, simulations
from chapters.spike_slab.experiments.contraction import slopes, squared_hellinger, squared_rate, teacher_of
from chapters.spike_slab.experiments.simulations import PROBLEMS
from chapters.spike_slab.gibbs import GateChains, outputs
from chapters.spike_slab.linear import LinearModel, linear_model
from tests.chapters.cells import CPU, smoke

_cell = partial(smoke, "svbnn-causes")


@pytest.mark.parametrize("method", [causes.LATE, causes.BEST])
def test_rows_bear_the_name_of_what_was_changed(method):
    cell = _cell(method, "dense" if method == causes.LATE else "U(-1,1)")
    rows = causes.run_cell(cell, CPU, None).rows
    assert {(row["method"], row["setting"]) for row in rows} == {(method, cell.setting)}
    assert {row["replicate"] for row in rows} == set(cell.replicates)


def test_the_best_of_three_starts_is_the_one_with_the_least_objective(monkeypatch):
    cell = _cell(causes.BEST, "U(-1,1)")
    assert len(cell.replicates) == 2 and cell.params["starts"] == 3
    # start by start, both replicates: the first is best at the second start, the other at the last, by its divergence
    told = {
        "rmse_train": torch.tensor([2.0, 1.0, 1.0, 1.0, 1.5, 1.0]),
        "kl": torch.tensor([0.0, 5.0, 0.0, 4.0, 0.0, 3.0]),
    }
    monkeypatch.setattr(simulations, "measured", lambda *_: told | {"fnr": torch.arange(6.0)})
    rows = causes.run_cell(cell, CPU, None).rows
    assert [row["value"] for row in rows if row["metric"] == "fnr"] == [2.0, 5.0]
    assert [row["value"] for row in rows if row["metric"] == "objective"] == [1500.0, 1503.0]


def test_the_divergence_comes_in_half_way(monkeypatch):
    cell, asked = _cell(causes.LATE, "dense"), []
    monkeypatch.setattr(causes, "fit_stacked", lambda *_, kl_scale, **__: asked.extend(map(kl_scale, range(4))))
    causes.run_cell(cell, CPU, None)
    assert asked == [0.0, 0.0, 1.0, 1.0]


def test_deterministic_networks_keep_the_published_shares():
    for method, kept in (("AGP", 0.3), ("LOT", 0.1)):
        rows = simulations.run_cell(_cell(method, "dense"), CPU, None).rows
        shares = [row["value"] for row in rows if row["metric"] == "sparsity"]
        assert shares == pytest.approx([100 * kept] * 2, abs=0.6)  # of 175 weights one is 0.57 %
        assert not any(row["metric"].startswith("rmse_validation") for row in rows)  # nothing is chosen


def test_a_higher_threshold_switches_units_off_and_changes_nothing_else():
    cell = _cell("HS-BNN", "dense")
    values = []
    for threshold in (1e-9, cell.params["threshold"], 1e9):
        changed = replace(cell, params=cell.params | {"threshold": threshold})
        rows = simulations.run_cell(changed, CPU, None).rows
        values.append({(row["metric"], row["replicate"]): row["value"] for row in rows})
    outputs = 100 * 7 / 175  # six weights and a bias, which no unit owns
    assert [found["sparsity", 0] for found in (values[0], values[2])] == pytest.approx([100, outputs])
    assert cell.params["threshold"] == 0.5 and outputs <= values[1]["sparsity", 0] <= 100
    for found in values:
        assert found["rmse_test", 1] == values[0]["rmse_test", 1]


@pytest.mark.parametrize("setting", contraction.TEACHERS)
def test_the_teachers_are_networks_of_the_student_and_have_the_simulated_means(setting):
    problem = PROBLEMS[contraction.TEACHERS[setting]]
    x, _, f = (part[:200] for part in problem.test_data())
    posterior = StackedDeterministic(Layout(problem.sizes, 1), teacher_of(setting))
    drawn = StackedMLP(posterior, problem.activation).predict(x, 1, None)
    torch.testing.assert_close(drawn[0, 0], f, atol=1e-5, rtol=0.0)
    assert int((teacher_of(setting) != 0).sum()) == {"dense": 175, "sparse": 11}[setting]


def test_the_distance_is_the_integral_over_both_densities():
    y = torch.linspace(-12, 14, 20_001, dtype=torch.float64)
    truth, drawn = torch.tensor([[0.0], [1.5]], dtype=torch.float64), torch.tensor([[0.7], [-1.0]], dtype=torch.float64)
    overlaps = [
        torch.trapezoid((0.5 * (Normal(a, 1.0).log_prob(y) + Normal(b, 1.0).log_prob(y))).exp(), y)
        for a, b in zip(truth[:, 0], drawn[:, 0], strict=True)
    ]
    expected = 1 - torch.stack(overlaps).mean()
    torch.testing.assert_close(squared_hellinger(drawn[None, None], truth)[0], expected, atol=1e-8, rtol=0.0)


def test_the_bound_is_what_the_formula_gives_by_hand():
    # 11 weights in three layers of width 6 behind 100 inputs: 3 log 6 + log(100 sqrt(1000 / 11)) nats for each weight
    assert squared_rate((100, 6, 6, 1), 11, 1_000) == pytest.approx(
        11 / 1_000 * (3 * 1.791759 + 4.605170 + 0.5 * math.log(90.9091)) * 6.907755, rel=1e-6
    )


def test_a_power_has_its_exponent_as_slope_in_every_column():
    x = [2.0, 1.0, 0.25, 0.1]
    y = torch.stack([3 * torch.tensor(x) ** 1.7, 0.2 * torch.tensor(x) ** -0.5], dim=1)
    torch.testing.assert_close(slopes(x, y), torch.tensor([1.7, -0.5], dtype=torch.float64), atol=1e-5, rtol=0.0)


def test_both_starts_see_the_same_data_and_their_slope_is_that_of_their_distances():
    sparse = [cell for cell in lab.get("svbnn-contraction").profiles["smoke"]() if cell.setting == "sparse"]
    for cell in sparse:
        rows = contraction.run_cell(cell, torch.device("cpu"), None).rows
        found: dict = {}
        for row in rows:
            found.setdefault((row["setting"], row["metric"]), []).append(row["value"])
        counts = cell.params["counts"]
        distances = torch.tensor([found[f"sparse, n={count:,}", "hellinger"] for count in counts])
        bounds = [squared_rate(PROBLEMS["1b"].sizes, 11, count) for count in counts]
        expected = slopes(bounds, distances)
        torch.testing.assert_close(torch.tensor(found["sparse", "slope_rate"]).double(), expected, atol=1e-4, rtol=0.0)


DOUBLE = {"dtype": torch.float64}


def _cells(method: str):
    return [cell for cell in lab.get("svbnn-coverage").profiles["smoke"]() if cell.method == method]


@pytest.mark.slow
def test_the_chains_keep_the_posterior_of_weighted_draws_of_the_prior():
    generator, sizes, lam, scale = torch.Generator().manual_seed(0), (1, 2, 1, 1), 0.4, 3.0
    x = torch.linspace(-1, 1, 9, **DOUBLE)[:, None]
    y = 3.0 * torch.sigmoid(4.0 * x[:, 0])
    prior = Layout(sizes, 1_000_000)
    theta = scale * torch.randn(prior.replicates, prior.num_parameters, generator=generator, **DOUBLE)
    theta *= torch.rand(theta.shape, generator=generator, **DOUBLE) < lam
    weight = (-0.5 * (y - outputs(prior, theta, x)).square().sum(1)).softmax(0)
    said = weight @ torch.cat([(theta != 0).double(), outputs(prior, theta, x)], dim=1)
    start = theta[torch.multinomial(weight, 500, replacement=True, generator=generator)]
    chains, seen = GateChains(x, y, start, sizes, lam, scale, generator), []
    changed = 0.0
    for _ in range(60):
        chains.sweep()
        chains.move((0.5, 0.5, 0.5), 5)
        changed = changed + torch.stack([chains.path() for _ in range(3)]).double().mean()
        seen.append(torch.cat([(chains.theta != 0).double(), outputs(chains.layout, chains.theta, x)], 1).mean(0))
    # a million weighted draws are worth some 3,000 equal ones, the chains at least their 500 starts: sd 0.02
    torch.testing.assert_close(torch.stack(seen[20:]).mean(0), said, atol=0.06, rtol=0.0)
    assert changed / 60 > 0.03
    assert said[:9].max() > lam + 0.2  # the data have a say in the gates


def test_what_a_sweep_keeps_is_what_the_weights_give():
    generator = torch.Generator().manual_seed(0)
    x, y, _ = simulated.dense_teacher(50, generator)
    start = Layout(simulated.DENSE_SIZES, 3).uniform(-0.6, 0.6, generator, torch.float64)
    chains = GateChains(x.double(), y[:, 0].double(), start, simulated.DENSE_SIZES, 0.5, 1.3, generator)
    for _ in range(3):
        chains.sweep()
        torch.testing.assert_close(chains._f, outputs(chains.layout, chains.theta, chains.x), atol=1e-9, rtol=0.0)
    assert (chains.theta != start).any() and (chains.theta == 0).any()


def test_the_teacher_is_that_of_the_simulation_and_new_ones_change_the_mean_alone():
    x, y, test_x, test_y, test_f = coverage.data((0, 1), False)
    f = outputs(Layout(simulated.DENSE_SIZES, 1), coverage.teacher(coverage.FIXED), test_x)[0]
    torch.testing.assert_close(f, test_f[0, :, 0], atol=1e-5, rtol=0.0)
    new_x, new_y, _, new_test_y, new_f = coverage.data((0, 1), True)
    assert torch.equal(x, new_x) and (new_f[0] - new_f[1]).abs().mean() > 0.05
    torch.testing.assert_close(new_test_y - new_f, test_y - test_f, atol=1e-5, rtol=0.0)
    one = outputs(Layout(simulated.DENSE_SIZES, 1), coverage.teacher(coverage.FIRST_NEW + 1), x[:, 1])[0]
    old = outputs(Layout(simulated.DENSE_SIZES, 1), coverage.teacher(coverage.FIXED), x[:, 1])[0]
    torch.testing.assert_close(new_y[:, 1, 0] - y[:, 1, 0], one - old, atol=1e-5, rtol=0.0)


def test_initial_scales_share_their_start_and_every_snapshot_has_rows(monkeypatch):
    found = {}
    fit = coverage.fit_stacked

    def watched(model, *rest, **named):
        started = {name: value.detach().clone() for name, value in model.posterior.named_parameters()}
        found.update(named, model=started)
        fit(model, *rest, **named)

    monkeypatch.setattr(coverage, "fit_stacked", watched)
    cell = _cells("SVBNN")[1]
    rows = coverage.run_cell(cell, CPU, None).rows
    posterior = found["model"]
    assert found["kl_scale"] == cell.params["kl_scale"] == 0.1
    assert torch.nn.functional.softplus(posterior["weight_rho"]).mean(1).tolist() == pytest.approx([0.0025, 0.05, 0.3])
    assert torch.equal(posterior["weight"][0], posterior["weight"][1])
    asked = {f"sigma={s:g}, KL x 0.1, {e} epochs" for s, e in itertools.product((0.0025, 0.05, 0.3), (2, 4))}
    assert {row["setting"] for row in rows} == asked


def test_measuring_on_the_way_changes_nothing_and_is_that_of_the_simulation():
    cell = next(cell for cell in _cells("SVBNN") if cell.setting == "KL x 1")
    both = coverage.run_cell(cell, CPU, None).rows
    last = coverage.run_cell(replace(cell, params=cell.params | {"snapshots": [4]}), CPU, None).rows
    assert [row for row in both if row["setting"].endswith(" 4 epochs")] == last


@pytest.mark.slow
def test_the_exact_gradient_comes_near_the_posterior_and_none_goes_below_it():
    def ends(setting: str, method: str, steps: int) -> torch.Tensor:
        cell = Cell(setting, method, (0, 1), {"steps": steps})
        rows = gradients.run_cell(cell, torch.device("cpu"), None).rows
        return torch.tensor([row["value"] for row in rows if row["metric"] == "kl_exact"])

    exact, *others = (ends("wide start", method, 400) for method in gradients.METHODS)
    assert (exact > 0).all()  # a divergence, from another distribution than the posterior
    for other in others:
        assert (other > exact).all()
    # nearly uncorrelated inputs: the posterior is nearly in the family, and what is left is a small part of a nat
    assert (ends("published start", "exact gradient", 1_500) < 0.5).all()


@pytest.fixture
def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(30, 2, generator=generator, **DOUBLE)
    x[:, 1] += 0.8 * x[:, 0]  # correlated: the posterior does not factorize
    return x, x @ torch.tensor([0.5, 0.0], **DOUBLE) + torch.randn(30, generator=generator, **DOUBLE)


def test_the_posterior_is_that_of_numerical_integration(data):
    x, y = data
    found, log_evidence = linear_model(x, y, 0.2, 1.3).posterior()

    (c, d), ((p, q), (_, r)) = (x.T @ y).tolist(), (x.T @ x).tolist()

    def likelihood(a: float, b: float) -> float:
        return math.exp(c * a + d * b - 0.5 * (p * a * a + 2.0 * q * a * b + r * b * b))

    def slab(a: float) -> float:
        return math.exp(-0.5 * (a / 1.3) ** 2) / (1.3 * math.sqrt(2.0 * math.pi))

    reach = {"epsabs": 1e-8}
    masses = {
        (False, False): 1.0,
        (True, False): integrate.quad(lambda a: slab(a) * likelihood(a, 0), -3, 3, **reach)[0],
        (False, True): integrate.quad(lambda b: slab(b) * likelihood(0, b), -3, 3, **reach)[0],
        (True, True): integrate.dblquad(lambda b, a: slab(a) * slab(b) * likelihood(a, b), -3, 3, -3, 3, **reach)[0],
    }
    joint = {one: mass * math.prod(0.2 if on else 0.8 for on in one) for one, mass in masses.items()}
    total = sum(joint.values())
    assert log_evidence == pytest.approx(math.log(total), abs=1e-6)
    first = sum(mass for one, mass in joint.items() if one[0]) / total
    assert float(found[0]) == pytest.approx(first, abs=1e-6)


def test_the_objective_never_falls_below_minus_the_log_evidence(data):
    model = linear_model(*data)
    floor = -model.posterior()[1]
    for mean, scale, inclusion in itertools.product((0.0, 0.4), (0.05, 0.3), (0.1, 0.9)):
        params = (
            torch.full((2,), value, **DOUBLE) for value in (mean, bF.softplus_inverse(scale), bF.log_odds(inclusion))
        )
        assert model.objective(*params) > floor


@pytest.mark.slow
def test_the_exact_gradient_finds_the_posterior_of_orthogonal_inputs():
    model = LinearModel(40 * torch.eye(3, **DOUBLE), torch.tensor([20.0, 12.0, 1.0], **DOUBLE))
    exact, log_evidence = model.posterior()
    trace, phi = model.fit("exact", scale=0.1, inclusion=0.5, rate=0.05, steps=1200)
    assert torch.allclose(phi[-1, 0], exact, atol=1e-3)
    assert float(trace[-1]) == pytest.approx(-log_evidence, abs=1e-3)


@pytest.mark.slow
def test_the_relaxed_gate_is_drawn_inward_and_the_wrong_sign_keeps_useless_weights():
    model = LinearModel(40 * torch.eye(2, **DOUBLE), torch.tensor([30.0, 0.0], **DOUBLE))
    exact = model.posterior()[0]
    options = {"scale": 0.1, "inclusion": 0.5, "rate": 0.05, "draws": 16, "steps": 400}
    cold, warm = model.fit("straight-through", [0.1, 2.0], **options)[1][200:].mean(0)
    assert exact[0] > 0.99 > cold[0] > warm[0] and warm[1] > exact[1]
    assert model.fit("straight-through", sign=-1, **options)[1][-1, 0, 1] > 0.5
