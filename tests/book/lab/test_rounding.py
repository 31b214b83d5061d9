"""When the rows of two probes are the same numbers up to rounding."""

import math

import pytest
import torch

from book.lab import catalog, probes, rounding
from book.lab.cells import Cell, CellResult, Experiment, Need, rows_of

ONE_IMAGE = 100.0 / 359.0


def _rows(**values):
    return [["a", "VD", 0, metric, value] for metric, value in values.items()]


def _same(now, before, share=1e-4):
    return rounding.farthest(_rows(**now), _rows(**before), share)


def test_numbers_may_differ_by_the_share_of_their_precision():
    assert _same({"nll": 1.00005}, {"nll": 1.0}) == (True, pytest.approx(5e-5, rel=1e-4), "nll is 1.00005, was 1")
    assert _same({"nll": 1.0002}, {"nll": 1.0})[0] is False
    assert _same({"nll": 1.0 + 2e-9}, {"nll": 1.0}, rounding.SHARE["float64"])[0] is False
    assert _same({"nll": math.nan}, {"nll": math.nan}) == (True, 0.0, "")
    assert _same({"nll": math.nan}, {"nll": 1.0})[0] is False
    assert _same({"nll": 1.0}, {"nll": 1.0, "kl": 1.0}) == (False, math.inf, "other rows")


def test_a_count_may_move_by_two_images_beside_a_number_that_does_not():
    steady, loose = {"nll": 1.0}, {"nll": 1.001}
    assert _same({"accuracy": 90.0 + 2 * ONE_IMAGE} | steady, {"accuracy": 90.0} | steady)[0]
    assert not _same({"accuracy": 90.0 + 3 * ONE_IMAGE} | steady, {"accuracy": 90.0} | steady)[0]
    assert not _same({"accuracy": 90.0 + ONE_IMAGE} | loose, {"accuracy": 90.0} | steady)[0]
    assert not _same({"accuracy": 90.0 + ONE_IMAGE}, {"accuracy": 90.0})[0]  # nothing else speaks for the step
    assert _same({"error_at_97.5 with": 9.0 + ONE_IMAGE} | steady, {"error_at_97.5 with": 9.0} | steady)[0]


def test_what_is_wrong_is_named_before_a_count_that_jumps():
    same, _, where = _same({"accuracy": 50.0, "nll": 1.1}, {"accuracy": 50.0 + ONE_IMAGE, "nll": 1.0})
    assert (same, where) == (False, "nll is 1.1, was 1")


def test_the_precision_is_the_experiment_s_or_what_a_cell_says_of_itself():
    def experiment(**more):
        return Experiment("n", "s", {}, None, **more)

    assert rounding.share_of(experiment(), Cell("a", "b", (0,))) == 1e-4
    assert rounding.share_of(experiment(precision="float64"), Cell("a", "b", (0,))) == 1e-9
    for params in ({"bfloat16": True}, {"stage": {"bfloat16": True}}, {"precision": "bfloat16"}):
        assert rounding.share_of(experiment(), Cell("a", "b", (0,), params)) == 1e-3
    assert rounding.share_of(experiment(), Cell("a", "b", (0,), {"bfloat16": False})) == 1e-4


def _step(cell, device, checkpoint):
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=cell.params["rate"])
    for _ in range(2):
        optimizer.zero_grad()
        weight.square().sum().backward()
        optimizer.step()
    return CellResult(rows_of(cell, {"accuracy": 100.0}))


def test_a_probe_says_how_large_the_last_gradients_were():
    """So that a step that changes no count is noticed."""
    experiment = Experiment("n", "s", {}, _step)
    rows = [probes.run(experiment, Cell("a", "VD", (0,), {"rate": rate})) for rate in (0.1, 0.101)]
    assert [row[3] for row in rows[0]] == ["accuracy", probes.GRADIENT]
    assert rows[0][1][4] == pytest.approx(2.0 * 0.8 * 2.0**0.5)
    assert not rounding.farthest(rows[0], rows[1], 1e-4)[0]


def _user(cell, device, checkpoint, products):
    products[0]["weight"].mul_(2.0)  # as a training that goes on from there
    return CellResult(rows_of(cell, {"nll": products[0]["weight"].sum()}))


def test_a_needed_cell_runs_once_for_all_probes_and_neither_its_weights_nor_its_gradients_leak(monkeypatch):
    begun, start = [], Cell("start", "VD", (0,), {"rate": 0.1})

    def begin(cell, device, checkpoint):
        begun.append(cell.setting)
        return CellResult(_step(cell, device, checkpoint).rows, product={"weight": torch.ones(2)})

    experiment = Experiment("n", "s", {}, _user, methods={"VD": begin})
    monkeypatch.setattr(catalog, "get", lambda name: experiment)
    monkeypatch.setattr(probes, "_MADE", {})
    users = [Cell(setting, "SBP", (0,), needs=(Need("n", start),)) for setting in "ab"]
    found = [probes.run(experiment, cell) for cell in users]
    assert found == [[[setting, "SBP", 0, "nll", 4.0]] for setting in "ab"] and begun == ["start"]
    probes._MADE.clear()
    probes.run(experiment, start)  # what a probe itself has made serves those that need it
    assert probes.run(experiment, users[0]) == found[0] and begun == ["start", "start"]
