"""Experiment 5 on simulated rows: settings, units, what is pruned; the grid of Table 2, and its causes."""

import math
from dataclasses import replace
from functools import cache, partial

import pytest
import torch
from torch.nn.functional import softplus

from bnnlib import metrics
from book import lab
from book.lab import Cell
from chapters.closed_form.experiments import uci as sbnn_uci
from chapters.closed_form.experiments import uci_baselines as sbnn_uci_baselines
from chapters.closed_form.experiments import uci_causes, uci_grid
from chapters.closed_form.experiments import uci_rivals as sbnn_uci_rivals
from chapters.closed_form.experiments.uci_data import SIMULATED, gaussian_scores, load_splits
from tests.chapters.cells import CPU, smoke

own = partial(smoke, "sbnn-uci")


def compute(cell: Cell, checkpoint=None):
    return lab.get("sbnn-uci").function(cell)(cell, CPU, checkpoint)


@pytest.mark.parametrize(
    ("module", "method"),
    [(sbnn_uci, "sBNN"), (sbnn_uci_baselines, "Dropout"), (sbnn_uci_rivals, "SVBNN"), (sbnn_uci_rivals, "HS-BNN")],
)
def test_settings_are_chosen_without_the_test_rows(module, method, monkeypatch):
    """Other test targets change the errors, and not the settings."""
    cell, load = own(method), module.load_splits
    chosen = ("mean_scale", "kl_scale", "dropout_probability", "weight_decay")

    def scrambled(name, splits, held_out=0.0):
        data = load(name, splits, held_out)
        return data if held_out else replace(data, test_y=1.5 * data.test_y.flip(1))

    honest = compute(cell)
    monkeypatch.setattr(module, "load_splits", scrambled)
    blind = compute(cell)
    for one, other in zip(honest.rows, blind.rows, strict=True):
        assert (one["value"] == other["value"]) == (one["metric"] in chosen or one["metric"] == "active")


def test_held_out_rows_are_training_rows():
    whole, search = load_splits(SIMULATED, (0, 1)), load_splits(SIMULATED, (0, 1), held_out=0.2)
    assert whole.train_x.shape == (120, 2, 4) and search.train_x.shape == (96, 2, 4)
    assert search.test_x.shape == (2, 24, 4) and whole.test_x.shape == (2, 30, 4)
    # standardized by their own rows: mean 0 and variance 1 over what is trained on, float32 sums of 96 rows
    torch.testing.assert_close(search.train_x.mean(0), torch.zeros(2, 4), atol=1e-6, rtol=0)
    torch.testing.assert_close(search.train_y.var(0, correction=0), torch.ones(2, 1), atol=1e-5, rtol=0)


def test_scores_are_in_the_units_of_the_data():
    """One draw at the targets plus 0.5 noise units, checked against the normal density by hand."""
    data = load_splits(SIMULATED, (0,))
    scale = torch.tensor([0.25])
    draws = (data.test_y + 0.125).unsqueeze(0)
    found = gaussian_scores(draws, scale, data)
    sd = float(data.y_scale)
    assert float(found["rmse_test"]) == pytest.approx(0.125 * sd, rel=1e-5)  # float32
    expected = 0.5 * 0.5**2 + math.log(0.25 * sd) + 0.5 * math.log(2.0 * math.pi)
    assert float(found["nll_test"]) == pytest.approx(expected, rel=1e-5)


def test_a_pruned_stack_loses_exactly_its_lowest_ranked_weights():
    cell = own("sBNN")
    data = load_splits(SIMULATED, (0, 1))
    model, _, _ = sbnn_uci.network(data, [(1.0, 1.0), (0.2, 0.1)], cell.params, CPU)
    kept = {}
    original = model.propagate

    def spy(layers, x):
        kept["weights"] = torch.cat([part.flatten(1) for layer in layers for part in layer], dim=1)
        return original(layers, x)

    model.propagate = spy
    sbnn_uci.pruned(model, 50, data.test_x)
    odds = model.posterior.inclusion_log_odds()
    for weights, rank in zip(kept["weights"], odds, strict=True):
        removed = weights == 0
        assert int(removed.sum()) == round(0.5 * len(rank))
        assert rank[removed].max() <= rank[~removed].min()


def test_the_smaller_rule_takes_the_candidates_of_the_causes():
    for cell in uci_grid.EXPERIMENTS[0].profiles["book"]():
        settings, masks = uci_grid.candidates(cell.params), uci_grid.allowed(cell.params)
        assert masks["whole grid"].all() and masks["weight 1"].sum() * 2 == len(settings) == 144
        before = settings[masks["as before"]]
        assert {tuple(row) for row in before[:, [0, 2]].tolist()} == {(1.0, 1.0), (1.0, 0.1), (0.1, 1.0), (0.1, 0.1)}
        assert len(before) == 4 and ((before[:, 3] - sbnn_uci.TRAINING[cell.setting][0]).abs() <= 1).all()
        assert (before[:, 1] == 0.002).all() and (before[:, 4] == 0.01).all()


