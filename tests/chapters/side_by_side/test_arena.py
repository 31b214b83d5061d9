"""The comparison keeps to its protocol: equal first weights and rows, test rows read last, failures counted."""

import dataclasses
import math
from functools import partial

import numpy as np
import pytest
import torch

from bnnlib import contest
from bnnlib.contest import METHODS, Method, Predictor, Range, descend
from book.lab.cells import Cell
from chapters.shared import simulated
from chapters.side_by_side import arena, images, rivals, tables, uci
from chapters.side_by_side.costs import costs, steps
from chapters.side_by_side.experiments.contest import cells
from chapters.side_by_side.shifts import SHIFTS, shifted

PARAMS = {"task": "sparse-teacher", "steps": 20, "trials": 2, "draws": 3, "test_rows": 200}


def cell(method: str, **params) -> Cell:
    return Cell("sparse-teacher, B = 1", method, (0, 1), PARAMS | params)


@pytest.mark.slow
def test_rows_of_default_and_tuned_runs_and_of_trials():
    result = tables.run_cell(cell("deterministic"), torch.device("cpu"))
    settings = {row["setting"].rpartition(", ")[2] for row in result.rows}
    assert settings == {"trials", "default", "tuned"}
    tried = [row["value"] for row in result.rows if row["metric"] == "validation_nll"]
    chosen = METHODS["deterministic"].trials(2)[tried.index(min(tried))]
    assert len(tried) == 2 and result.product == {"settings": chosen}
    again = tables.run_cell(cell("deterministic", steps=40), torch.device("cpu"), products=(result.product,))
    assert {row["setting"].rpartition(", ")[2] for row in again.rows} == {"tuned"}


def test_the_test_rows_are_read_after_training(monkeypatch):
    events = []

    def draw(count, generator=None):
        events.append(("draw", count))
        return simulated.sparse_teacher(count, generator)

    def train(network, problem, steps, seed, lr):
        events.append(("train", seed))
        descend(network, problem, steps, seed, torch.optim.SGD(network.parameters(), lr))
        return Predictor(network, problem)

    task = dataclasses.replace(tables.TASKS["sparse-teacher"], load=partial(tables.load_simulated, draw, 500, 128))
    monkeypatch.setitem(tables.TASKS, "sparse-teacher", task)
    monkeypatch.setitem(contest.METHODS, "own", Method("own", train, {"lr": Range(0.01, 0.001, 0.1)}))
    tables.run_cell(cell("own"), torch.device("cpu"))
    tried = [("draw", 500), ("train", arena.TUNED_ON)] * 2
    assert events[:4] == tried  # no test row is drawn while settings are chosen
    for at in range(4, len(events), 3):
        assert [kind for kind, _ in events[at : at + 3]] == ["draw", "train", "draw"]
        assert events[at + 2] == ("draw", 200)


def test_a_method_that_diverges_is_the_constant_predictor_and_counted():
    found = arena.scored(
        tables.TASKS["sparse-teacher"], cell("sghmc", steps=60), {"lr": 1e6, "temperature": 1.0}, 0, torch.device("cpu")
    )
    assert found["diverged"] == 1.0
    _, _, f = tables.TASKS["sparse-teacher"].load(0, "cpu", PARAMS)["test"]()
    assert found["rmse"] == pytest.approx(float(f.std()), rel=0.1)  # the mean of the training rows predicts all


def test_all_methods_get_the_same_first_weights_and_batches(monkeypatch):
    seen = {}

    def train(network, problem, steps, seed):
        weights = [parameter.detach().clone() for parameter in network.parameters()]
        batches = []
        hook = network.register_forward_pre_hook(lambda _, inputs: batches.append(inputs[0].sum().item()))
        descend(network, problem, steps, seed, torch.optim.SGD(network.parameters(), 0.0))
        hook.remove()
        seen[len(seen)] = (weights, batches)
        return Predictor(network, problem)

    for name in ("one", "other"):
        monkeypatch.setitem(contest.METHODS, name, Method(name, train))
        arena.trained(tables.TASKS["sparse-teacher"], cell(name), {}, 3, torch.device("cpu"))
    assert seen[0][1] == seen[1][1] and len(seen[0][1]) == PARAMS["steps"]
    assert all(torch.equal(a, b) for a, b in zip(seen[0][0], seen[1][0], strict=True))


def test_correlated_inputs_keep_their_law_and_their_order():
    x, y, f = tables.correlated_teacher(20_000, torch.Generator().manual_seed(0))
    assert x.shape == (20_000, 100) and y.shape == f.shape == (20_000, 1)
    assert torch.equal(f[:, 0], simulated.sparse_teacher_function(x / math.sqrt(3.0)))
    covariance = torch.corrcoef(x.T)
    # inputs 0 and 1 were neighbors before the relevant ones came first; a standard error of (1 - .81) / 141 = .0013
    assert float(covariance[0, 5]) == pytest.approx(0.9, abs=0.006)
    assert abs(float(covariance[0, 1]) - 0.9**20) < 0.03


