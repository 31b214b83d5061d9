"""Experiment 5 on simulated rows: resuming, choosing without test rows, units, what the pruned networks are."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from book import lab
from book.lab import Cell
from chapters.closed_form.experiments import uci as sbnn_uci
from chapters.closed_form.experiments import uci_baselines as sbnn_uci_baselines
from chapters.closed_form.experiments import uci_rivals as sbnn_uci_rivals
from chapters.closed_form.experiments.uci_data import SIMULATED, gaussian_scores, load_splits
from tests.chapters import cells
from tests.chapters.cells import CPU

smoke = partial(cells.smoke, "sbnn-uci")


def compute(cell: Cell, checkpoint=None):
    return lab.get("sbnn-uci").function(cell)(cell, CPU, checkpoint)


@pytest.mark.parametrize(
    ("module", "method"),
    [(sbnn_uci, "sBNN"), (sbnn_uci_baselines, "Dropout"), (sbnn_uci_rivals, "SVBNN"), (sbnn_uci_rivals, "HS-BNN")],
)
def test_settings_are_chosen_without_the_test_rows(module, method, monkeypatch):
    """Other test targets change the errors, and not the settings."""
    cell, load = smoke(method), module.load_splits
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
    cell = smoke("sBNN")
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