def test_every_network_begins_at_its_scales():
    cell = smoke("sbnn-uci-grid")
    starts, data = uci_grid.stacked(cell.params), load_splits(cell.params["data"], cell.replicates)
    model, _, weights = uci_grid.network(data, starts, cell.params, CPU)
    scales = softplus(model.posterior.weight_rho.detach())
    sizes = model.posterior.mean().abs().amax(dim=1)
    plain, _, _ = sbnn_uci.network(data, [(1.0, 1.0)] * len(sizes), cell.params | {"initial_scale": 0.002}, CPU)
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
        return data if held_out else replace(data, test_y=data.test_y + 100.0)

    monkeypatch.setattr(uci_grid, "load_splits", spoiled)
    others = uci_grid.run_cell(cell, CPU, None).rows
    taken = [[row["value"] for row in some if row["metric"] in uci_grid.SETTINGS] for some in (rows, others)]
    errors = [[row["value"] for row in some if row["metric"].startswith("rmse")] for some in (rows, others)]
    assert taken[0] == taken[1] and all(b > a + 50 for a, b in zip(*errors, strict=True))


@cache
def rows_of_all() -> list[dict]:
    return uci_causes.run_causes(smoke("sbnn-uci-causes"), CPU, None).rows


def untrained(copies=1):
    cell = smoke("sbnn-uci-causes")
    data = load_splits(cell.params["data"], cell.replicates)
    model, _, _ = sbnn_uci.network(data, [(1.0, 1.0)] * (2 * copies), cell.params, CPU)
    return model, data


@pytest.mark.slow
def test_every_method_has_a_finite_error_at_every_share():
    rows = rows_of_all()
    found = {(row["method"], row["metric"]) for row in rows}
    assert found == {(name, f"rmse_test_at_{share}") for name in uci_causes.METHODS for share in uci_causes.SHARES}
    assert len(rows) == 2 * len(found) and all(math.isfinite(row["value"]) for row in rows)


def test_weights_and_biases_are_told_apart():
    model, _ = untrained()
    marks = uci_causes.weights_of(model)
    for weight, bias in model.posterior.layout.layers(marks.expand(2, -1)):
        assert weight.all() and not bias.any()


@torch.no_grad()
def test_biases_that_are_kept_do_not_count_among_the_removed():
    model, data = untrained()
    model.posterior.weight.mul_(torch.where(uci_causes.weights_of(model), 1.0, 1e-3))  # the first to go, if ranked
    kept = []

    def propagate(layers, x):
        kept.append(layers)
        return x[..., :1]

    model.propagate = propagate
    uci_causes.PRUNERS["biases kept"](model, 50, data)
    uci_causes.PRUNERS["chosen at the share"](model, 50, data)
    weights, biases = ([torch.cat([p[k].flatten(1) for p in layers], 1) for layers in kept] for k in (0, 1))
    assert ((weights[0] == 0).sum(1) == 12).all() and (biases[0] != 0).all()  # of 25 weights
    assert (biases[1] == 0).all() and ((weights[1] != 0).double().mean(1) > 0.55).all()


def test_training_on_lowers_the_error_and_leaves_the_removed_at_zero():
    model, data = untrained()
    mask = torch.rand(model.posterior.mean().shape, generator=torch.Generator().manual_seed(1)) < 0.5
    means = model.posterior.mean().detach() * mask
    after = uci_causes.trained_on(model, means, mask, data, 100)
    layers = model.posterior.layout.layers
    x, y = data.train_x.transpose(0, 1), data.train_y.transpose(0, 1)
    errors = [metrics.rmse(model.propagate(layers(some), x), y, dim=(1, 2)) for some in (means, after)]
    assert (errors[1] < errors[0]).all() and (after[~mask] == 0).all()


@pytest.mark.slow
def test_the_mean_of_the_training_targets_is_the_rule_without_a_network():
    rows = rows_of_all()
    cell = smoke("sbnn-uci-causes")
    data = load_splits(cell.params["data"], cell.replicates)
    expected = (data.test_y * data.y_scale).square().mean(dim=(1, 2)).sqrt()
    found = [row["value"] for row in rows if (row["method"], row["metric"]) == (uci_causes.MEAN, "rmse_test_at_50")]
    assert found == pytest.approx(expected.tolist(), rel=1e-6)


@pytest.mark.slow
def test_the_causes_are_chosen_without_the_test_rows(monkeypatch):
    chosen = []
    load = load_splits

    def seen(name, splits, held_out=0.0):
        data = load(name, splits, held_out=held_out)
        chosen.append(held_out)
        return data if held_out else replace(data, test_y=data.test_y + 100.0)

    torch_min = torch.Tensor.argmin
    picks = []
    monkeypatch.setattr(
        torch.Tensor, "argmin", lambda self, *a, **k: picks.append(torch_min(self, *a, **k)) or picks[-1]
    )
    uci_causes.run_causes(smoke("sbnn-uci-causes"), CPU, None)
    first, picks[:] = list(picks), []
    monkeypatch.setattr(uci_causes, "load_splits", seen)
    uci_causes.run_causes(smoke("sbnn-uci-causes"), CPU, None)
    assert chosen[0] > 0 and all(torch.equal(a, b) for a, b in zip(first, picks, strict=True))
