"""What the build is told of an experiment: where each row comes from, and how to compute it again."""

import json
from dataclasses import replace

import pytest

from book import lab
from book.lab import catalog, evidence, store
from book.lab.cells import Cell
from book.lab.evidence import command

CELLS = [Cell("a", "M", (0,)), Cell("a", "M", (1,)), Cell("b", "M", (0, 1)), Cell("not b", "M", (0, 1))]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ([], ""),
        (CELLS, "python -m book run x --profile book --again"),
        (CELLS[2:3], 'python -m book run x --profile book --again --only "b M [0-1]"'),
        ([Cell("old", "M", (0,))], ""),
    ],
)
def test_a_command_chooses_the_cells_and_no_other(chosen, expected):
    assert command("x", "book", chosen, CELLS) == expected


def test_replicates_share_a_command_where_no_other_cell_is_meant():
    begin = "python -m book run x --profile book --again --only"
    assert command("x", "book", CELLS[:2], CELLS) == f'{begin} "a M ["'
    other = [*CELLS, Cell("also a", "M", (0,))]
    assert command("x", "book", CELLS[:2], other) == f'{begin} "a M [0]" && {begin} "a M [1]"'


def test_text_that_a_shell_would_read_is_quoted():
    cell = Cell("$HOME", "M", (0,))
    assert command("x", "book", [cell], [cell, *CELLS]).endswith("--only '$HOME M [0]'")


def test_rows_know_their_runs_and_runs_their_minutes(tiny, capsys):
    lab.run("tiny-good", "book")
    evidence.main(["tiny-good"])
    found = json.loads(capsys.readouterr().out)["tiny-good"]
    stored = store.load_result("tiny-good", "book")
    assert found["profile"] == "book" and found["state"].startswith("current")
    labels = [evidence.validity.cell_of(c["cell"]).label for c in stored["cells"]]
    assert [run["label"] for run in found["runs"]] == labels
    assert [run["minutes"] for run in found["runs"]] == [round(c["seconds"] / 60, 3) for c in stored["cells"]]
    for row in found["rows"]:
        (run,) = [found["runs"][place] for place in row["runs"]]
        assert run["label"].startswith(f"{row['setting']} {row['method']} [")
        assert (row["command"], row["minutes"]) == (run["command"], run["minutes"])
        assert row["texts"]["Method"] == row["method"]


def test_what_follows_from_the_arrays_has_all_runs_of_its_setting_and_method(tiny, monkeypatch):
    lab.run("tiny-good", "book")
    stored = store.load_result("tiny-good", "book")["rows"][0] | {"metric": "mse_test", "value": 1.0}
    experiment = replace(lab.get("tiny-good"), derived=lambda _: [stored])
    monkeypatch.setattr(catalog, "table", lambda: {"tiny-good": (__name__, experiment)})
    found = evidence.evidence("tiny-good")
    (row,) = [row for row in found["rows"] if row["metric"] == "mse_test"]
    begin = f"{stored['setting']} {stored['method']} ["
    assert row["runs"] == [k for k, run in enumerate(found["runs"]) if run["label"].startswith(begin)] != []


def test_an_experiment_without_a_result_has_no_runs(tiny):
    found = evidence.evidence("tiny-good")
    assert (found["profile"], found["state"], found["runs"]) == ("", "", [])
    assert all(row["command"] == "" and row["minutes"] is None for row in found["rows"])
