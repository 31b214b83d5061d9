"""The rule of judgment, and a method from outside that is entered."""

import json
import re
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from bnnlib.contest import METHODS, Method, Predictor
from book.lab import catalog
from chapters.side_by_side import enter, kept, standing
from chapters.side_by_side.standing import judge, table

SWAG = Path(enter.__file__).parent / "examples" / "swag.py"


def test_a_difference_is_decided_against_all_of_its_question():
    gaps = {"clear": [-1.0, -1.1, -0.9, -1.05], "weak": [-1.0, -0.1, -0.5, -1.4], "none": [0.5, -0.5, 0.3, -0.4]}
    found = judge(gaps, 1.0, 0.0)
    assert (found["clear"]["verdict"], found["none"]["verdict"]) == ("better", "undecided")
    # t = -2.66 of 3 degrees of freedom has p = .076: with all or alone, it decides nothing
    assert found["weak"]["verdict"] == "undecided"
    assert judge(gaps, -1.0, 0.0)["clear"]["verdict"] == "worse"


def test_splits_of_one_table_decide_less_than_data_sets_of_their_own():
    # t = 3.5 of 9 degrees of freedom; with nine training rows to a test row it falls to 3.5 / sqrt(1 + 10 / 9) = 2.41
    base = [1.0 + 0.9035 * z for z in (-1.5, -1.0, -0.66, -0.38, -0.12, 0.12, 0.38, 0.66, 1.0, 1.5)]
    alone, shared = (judge({"a": base, "b": [0.0, 1.0] * 5}, 1.0, 0.0, one)["a"] for one in (0.0, 1 / 9))
    assert (alone["verdict"], shared["verdict"]) == ("worse", "undecided")
    # the same mean; the interval is wider by sqrt(1 + 10 / 9), exactly but for rounding
    wider = (shared["high"] - shared["low"]) / (alone["high"] - alone["low"])
    assert wider == pytest.approx((1 + 10 / 9) ** 0.5, rel=1e-9)


def test_tables_are_judged_as_splits_that_share_rows():
    assert catalog.get("side-boston").overlap == pytest.approx(1 / 9, rel=1e-12)
    assert catalog.get("side-correlated").overlap == 0.0


def test_ties_lie_within_the_region_as_a_whole_and_few_seeds_decide_nothing():
    found = judge({"equal": [0.01, -0.01, 0.005], "wide": [0.5, -0.5, 0.0], "few": [-3.0, -3.1]}, 1.0, 0.1)
    assert [found[name]["verdict"] for name in ("equal", "wide", "few")] == ["tie", "undecided", "undecided"]
    # beyond chance, but too small to matter
    assert judge({"small": [0.050, 0.051, 0.049, 0.050]}, 1.0, 0.1)["small"]["verdict"] == "tie"


def test_by_the_other_rule_a_method_takes_the_place_of_itself(monkeypatch):
    """Errors of ten seeds: all methods have those of the one network but for a known gap by each rule."""
    gap = {("gaussian", kept.OTHER): -3.0, ("gaussian", "tuned"): 2.0, ("deterministic", kept.OTHER): 5.0}
    hard = np.linspace(10.0, 20.0, 10)

    def values(task, budget, method, metric, kind="tuned"):
        return hard + gap.get((method, kind), 0.0) + 0.01 * np.sin(np.arange(10) + len(method))

    monkeypatch.setattr(kept, "values", values)
    itself, beside = kept.effects("sparse-teacher"), kept.beside("sparse-teacher")
    assert itself["gaussian"]["difference"] == pytest.approx(-5.0) and itself["gaussian"]["verdict"] == "better"
    assert itself["deterministic"]["verdict"] == "worse" and "dropout" not in itself
    assert beside["gaussian"]["verdict"] == "better" and "deterministic" not in beside
    assert beside["gaussian"]["difference"] == pytest.approx(-3.0, abs=0.01)  # the sines differ by less
    assert {row["verdict"] for one, row in beside.items() if one != "gaussian"} == {"tie"}
    monkeypatch.setattr(kept, "values", lambda *about: values(*about)[: 0 if kept.OTHER in about else 10])
    assert kept.effects("sparse-teacher") == kept.beside("sparse-teacher") == {}


