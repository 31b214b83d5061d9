"""What is changed in the pruned networks of Table 2: each change by hand, and that nothing is chosen on test rows."""

import dataclasses
import math
from functools import cache

import pytest
import torch

from bnnlib import metrics
from chapters.closed_form.experiments import uci, uci_causes
from chapters.closed_form.experiments.uci_data import load_splits
from tests.chapters.cells import CPU, smoke


@cache
def rows_of_all() -> list[dict]:
    return uci_causes.run_causes(smoke("sbnn-uci-causes"), CPU, None).rows


def untrained(copies=1):
    cell = smoke("sbnn-uci-causes")
    data = load_splits(cell.params["data"], cell.replicates)
    model, _, _ = uci.network(data, [(1.0, 1.0)] * (2 * copies), cell.params, CPU)
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
def test_settings_are_chosen_without_the_test_rows(monkeypatch):
    chosen = []
    load = load_splits

    def seen(name, splits, held_out=0.0):
        data = load(name, splits, held_out=held_out)
        chosen.append(held_out)
        return data if held_out else dataclasses.replace(data, test_y=data.test_y + 100.0)

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
