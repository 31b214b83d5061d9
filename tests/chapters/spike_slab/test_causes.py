"""The runs that show causes: what each changes, and that the best of several starts is the one by the objective."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from chapters.spike_slab.experiments import causes, simulations
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
