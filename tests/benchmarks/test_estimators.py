"""The benchmark of estimators: its rows, and that every method answers in the form that is scored."""

import json

import numpy as np
import pytest

from benchmarks import estimators

FIELDS = {"set", "method", "splits", "rows", "inputs", "error", "error_se", "fit_s", "cpu_s"}
OWN = {"selected", "selected_se", "noise", "noise_se"}


@pytest.mark.slow
def test_rows(capsys, monkeypatch):
    monkeypatch.setattr(estimators, "QUICK", {"hidden": (2,), "epochs": 2})
    monkeypatch.setattr(estimators, "FOREST", 20)
    monkeypatch.setattr(estimators, "PEER_EPOCHS", 2)
    names = ["spike_slab", "lasso", "random forest", "Laplace"]
    estimators.main(["--json", "--sets", "diabetes", "breast_cancer", "--splits", "2", "--methods", *names])
    rows = json.loads(capsys.readouterr().out)
    assert [(row["set"], row["method"]) for row in rows] == [
        (s, m) for s in ("diabetes", "breast_cancer") for m in names
    ]
    for row in rows:
        if row.get("note") == "not installed":
            assert row["method"] == "Laplace"
            continue
        judged = "coverage" if row["set"] == "diabetes" else "nll"
        assert set(row) - OWN == FIELDS | {judged, f"{judged}_se"}
        assert ("noise" in row) == (row["set"] == "diabetes" and row["method"] != "random forest")
        assert ("selected" in row) == (row["method"] in ("spike_slab", "lasso"))
        assert row["fit_s"] > 0 and row["error"] >= 0 and row["splits"] == 2


def test_a_run_goes_on_where_one_stopped(monkeypatch, tmp_path):
    seen = []

    def measured(name, number, method):
        seen.append((name, number, method))
        about = {"set": name, "split": number, "method": method, "rows": 9, "inputs": 2}
        return about | {"error": 1.0 + 2 * number, "nll": 0.5, "fit_s": 0.5, "cpu_s": 0.25}

    monkeypatch.setattr(estimators, "measure", measured)
    run = ["--sets", "diabetes", "wine", "--methods", "lasso", "--keep", str(tmp_path / "kept.jsonl")]
    assert [row["splits"] for row in estimators.main([*run, "--splits", "1"])] == [1, 1]
    with (tmp_path / "kept.jsonl").open("a") as file:
        file.write('{"set": "wine", "spl')  # killed in the middle of a line
    rows = estimators.main([*run, "--splits", "2"])
    assert seen == [(name, number, "lasso") for number in (0, 1) for name in ("diabetes", "wine")]
    assert [(row["error"], row["error_se"], row["splits"]) for row in rows] == [(2.0, 1.0, 2)] * 2
    assert estimators.main([*run, "--splits", "3", "--minutes", "0"]) == rows and len(seen) == 4
    assert estimators.main(["--sets", "wine", "--methods", "lasso", "--minutes", "0"])[0]["note"] == "not run"


def test_the_table_with_a_known_noise():
    split = estimators.load("five_of_200", 1)
    assert split.x.shape == (1000, 200) and split.test_x.shape == (2000, 200)
    answer = estimators.Answer(split.test_y, np.stack([split.test_y] * 2, axis=1), noise=50.0)
    assert estimators.score(split, answer) == {"error": 0.0, "coverage": 100.0, "noise": 0.5}


def test_scores_of_answers_worked_out_by_hand():
    y = np.array([0.0, 1.0, 2.0, 3.0])
    split = estimators.Split(np.zeros((1, 1)), y, np.zeros((4, 1)), y, labels=False)
    answer = estimators.Answer(y + 2.0, np.stack([y - 1.0, y + np.array([1.0, 1.0, -0.5, 1.0])], axis=1), 3)
    assert estimators.score(split, answer) == {"error": 2.0, "coverage": 75.0, "selected": 3}
    split = estimators.Split(np.zeros((1, 1)), y, np.zeros((2, 1)), np.array([0, 1]), labels=True)
    found = estimators.score(split, estimators.Answer(np.array([[0.5, 0.5], [0.75, 0.25]])))
    assert found["error"] == 50.0 and found["nll"] == pytest.approx(-np.log(0.5 * 0.25) / 2)


def test_splits_hold_every_row_once():
    split = estimators.load("diabetes", 3)
    assert len(split.x) + len(split.test_x) == 442 and len(split.test_x) == 44
    assert len(np.unique(np.concatenate([split.x, split.test_x]), axis=0)) == 442
