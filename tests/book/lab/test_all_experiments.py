"""All cells with one command: their order, estimates, data that are missing, the budget, and what a kill costs."""

import contextlib
import signal
import time
from dataclasses import replace

import pytest

from bnnlib import datasets
from book import lab
from book.lab import all_experiments, catalog
from book.lab.all_experiments import run_all
from book.lab.plan import Plan, minutes
from tests.patience import wait_for


def _choose(monkeypatch, *names: str) -> None:
    table = catalog.table
    monkeypatch.setattr(catalog, "table", lambda: {name: one for name, one in table().items() if name in names})


def test_the_most_valuable_comes_first_and_a_shared_need_once(tiny, monkeypatch):
    _choose(monkeypatch, "tiny-elsewhere", "tiny-good", "tiny-long", "tiny-needs")
    rows = run_all("smoke", dry_run=True)
    assert [(row["experiment"], row["cell"]) for row in rows[:4]] == [
        ("tiny-needs", "network SVBNN [0]"),
        ("tiny-elsewhere", "first VBNN [0]"),
        ("tiny-elsewhere", "second VBNN [0]"),
        ("tiny-good", "a SVBNN [0-1]"),
    ]
    assert len({(row["experiment"], row["cell"]) for row in rows}) == len(rows) == 12
    assert {row["state"] for row in rows} == {"to do"} and not tiny.started()


def test_estimates_are_learned_from_what_ran_and_unknown_before(tiny, monkeypatch, capsys):
    _choose(monkeypatch, "tiny-good")
    assert [row["minutes"] for row in run_all("smoke", dry_run=True)] == [None] * 4
    assert "4 cells to do, about 0 minutes and 4 of unknown length" in capsys.readouterr().err
    result = lab.run("tiny-good", only="a")
    rows = run_all("smoke", dry_run=True)
    seconds = result["cells"][0]["seconds"]
    assert [row["minutes"] for row in rows] == pytest.approx([seconds / 60] * 3)
    err = capsys.readouterr().err
    assert f"{seconds / 60:5.1f} min  tiny-good: b SVBNN [0-1]" in err and "unknown" not in err.split("[1/1]")[1]


def test_another_profile_tells_by_the_ratio_of_budgets(tiny):
    plan = Plan("tiny-good", "book", "cpu")
    plan.experiment = replace(plan.experiment, budget=lambda cell: (cell.params.get("epochs", 10.0), "epochs"))
    about = {"setting": "a", "method": "SVBNN", "replicates": [0, 1], "params": {"epochs": 2.0}}
    done = {"x": {"cell": about, "seconds": 8.0}, "y": {"cell": about | {"params": {"epochs": 0}}, "seconds": 1.0}}
    assert minutes(plan, plan.tasks[0], {"smoke": done}) == pytest.approx(2.0 * 3 * 10 / 60)
    done["x"]["device"] = "NVIDIA H100"  # which says nothing of a processor
    assert minutes(plan, plan.tasks[0], {"smoke": done}) is None


def test_a_cell_without_its_data_is_listed_and_left_out(tiny, monkeypatch, capsys):
    _choose(monkeypatch, "tiny-data", "tiny-good")
    asked = []

    def offline(name):
        asked.append(name)
        raise OSError("no network")

    monkeypatch.setattr(datasets, "available", lambda name: False)
    monkeypatch.setattr(datasets, "fetch", offline)
    rows = run_all("smoke", dry_run=True)
    assert {row["experiment"]: row["state"] for row in rows} == {"tiny-data": "no data", "tiny-good": "to do"}
    assert not asked  # a dry run fetches nothing
    rows = run_all("smoke")
    assert {row["experiment"]: row["state"] for row in rows} == {"tiny-data": "no data", "tiny-good": "done"}
    assert asked == ["small-set"] and "could not be fetched: no network" in capsys.readouterr().err
    assert len(tiny.started()) == 4 and not (tiny.home / "results" / "tiny-data.smoke.json").exists()


