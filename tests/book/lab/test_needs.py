"""Cells that start from what other cells leave: each is computed once, in time, and again only when it is lost."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from book import lab
from book.lab import engine, worker
from book.lab.cells import Cell, CellResult, Need
from book.lab.plan import Plan
from book.lab.validity import states

SUM = torch.randn(3, generator=torch.Generator().manual_seed(0)).sum().item()
ONCE = {"network:begins": 1, "network:ends": 1, "first": 1, "second": 1}


def _values(result) -> dict[str, float]:
    return {row["setting"]: row["value"] for row in result["rows"]}


def _product(tiny):
    (path,) = tiny.home.glob("cache/runs/tiny-needs/*.product.pt")
    return path


def test_a_need_is_computed_once_and_before_its_dependents(tiny):
    result = lab.run("tiny-needs")
    assert _values(result) == {"first": SUM, "second": SUM, "network": 1.0} and tiny.started() == ONCE
    assert tiny.order()[:2] == ["network:begins", "network:ends"]
    assert result["provenance"]["cells"] == {"total": 3, "done": 3, "failed": 0}


def test_a_dependent_alone_pulls_what_it_needs(tiny):
    result = lab.run("tiny-needs", only="first")
    assert tiny.started() == {"network:begins": 1, "network:ends": 1, "first": 1}
    assert _values(result) == {"first": SUM, "network": 1.0}  # the need is a cell of the profile, too
    lab.run("tiny-needs")
    assert tiny.started() == ONCE


@pytest.mark.parametrize("how", ["gone", "damaged", "truncated"])
def test_a_lost_product_is_computed_again(tiny, how):
    lab.run("tiny-needs", only="first")
    path = _product(tiny)
    whole = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(whole[:-1] + b"x" if how == "damaged" else whole[:50])
    assert _values(lab.run("tiny-needs"))["second"] == SUM
    assert tiny.started() == ONCE | {"network:begins": 2, "network:ends": 2} and path.read_bytes() == whole


def test_a_product_that_nothing_is_left_to_do_with_is_not_missed(tiny):
    lab.run("tiny-needs")
    _product(tiny).unlink()
    lab.run("tiny-needs")
    tiny.forget("tiny-needs", results=False)
    lab.run("tiny-needs")
    assert tiny.started() == ONCE


def test_a_failed_need_fails_its_dependents_at_once_and_by_name(tiny, monkeypatch):
    monkeypatch.setenv("TINY_FAILS", "network")
    result = lab.run("tiny-needs")
    notes = {row["setting"]: row["note"] for row in result["rows"]}
    assert notes["network"] == "FloatingPointError: the loss is NaN"
    for user in ("first", "second"):
        assert notes[user] == f"network SVBNN [0] of tiny-needs, which this cell needs, failed: {notes['network']}"
    assert tiny.started() == {"network:begins": 1}  # once, not once for each that needs it
    assert result["provenance"]["cells"] == {"total": 3, "done": 0, "failed": 3}
    monkeypatch.delenv("TINY_FAILS")
    assert _values(lab.run("tiny-needs")) == {"first": SUM, "second": SUM, "network": 1.0}


def test_good_rows_stay_when_their_cell_fails_for_its_product(tiny, monkeypatch):
    lab.run("tiny-needs", only="network")
    _product(tiny).unlink()
    monkeypatch.setenv("TINY_FAILS", "network")
    result = lab.run("tiny-needs", only="first")
    assert [(row["setting"], row["metric"]) for row in result["rows"]] == [("first", "error"), ("network", "rmse_test")]


@pytest.mark.parametrize("name", ["tiny-needs", "tiny-elsewhere"])
def test_cells_are_outdated_when_what_they_started_from_has_become_another(tiny, monkeypatch, name):
    lab.run("tiny-needs", only="network")
    lab.run(name)
    assert {state.word for state in states(name, "smoke")} == {"current"}
    monkeypatch.setenv("TINY_OTHER", "network")
    lab.run("tiny-needs", only="network", again=True)
    old = [state for state in states(name, "smoke") if state.word == "outdated"]
    assert [label for state in old for label in state.cells] == ["first VBNN [0]", "second VBNN [0]"]
    assert "computed again and is another one" in old[0].detail
    assert _values(lab.run(name))["second"] != SUM
    assert {state.word for state in states(name, "smoke")} == {"current"}


def test_a_need_of_another_experiment_is_shared_with_it(tiny):
    assert _values(lab.run("tiny-elsewhere")) == {"first": SUM, "second": SUM}
    lab.run("tiny-needs", only="network")
    assert tiny.started() == ONCE


def test_a_cell_that_leaves_nothing_cannot_be_needed(tiny, monkeypatch):
    user = Cell("user", "VBNN", (0,), needs=(Need("tiny-good", Cell("a", "SVBNN", (0, 1))),))
    monkeypatch.setitem(lab.get("tiny-needs").profiles, "smoke", lambda: [user])
    (row,) = lab.run("tiny-needs")["rows"]
    assert "a SVBNN [0-1] of tiny-good leaves no product; a cell cannot need it" in row["note"]


def test_a_product_that_could_not_be_read_back_fails_its_own_cell(tiny, monkeypatch):
    def bad(cell, device, checkpoint):
        return CellResult([], product={"weight": np.ones(2, dtype=object)})

    monkeypatch.setitem(lab.get("tiny-needs").methods, "SVBNN", bad)
    monkeypatch.setattr("book.lab.plan.code_of", lambda *_: "0")
    rows = lab.run("tiny-needs", only="network")["rows"]
    assert "product holds something else than dicts and lists of tensors" in rows[0]["note"]


def test_a_chain_of_failures_settles_every_cell_once(tiny, monkeypatch):
    first, second, network = Plan("tiny-needs", "smoke", "cpu").tasks
    third = replace(first, key="third", needs=(network, second))
    started = []
    monkeypatch.setattr(engine, "execute", lambda task: started.append(task) or worker.failure(task, "it fell"))
    settled = list(engine.outcomes([third, first, second, network]))
    assert [task for task, _ in settled] == [network, third, first, second] and started == [network]
    assert all(entry["failed"] for _, entry in settled)