def test_a_budget_is_a_multiple_of_the_deterministic_cost():
    assert steps("simulation-2", "deterministic", 500, 4) == 2000
    for task, place in (tables.TASKS | images.TASKS | uci.TASKS).items():
        for method, ratio in costs()[task].items():
            assert steps(task, method, place.one, 16) * ratio == pytest.approx(16 * place.one, abs=ratio)


def test_high_budgets_take_the_settings_of_the_one_before():
    found = cells("side-simulation-2", {"simulation-2": tables.TASKS["simulation-2"]}, (1, 4, 16), {})
    by_budget = {one.setting: one for one in found if one.method == "gaussian"}
    assert set(METHODS) == {one.method for one in found}
    assert not by_budget["simulation-2, B = 1"].needs and not by_budget["simulation-2, B = 4"].needs
    assert by_budget["simulation-2, B = 16"].needs[0].cell == by_budget["simulation-2, B = 4"]


@pytest.mark.parametrize("kind", SHIFTS)
def test_shifts_grow_with_their_severity(kind):
    line = torch.linspace(-1.0, 1.0, 28)
    x = torch.exp(-8.0 * (line[None, :] ** 2 + (3.0 * line[:, None]) ** 2))[None, None]  # a bar that lies
    distances = [float((shifted(x, kind, severity) - x).norm()) for severity in range(1, 6)]
    assert distances == sorted(distances) and distances[0] > 0.0
    assert shifted(x, kind, 5).shape == x.shape and float(shifted(x, kind, 5).max()) <= 1.0
    if kind == "blur":  # keeps the light, but what leaves the frame
        assert float(shifted(x, kind, 2).sum()) == pytest.approx(float(x.sum()), rel=1e-3)


def test_a_rotation_by_a_right_angle_turns_the_rows_into_columns():
    x = torch.zeros(1, 1, 9, 9)
    x[0, 0, 4, 6:] = 1.0
    turned = shifted(x, "rotation", 90 / 12)  # severities are whole in the study; this angle is exact
    assert (
        float((turned - x.rot90(-1, (2, 3))).abs().max()) < 1e-4
        or float((turned - x.rot90(1, (2, 3))).abs().max()) < 1e-4
    )


def test_knockoffs_of_correlated_inputs_are_exchangeable_with_them():
    random = np.random.default_rng(0)
    x = np.cumsum(random.standard_normal((4000, 5)), axis=1)
    covariance = np.cov(np.hstack([x, rivals.knockoff_copies(x, random)]).T)
    # a covariance of 4,000 rows of variance 5 errs by about 5 / sqrt(4,000) = .08
    assert np.abs(covariance[:5, :5] - covariance[5:, 5:]).max() < 0.4
    swapped = covariance[:5, 5:] - np.diag(np.diag(covariance[:5, 5:]))
    assert np.abs(swapped - (covariance[:5, :5] - np.diag(np.diag(covariance[:5, :5])))).max() < 0.4


@pytest.mark.slow
def test_rivals_are_scored_as_the_networks_are():
    params = {"test_rows": 300}
    found = {name: rivals.scored(name, "sparse-teacher", 0, params) for name in rivals.RIVALS}
    assert {"rmse", "nll", "crps", "seconds"} <= set(found["random_forest"]) & set(found["gradient_boosting"])
    assert {"fpr", "fnr", "fdr"} <= set(found["lasso"]) & set(found["knockoffs"]) and "rmse" not in found["knockoffs"]
    assert found["lasso"]["rmse"] < 1.05 * float(
        tables.TASKS["sparse-teacher"].load(0, "cpu", params)["test"]()[2].std()
    )


def test_a_table_of_uci_is_read_for_its_own_split_and_errors_are_in_its_units():
    data = uci.load("boston", 32, 0, "cpu", {"data": uci.SIMULATED})
    result = uci.run_cell(cell("deterministic", task="boston", data=uci.SIMULATED), torch.device("cpu"))
    found = {row["metric"]: row["value"] for row in result.rows if row["setting"].endswith("tuned")}
    assert found["rmse"] == found["rmse_shipped"] and 0.3 < found["rmse"] < 4.0 * data["scale"]
    other = uci.load("boston", 32, arena.TUNED_ON, "cpu", {"data": uci.SIMULATED})
    assert not torch.equal(data["problem"].x, other["problem"].x)


def test_what_is_shipped_is_one_network_or_all():
    data = tables.TASKS["sparse-teacher"].load(0, "cpu", {"test_rows": 50})
    x = data["problem"].x_validation
    for name in ("dropout", "ensemble", "sghmc"):
        network = tables.TASKS["sparse-teacher"].network(0)
        predictor = METHODS[name].fit(network, data["problem"], 60)
        alone = predictor.deployed(x)[None] if name == "dropout" else predictor.predict(x, predictor.networks)
        assert torch.equal(predictor.shipped(x), alone)
        dense = 2 * sum(one.weight.numel() for one in network.modules() if isinstance(one, torch.nn.Linear))
        assert predictor.flops() == predictor.networks * dense
