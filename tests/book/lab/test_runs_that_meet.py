"""Runs that are interrupted, and two of one result at a time: nothing that is known is lost."""

import errno
import threading

import pytest

from bnnlib._files import StoreError
from book import lab
from book.lab import load_result, plan, runner
from book.lab import store as files
from tests.patience import wait_for


def test_an_interrupted_run_of_known_cells_keeps_them_and_goes_on_where_it_stopped(tiny, interrupting, capsys):
    before = lab.run("tiny-good")
    interrupting()
    with pytest.raises(KeyboardInterrupt):
        lab.run("tiny-good", again=True)
    assert "interrupted: 1 of 4 cells" in capsys.readouterr().err
    half = load_result("tiny-good", "smoke")
    assert half["rows"] == before["rows"] and half["provenance"]["cells"] == {"total": 4, "done": 4, "failed": 0}
    lab.run("tiny-good")
    assert tiny.started() == {"a": 2, "b": 1, "c": 1, "d": 1}, "what is known stays known without --again"
    lab.run("tiny-good", again=True)
    assert tiny.started() == dict.fromkeys("abcd", 2)
    lab.run("tiny-good", again=True)
    assert tiny.started() == dict.fromkeys("abcd", 3), "a finished run of known cells leaves nothing to go on with"


def _another_run_at(monkeypatch, place: str, **options):
    """Let another run of cell b begin and end where a run calls this function for the first time."""
    called = getattr(runner, place)

    def other_run_first(*given):
        monkeypatch.setattr(runner, place, called)
        lab.run("tiny-good", only="b SVBNN", **options)
        return called(*given)

    monkeypatch.setattr(runner, place, other_run_first)


@pytest.mark.parametrize("place", ["say", "_progress"])  # after what is known was read, and before the first cell
def test_what_another_run_has_written_meanwhile_is_not_written_over(tiny, monkeypatch, place):
    lab.run("tiny-good")
    _another_run_at(monkeypatch, place, again=True)
    first = {one["cell"]["setting"]: one["seconds"] for one in load_result("tiny-good", "smoke")["cells"]}
    last = {one["cell"]["setting"]: one["seconds"] for one in lab.run("tiny-good", only="d", again=True)["cells"]}
    assert [setting for setting in "abcd" if first[setting] != last[setting]] == ["b", "d"]
    assert load_result("tiny-good", "smoke")["provenance"]["cells"]["done"] == 4


def test_another_choice_or_other_code_begins_known_cells_anew(tiny, interrupting, monkeypatch):
    lab.run("tiny-good")
    interrupting()
    with pytest.raises(KeyboardInterrupt):
        lab.run("tiny-good", again=True)
    lab.run("tiny-good", only="a", again=True)
    assert tiny.started() == {"a": 3, "b": 1, "c": 1, "d": 1}
    monkeypatch.setattr(plan, "code_of", lambda experiment, cell: "0" * 16)
    lab.run("tiny-good", again=True)
    assert tiny.started() == {"a": 4, "b": 2, "c": 2, "d": 2}


def test_cells_that_another_run_finishes_meanwhile_are_merged_too(tiny, monkeypatch):
    _another_run_at(monkeypatch, "_progress")
    merged = lab.run("tiny-good", only="d")
    assert [row["setting"] for row in merged["rows"]] == ["b", "b", "d", "d"]


def test_a_result_is_written_by_one_at_a_time(tiny):
    lab.run("tiny-good", only="a")
    with files.locked("tiny-good", "smoke"):
        run = threading.Thread(target=lab.run, args=("tiny-good",), kwargs={"only": "b"})
        run.start()
        wait_for(lambda: tiny.started()["b"] == 1)
        run.join(0.3)
        assert run.is_alive() and len(load_result("tiny-good", "smoke")["cells"]) == 1
    run.join()
    assert len(load_result("tiny-good", "smoke")["cells"]) == 2


def test_a_lock_that_cannot_be_made_is_a_sentence(tiny, monkeypatch):
    def refused(path):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(files, "FileLock", refused)
    with pytest.raises(StoreError, match="cannot be locked"):
        lab.run("tiny-good")