@pytest.mark.slow
def test_an_own_method_is_entered_on_equal_terms(tmp_path, capsys, monkeypatch):
    assert len([line for line in SWAG.read_text().splitlines() if line.strip()]) <= 30
    monkeypatch.setattr("chapters.side_by_side.costs.ROUNDS", 1)
    own = shutil.copy(SWAG, tmp_path / "own.py")
    enter.main([str(own), "--task", "sparse-teacher", "--seeds", "2", "--trials", "2", "--tables"])
    rows = json.loads((tmp_path / "own.sparse-teacher.B1.json").read_text())
    assert {row["method"] for row in rows} == {"swag"} and "swag" not in METHODS
    numbers = [row["value"] for row in rows if row["metric"] == "rmse" and row["setting"].endswith("tuned")]
    assert all(row["value"] == 0.0 for row in rows if row["metric"] == "diverged") and len(numbers) == 2
    said = capsys.readouterr().out
    steps = enter.cell_of("sparse-teacher", 1).params["steps"]
    assert f"steps, of the deterministic network {steps}" in said and "2 trials, then 2 seeds" in said
    gap = np.mean(numbers - standing.values("sparse-teacher", 1, "ensemble", "rmse")[:2])
    assert f"| ensemble        | {gap:+.3f}" in said  # paired by seed
    assert re.search(r"^\| swag +\|", said, re.MULTILINE) and "own.sparse-teacher.B1.json" in said


def test_an_own_method_is_judged_with_all_others():
    base = standing.values("sparse-teacher", 1, "ensemble", "rmse")
    alone = {row["method"]: row for row in standing.standing("sparse-teacher", 1, "rmse")}
    rows = standing.standing("sparse-teacher", 1, "rmse", entered={"own": list(base - 1.0), "few": [9.0, 9.0]})
    found = {row["method"]: row for row in rows}
    assert set(found) == set(alone) | {"own", "few"} and rows[0]["method"] == "own"
    assert (found["own"]["verdict"], found["few"]["verdict"]) == ("better", "undecided")
    assert found["own"]["difference"] == pytest.approx(-1.0, rel=1e-12) and found["few"]["n"] == 2
    assert found["lasso"]["mean"] == alone["lasso"]["mean"]


def test_an_own_method_takes_the_cells_of_the_stored_ones():
    for task in ("boston", "simulation-2", "MNIST"):
        cell = enter.cell_of(task, 1)
        assert len(cell.replicates) == enter.TASKS[task].seeds and cell.params["trials"] == 8
    assert enter.cell_of("boston", 1).params["data"] == "boston" and enter.cell_of("simulation-2", 16).needs
    with pytest.raises(ValueError, match="boston is compared at the budgets 1, 4, not at 16"):
        enter.cell_of("boston", 16)


def test_what_cannot_be_compared_is_said_before_minutes_are_spent():
    place, cell = enter.TASKS["sparse-teacher"], enter.cell_of("sparse-teacher", 1)

    def of(draws):
        return Method("own", lambda network, problem, steps, seed: Predictor(network, problem, draws))

    with pytest.raises(ValueError, match=r"returns a NoneType, but it must return a bnnlib\.contest\.Predictor"):
        enter.check(Method("own", lambda network, problem, steps, seed: None), place, cell)
    with pytest.raises(ValueError, match=r"shape \(5, 1\), but of 5 rows they must be \(S, 5, 1\)"):
        enter.check(of(lambda model, x, num_samples, generator: model(x)), place, cell)
    with pytest.raises(ValueError, match="other outputs for the same generator"):
        enter.check(of(lambda model, x, num_samples, generator: torch.randn(num_samples, len(x), 1)), place, cell)
    enter.check(of(lambda model, x, num_samples, generator: model(x)[None]), place, cell)


