"""The benchmark of conversions: every network has a row, every "no" a reason, and a run goes on where one stopped."""

import json

import pytest
import torch
from torch import nn

from benchmarks import conversion_tables as page
from benchmarks import conversions, networks, store


def test_there_are_over_a_hundred_networks_with_names_of_their_own():
    found = networks.networks()
    assert len({(one.package, one.name) for one in found}) == len(found) >= 100
    assert {one.package for one in found} == set(networks.PACKAGES)


@pytest.mark.slow
def test_rows(capsys):
    conversions.main(["--json", "--networks", "squeeze-and-excite", "dict of answers", "weight norm", "Bilinear"])
    rows = {row["network"]: row for row in json.loads(capsys.readouterr().out)}
    for row in rows.values():
        for column in conversions.COLUMNS:
            assert row[column] == "yes" or (row[f"{column}_note"] and row[f"{column}_reason"])
    gated = rows["squeeze-and-excite"]
    assert [gated[column] for column in conversions.COLUMNS] == ["yes"] * 5
    assert gated["left"] < 60 and gated["off"] == 8 and gated["stay"] == 0 and 90 < gated["share"] < 100
    assert rows["dict of answers"]["compressed"] == "yes"
    assert rows["weight norm"]["compressed_reason"] == "a weight is computed, by a hook or parametrization"
    assert rows["Bilinear"]["compressed_reason"].startswith("no place for noise")


def test_a_run_goes_on_where_one_stopped(monkeypatch, tmp_path):
    seen = []

    def measured(network, column):
        seen.append((network.name, column))
        return {"network": network.name, "column": column, "answer": "yes", "seconds": 0.0}

    monkeypatch.setattr(conversions, "measure", measured)
    keep = tmp_path / "answers.jsonl"
    options = ["--networks", "mlp", "--columns", "converted", "trained", "--keep", str(keep)]
    assert conversions.main([*options, "--minutes", "0"])[0]["converted"] == "not run"
    conversions.main(options)
    keep.write_text(keep.read_text() + '{"network": "own/mlp", "col')  # killed within a line
    (row,) = conversions.main([*options, "--columns", "converted", "trained", "exported"])
    assert seen == [("mlp", "converted"), ("mlp", "trained"), ("mlp", "exported")]
    assert [row[column] for column in conversions.COLUMNS] == ["yes", "yes", "not run", "yes", "not run"]


def test_a_package_that_is_not_there_is_named_so(monkeypatch):
    monkeypatch.setattr(networks, "find_spec", lambda name: None)
    (row,) = conversions.main(["--networks", "resnet10t"])
    assert {row[column] for column in conversions.COLUMNS} == {"not installed"}


@pytest.mark.slow
def test_an_error_and_one_that_takes_too_long_are_a_no_with_its_words(monkeypatch):
    def forever(network):
        while True:
            torch.ones(1)

    own = networks.Network("x", "own", lambda: nn.Linear(2, 2), lambda: torch.ones(2, 3))
    assert "cannot be multiplied" in conversions.measure(own, "trained")["note"]
    monkeypatch.setattr(conversions, "converted", forever)
    monkeypatch.setattr(conversions, "SECONDS", 1)
    assert conversions.measure(own, "converted")["note"] == "TimeoutError: it took more than 1 s"


def test_the_page_counts_what_is_stored():
    rows = store.read("conversions")["rows"]
    assert [(row["package"], row["network"]) for row in rows] == [(n.package, n.name) for n in networks.networks()]
    for row in rows:
        for column in conversions.COLUMNS:
            assert row[column] in ("yes", "not run") or row.get(f"{column}_reason"), (row["network"], column)
    last = page.counts(rows).splitlines()[-1]
    assert last.startswith(f"| all | {len(rows)} | {sum(row['converted'] == 'yes' for row in rows)}")
    assert page.reasons(rows).count("\n") >= 5 and page.networks(rows).count("\n") == len(rows) + 1
