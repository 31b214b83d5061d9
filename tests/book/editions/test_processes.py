"""What a build says of the chapters that run and wait, and a process that dies alone; no kernel is started."""

import os
import time
from pathlib import Path

import pytest

from book.editions import execute as module
from book.editions.project import Project


def _held(root: str, name: str, profile: str, threads: int) -> dict:
    """In place of a chapter: one that dies, or ends when the test has heard of it."""
    if name == "dies":
        os._exit(1)
    while not (Path(root) / "heard").exists():
        time.sleep(0.02)
    return {"seconds": 0.0, "failure": {"what": "as planned", "source": None, "traceback": "", "stopped": True}}


def _execute(folder: Path, monkeypatch, names: list[str], say) -> dict[str, str]:
    monkeypatch.setattr(module, "_run", _held)
    outcomes = module.execute(Project(folder), names, "smoke", 1, lambda outcome: None, say, every=0.05)
    return {outcome.name: outcome.error for outcome in outcomes}


@pytest.mark.slow
def test_only_what_runs_is_starting(tmp_path, monkeypatch):
    said = []

    def say(text: str) -> None:
        said.append(text)
        (tmp_path / "heard").touch()

    _execute(tmp_path, monkeypatch, ["one", "two", "three"], say)
    assert said[0].endswith(" s: one starting, 2 waiting")
    failed = [line.split(" failed")[0] for line in said if "failed" in line]
    assert failed == ["  [1/3] one", "  [2/3] two", "  [3/3] three"]


def test_a_process_that_dies_takes_no_other_with_it(tmp_path, monkeypatch):
    (tmp_path / "heard").touch()
    errors = _execute(tmp_path, monkeypatch, ["dies", "lives"], lambda text: None)
    assert "its process was killed" in errors["dies"] and "as planned" in errors["lives"]