def test_a_method_from_a_package_of_its_own_is_entered():
    pytest.importorskip("ivon", reason="pip install ivon-opt")
    method = runpy.run_path(str(SWAG.with_name("ivon_optimizer.py")))["METHOD"]
    place, cell = enter.TASKS["sparse-teacher"], enter.cell_of("sparse-teacher", 1)
    enter.check(method, place, cell)
    problem = place.load(0, "cpu", cell.params)["problem"]
    one, other = (method.fit(place.network(0), problem, 40, seed) for seed in (0, 0))
    assert torch.equal(one.predict(problem.x_validation, 3), other.predict(problem.x_validation, 3))
    assert one.predict(problem.x_validation, 3).std(dim=0).min() > 0.0
    assert torch.equal(one.shipped(problem.x_validation), one.shipped(problem.x_validation))


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        ("METHOD = 3\n", (), "METHOD"),
        (None, (), "there is no file"),
        ("METHOD = 3\n", ("--seeds", "0"), "--seeds is 0, but it must be at least 1"),
        ("from bnnlib.contest import METHODS\nMETHOD = METHODS['dropout']\n", (), "give yours another name"),
    ],
)
def test_a_file_that_cannot_be_entered_is_refused(text, more, said, tmp_path, capsys):
    if text:
        (tmp_path / "own.py").write_text(text)
    with pytest.raises(SystemExit):
        enter.main([str(tmp_path / "own.py"), *more])
    assert said in capsys.readouterr().err


def test_a_question_without_results_says_what_to_run(capsys, monkeypatch):
    monkeypatch.setattr(standing, "values", lambda *_: np.array([]))
    standing.main(["simulation-2", "--metric", "rmse"])
    assert "run side-simulation-2" in capsys.readouterr().out
    row = {"method": "one", "mean": 1.0, "se": 0.1, "difference": 0.0, "low": -0.1, "high": 0.1, "verdict": "tie"}
    cells = [cell.strip() for cell in table([row]).splitlines()[-1].strip("|").split("|")]
    assert cells == ["one", "1.000", "0.100", "+0.000", "-0.100 to +0.100", "tie"]


def test_no_discoveries_are_no_merit(monkeypatch):
    stored = {
        ("fdr", "gradual_pruning"): [50.0, 60.0, 55.0],
        ("fdr", "gaussian"): [0.0, 0.0, 0.0],
        ("fnr", "gaussian"): [100.0, 100.0, 80.0],
        ("fdr", "spike_slab"): [10.0, 11.0, 9.0],
        ("fnr", "spike_slab"): [0.0, 20.0, 0.0],
    }

    def values(task, budget, method, metric, kind):
        return np.array(stored.get((metric, method), ()))

    monkeypatch.setattr(standing, "values", values)
    rows = {row["method"]: row["verdict"] for row in standing.standing("simulation-2", 1, "fdr")}
    assert rows == {"gaussian": "finds nothing", "spike_slab": "better", "gradual_pruning": "reference"}


def test_a_target_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(enter, "entered", lambda *_: pytest.fail("it is too late then"))
    with pytest.raises(SystemExit, match="2"):
        enter.main([str(SWAG), "--task", "sparse-teacher", "--out", str(tmp_path / "no" / "rows.json")])
    assert "rows.json cannot be written" in capsys.readouterr().err


def test_an_interrupted_contest_keeps_nothing_and_says_so(tmp_path, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(enter, "entered", interrupted)
    out = tmp_path / "rows.json"
    assert enter.main([str(SWAG), "--task", "sparse-teacher", "--out", str(out)]) == 130
    assert "nothing of it is kept" in capsys.readouterr().err and not out.exists()
