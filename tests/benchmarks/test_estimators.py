"""The benchmarks of estimators and of conversions: their rows, scores, reasons, and that a run goes on."""

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks import conversion_tables as page
from benchmarks import conversions, estimators, networks, rivals, store, tables

FIELDS = {"set", "method", "splits", "rows", "inputs", "error", "error_se", "nll", "nll_se", "warned", "fit_s", "cpu_s"}
OWN = {"selected", "noise", "coverage", "coverage_1", "coverage_2", "coverage_3", "nll_behind", "moved"}
OWN |= {f"{name}_se" for name in OWN - {"moved"}}


@pytest.mark.slow
def test_rows_of_estimators(printed, monkeypatch):
    monkeypatch.setattr(estimators, "QUICK", {"hidden": (2,), "epochs": 2})
    monkeypatch.setattr(rivals, "FOREST", 20)
    monkeypatch.setattr(rivals, "PEER_EPOCHS", 2)
    names = ["spike_slab", "lasso", "random forest", "Laplace"]
    settings = ["--splits", "2", "--seeds", "2", "--methods", *names]
    rows = printed(estimators, "--sets", "diabetes", "breast_cancer_30", *settings)
    assert [(row["set"], row["method"]) for row in rows] == [
        (s, m) for s in ("diabetes", "breast_cancer_30") for m in names
    ]
    for row in rows:
        if row.get("note") == "not installed":
            assert row["method"] == "Laplace"
            continue
        assert set(row) - OWN == FIELDS and ("coverage" in row) == (row["set"] == "diabetes")
        assert ("noise" in row) == (row["set"] == "diabetes" and row["method"] == "spike_slab")
        assert ("moved" in row) == (row["method"] == "spike_slab")
        assert ("nll_behind" in row) == (row["method"] != "spike_slab")
        assert ("selected" in row) == (row["method"] in ("spike_slab", "lasso"))
        assert row["fit_s"] > 0 and row["error"] >= 0 and row["splits"] == 2


def test_a_run_of_estimators_goes_on_where_one_stopped(monkeypatch, tmp_path):
    seen = []

    def measured(name, number, method, seeds):
        seen.append((name, number, method))
        about = {"set": name, "split": number, "method": method, "rows": 9, "inputs": 2}
        return about | {"error": 1.0 + 2 * number, "nll": 0.5, "fit_s": 0.5, "cpu_s": 0.25}

    monkeypatch.setattr(estimators, "measure", measured)
    run = ["--sets", "diabetes", "wine_100", "--methods", "lasso", "--keep", str(tmp_path / "kept.jsonl")]
    assert [row["splits"] for row in estimators.main([*run, "--splits", "1"])] == [1, 1]
    with (tmp_path / "kept.jsonl").open("a") as file:
        file.write('{"set": "wine_100", "spl')  # killed in the middle of a line
    rows = estimators.main([*run, "--splits", "2"])
    assert seen == [(name, number, "lasso") for number in (0, 1) for name in ("diabetes", "wine_100")]
    assert [(row["error"], row["error_se"], row["splits"]) for row in rows] == [(2.0, 1.0, 2)] * 2
    assert estimators.main([*run, "--splits", "3", "--minutes", "0"]) == rows and len(seen) == 4
    assert estimators.main(["--sets", "wine_100", "--methods", "lasso", "--minutes", "0"])[0]["note"] == "not run"


def test_the_table_with_a_known_noise():
    split = estimators.load("five_of_200", 1)
    assert split.x.shape == (1000, 200) and split.test_x.shape == (2000, 200)
    mask = np.arange(200) < 10
    answer = estimators.Answer(split.test_y, np.stack([split.test_y] * 2, axis=1), mask, noise=50.0)
    known = {"error": 0.0, "coverage": 100.0, "noise": 0.5, "selected": 10, "false": 50.0, "power": 100.0}
    known |= {f"coverage_{number}": 100.0 for number in (1, 2, 3)}
    assert estimators.score(split, answer) == known


