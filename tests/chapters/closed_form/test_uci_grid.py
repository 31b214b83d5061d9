"""The grid of Table 2: what a rule may take, where each candidate begins, and that no test row chooses."""

import dataclasses
import math

import torch
from torch.nn.functional import softplus

from chapters.closed_form.experiments import uci, uci_grid
from chapters.closed_form.experiments.uci_data import load_splits
from tests.chapters.cells import CPU, smoke


def test_the_smaller_rule_takes_the_candidates_of_the_causes():
    for cell in uci_grid.EXPERIMENTS[0].profiles["book"]():
        settings, masks = uci_grid.candidates(cell.params), uci_grid.allowed(cell.params)
        assert masks["whole grid"].all() and masks["weight 1"].sum() * 2 == len(settings) == 144
        before = settings[masks["as before"]]
        assert {tuple(row) for row in before[:, [0, 2]].tolist()} == {(1.0, 1.0), (1.0, 0.1), (0.1, 1.0), (0.1, 0.1)}
        assert len(before) == 4 and ((before[:, 3] - uci.TRAINING[cell.setting][0]).abs() <= 1).all()
        assert (before[:, 1] == 0.002).all() and (before[:, 4] == 0.01).all()


def test_every_network_begins_at_its_scales():
    cell = smoke("sbnn-uci-grid")
    starts, data = uci_grid.stacked(cell.params), load_splits(cell.params["data"], cell.replicates)
    model, _, weights = uci_grid.network(data, starts, cell.params, CPU)
    scales = softplus(model.posterior.weight_rho.detach())
    sizes = model.posterior.mean().abs().amax(dim=1)
    plain, _, _ = uci.network(data, [(1.0, 1.0)] * len(sizes), cell.params | {"initial_scale": 0.002}, CPU)
    for k, (mean, scale, weight) in enumerate(starts):
        for network in (2 * k, 2 * k + 1):  # of two splits
            assert torch.allclose(scales[network], torch.tensor(scale), rtol=1e-4)
            assert torch.allclose(sizes[network], mean * plain.posterior.mean()[network].abs().max())
            assert weights[network] == torch.tensor(weight)


def test_rows_are_finite_and_chosen_without_the_test_rows(monkeypatch):
    cell = smoke("sbnn-uci-grid")
    rows = uci_grid.run_cell(cell, CPU, None).rows
    assert all(math.isfinite(row["value"]) for row in rows)
    assert {row["method"] for row in rows} == {"whole grid", "weight 1", "as before"}

    def spoiled(name, splits, held_out=0.0):
        data = load_splits(name, splits, held_out=held_out)
        return data if held_out else dataclasses.replace(data, test_y=data.test_y + 100.0)

    monkeypatch.setattr(uci_grid, "load_splits", spoiled)
    others = uci_grid.run_cell(cell, CPU, None).rows
    taken = [[row["value"] for row in some if row["metric"] in uci_grid.SETTINGS] for some in (rows, others)]
    errors = [[row["value"] for row in some if row["metric"].startswith("rmse")] for some in (rows, others)]
    assert taken[0] == taken[1] and all(b > a + 50 for a, b in zip(*errors, strict=True))
