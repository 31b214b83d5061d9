"""The rows of the benchmark of the time to an answer."""

import json

import pytest
import torch

from benchmarks import costs, time_to_answer


def small(seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 3, generator=generator)
    return (x, x[:, :1].clone()), (x[:16], x[:16, :1])


@pytest.mark.parametrize("target", [1e6, 0.0])
def test_a_row_says_who_arrived_and_how_near_the_others_came(monkeypatch, capsys, target):
    task = time_to_answer.Task((3, 4, 1), small, target, 2, 32, 1e-2, 1e-2)
    monkeypatch.setattr(time_to_answer, "TASKS", {"mnist": task})  # the one task without estimator
    rows = time_to_answer.main(["--json"])
    assert json.loads(capsys.readouterr().out) == rows
    assert [row["layer"] for row in rows] == list(time_to_answer.LAYERS)
    for row in rows:
        assert row["arrived"] == (row["runs"] if target else 0) and (row["seconds"] is None) == (not target)
        assert 0.0 < row["least"] < 100.0
    about = {"device": "cpu", "threads": 1, "torch": "2", "date": "today", "command": "c"}
    table = costs.tables({"time_to_answer": {"about": about, "rows": rows}})["time_to_answer"]()
    assert ("not reached" in table) == (not target) and "SGHMC" in table