def test_data_that_can_be_had_are_fetched_once_and_known_to_the_cell(tiny, monkeypatch):
    _choose(monkeypatch, "tiny-data")
    calls = []
    monkeypatch.setattr(datasets, "available", lambda name: bool(calls))
    monkeypatch.setattr(datasets, "fetch", calls.append)
    monkeypatch.setattr(datasets, "fingerprint", lambda name: f"sha256 of {name}")
    assert [row["state"] for row in run_all("smoke")] == ["done"] and calls == ["small-set"]
    assert lab.load_result("tiny-data", "smoke")["cells"][0]["data"] == {"small-set": "sha256 of small-set"}
    assert run_all("smoke") == []


@pytest.mark.parametrize("name", ["tiny-data", "tiny-long"])
def test_a_budget_that_is_spent_at_the_start_fetches_nothing_and_leaves_everything_to_do(
    tiny, monkeypatch, capsys, name
):
    _choose(monkeypatch, name)
    monkeypatch.setattr(datasets, "available", lambda name: False)
    monkeypatch.setattr(datasets, "fetch", lambda name: pytest.fail("it is too late"))
    handler = signal.getsignal(signal.SIGALRM)
    assert {row["state"] for row in run_all("smoke", budget=1e-9)} == {"to do"}
    assert "The same command goes on" in capsys.readouterr().err
    assert not tiny.started() and signal.getsignal(signal.SIGALRM) == handler


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="a system without alarms")
def test_a_budget_ends_a_fetch_too(tiny, monkeypatch):
    _choose(monkeypatch, "tiny-data")
    monkeypatch.setattr(datasets, "available", lambda name: False)
    monkeypatch.setattr(datasets, "fetch", lambda name: wait_for(lambda: False))
    assert [row["state"] for row in run_all("smoke", budget=0.2)] == ["to do"]


def test_the_command_that_goes_on_has_all_options(tiny, monkeypatch, capsys):
    _choose(monkeypatch, "tiny-long")
    run_all("smoke", budget=0.001, device="cpu", jobs=2, threads=3)
    command = "python -m book run --all --profile smoke --device cpu --jobs 2 --threads 3 --budget 0.001s"
    assert command in capsys.readouterr().err


def test_a_failed_cell_does_not_stop_the_others(tiny, monkeypatch):
    _choose(monkeypatch, "tiny-failing", "tiny-good")
    rows = run_all("smoke")
    states = {row["cell"].split()[0]: row["state"] for row in rows}
    assert states == {"fine": "done", "raises": "failed", "returns": "done"} | dict.fromkeys("abcd", "done")


def test_a_damaged_result_is_named_and_the_others_run(tiny, monkeypatch, capsys):
    _choose(monkeypatch, "tiny-arrays", "tiny-good")
    lab.run("tiny-good", only="a")
    path = tiny.home / "results" / "tiny-good.smoke.json"
    path.write_text(path.read_text()[:-40])
    rows = run_all("smoke")
    assert [row["state"] for row in rows if row["experiment"] == "tiny-good"] == ["damaged"]
    assert {row["state"] for row in rows if row["experiment"] == "tiny-arrays"} == {"done"}
    assert "tiny-good.smoke.json is not a readable result" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_alarm_that_nobody_heard_rings_again(monkeypatch, capsys):
    monkeypatch.setattr(all_experiments, "_AGAIN", 0.05)

    class Deaf:  # Python drops what a signal's handler raises in here
        def __del__(self):
            opened.enter_context(all_experiments._deadline(0.5, time.monotonic()))
            wait_for(lambda: False)

    with pytest.raises(KeyboardInterrupt), contextlib.ExitStack() as opened:
        Deaf()
        wait_for(lambda: False)
    assert capsys.readouterr().err.count("the budget of 0.5s is spent") == 2


def test_equal_cells_of_two_experiments_are_two_cells(tiny, monkeypatch):
    """Setting, method, replicates and parameters are the same, the functions are not."""
    _choose(monkeypatch, "tiny-arrays", "tiny-good")
    rows = run_all("smoke")
    assert len(rows) == 6 and tiny.started() == {"a": 2, "b": 2, "c": 1, "d": 1}
    values = {name: lab.load_result(name, "smoke")["rows"][0]["value"] for name in ("tiny-arrays", "tiny-good")}
    assert values["tiny-arrays"] == 1.0 != values["tiny-good"]