def test_scores_of_answers_worked_out_by_hand():
    y = np.array([0.0, 1.0, 2.0, 3.0])
    split = estimators.Split(np.zeros((1, 1)), y, np.zeros((4, 1)), y, labels=False)
    interval = np.stack([y - 1.0, y + np.array([1.0, 1.0, -0.5, 1.0])], axis=1)
    answer = estimators.Answer(y + 2.0, interval, np.array([True]), std=np.full(4, 2.0))
    found = estimators.score(split, answer)
    assert found["error"] == 2.0 and found["coverage"] == 75.0 and found["selected"] == 1
    assert [found[f"coverage_{number}"] for number in (1, 2, 3)] == [100.0, 0.0, 100.0]  # rows 0 and 1, 2, 3
    # in units of the training targets' spread: a unit of error in each, and the scale's logarithm
    assert found["nll"] == pytest.approx(0.5 + np.log(2.0 / y.std()) + 0.5 * np.log(2 * np.pi))
    split = estimators.Split(np.zeros((1, 1)), y, np.zeros((2, 1)), np.array([0, 1]), labels=True)
    found = estimators.score(split, estimators.Answer(np.array([[0.5, 0.5], [0.75, 0.25]])))
    assert found["error"] == 50.0 and found["nll"] == pytest.approx(-np.log(0.5 * 0.25) / 2)


def test_splits_hold_every_row_once():
    split = estimators.load("diabetes", 3)
    assert len(split.x) + len(split.test_x) == 442 and len(split.x) == 397
    assert len(np.unique(np.concatenate([split.x, split.test_x]), axis=0)) == 442


@pytest.mark.slow
@pytest.mark.parametrize("name", tables.SIMULATED)
def test_a_simulation_knows_what_matters(name):
    split, again = tables.load(name, 1), tables.load(name, 1)
    assert np.array_equal(split.x, again.x) and not np.array_equal(split.x, tables.load(name, 2).x)
    assert len(split.test_x) == tables.TEST_ROWS and split.relevant.shape == (split.x.shape[1],)
    assert split.relevant.any() != name.startswith("null")


def test_few_rows_hold_every_class():
    for number in range(3):
        split = tables.load("breast_cancer_30", number)
        assert len(split.x) == 30 and np.bincount(split.y).min() >= 2


def test_the_difference_to_a_rival_is_paired():
    def one(method, number, nll):
        return {"set": "a", "split": number, "method": method, "rows": 9, "inputs": 2, "error": 1.0, "nll": nll}

    own = {number: one("spike_slab", number, float(number)) for number in range(3)}
    worst = estimators.summary([own[number] | {"moved": 0.1 * number} for number in range(3)])
    assert worst["moved"] == 0.2 and "moved_se" not in worst
    row = estimators.summary([one("lasso", number, number + 0.5) for number in range(3)], own)
    assert row["nll_behind"] == 0.5 and row["nll_behind_se"] == 0.0


def test_there_are_over_a_hundred_networks_with_names_of_their_own():
    found = networks.networks()
    assert len({(one.package, one.name) for one in found}) == len(found) >= 100
    assert {one.package for one in found} == set(networks.PACKAGES)


@pytest.mark.slow
def test_rows_of_conversions(printed):
    names = "squeeze-and-excite", "dict of answers", "weight norm", "Bilinear"
    rows = {row["network"]: row for row in printed(conversions, "--networks", *names)}
    for row in rows.values():
        for column in conversions.COLUMNS:
            assert row[column] == "yes" or (row[f"{column}_note"] and row[f"{column}_reason"])
    gated = rows["squeeze-and-excite"]
    assert [gated[column] for column in conversions.COLUMNS] == ["yes"] * 5
    assert gated["left"] < 60 and gated["off"] == 8 and gated["stay"] == 0 and 90 < gated["share"] < 100
    assert rows["dict of answers"]["compressed"] == "yes"
    assert rows["weight norm"]["compressed_reason"] == "a weight is computed, by a hook or parametrization"
    assert rows["Bilinear"]["compressed_reason"].startswith("no place for noise")


def test_a_run_of_conversions_goes_on_where_one_stopped(monkeypatch, tmp_path):
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
