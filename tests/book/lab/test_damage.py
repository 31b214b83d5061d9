"""Files that something else has damaged: clear words or another computation, never silence."""

import json
import warnings

import pytest

from book import lab
from book.__main__ import main
from book.lab import store
from book.lab.plan import Plan
from book.lab.store import read_entry


def _result(tiny, name: str):
    return tiny.home / "results" / f"{name}.smoke.json"


def _truncate(path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


@pytest.mark.parametrize("how", ["truncated", "a row less", "a cell less"])
def test_a_damaged_result_is_named_by_every_command(tiny, monkeypatch, capsys, how):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    lab.run("tiny-good")
    path = _result(tiny, "tiny-good")
    if how == "truncated":
        _truncate(path)
    else:
        result = json.loads(path.read_text())
        result["rows" if how == "a row less" else "cells"].pop()
        path.write_text(json.dumps(result))
    verify = ["verify", "tiny-good", "--profile", "smoke"]
    for command in (["list"], ["table", "tiny-good"], ["run", "tiny-good"], verify):
        capsys.readouterr()
        assert main(command) == 1, command
        out, err = capsys.readouterr()
        assert "tiny-good.smoke.json is not a readable result" in err and "Remove it and run" in err
        assert "not run" not in out
        if command == ["list"]:
            assert "smoke damaged, book -" in out
    with pytest.raises(lab.StoreError, match="not a readable result"):
        lab.stored_values("tiny-good", "a", "SVBNN", "rmse_test")


def test_version_control_is_asked_for_the_damaged_file_alone(tiny, root):
    told = store._restore(root / "data" / "results" / "tiny-good.book.json")
    here = "Restore it with `git checkout -- data/results/tiny-good.book.json`, or remove"
    assert told == (here if (root / ".git").exists() else "Remove")
    assert store._restore(tiny.home / "results" / "tiny-good.book.json") == "Remove"


DAMAGES = {
    "truncated": _truncate,
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "a list": lambda path: path.write_text("[]"),
    "parts missing": lambda path: path.write_text('{"rows": []}'),
    "not text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize(("name", "ending"), [("tiny-good", "json"), ("tiny-arrays", "npz")])
def test_a_damaged_entry_of_the_cache_is_computed_again(tiny, name, ending, how):
    lab.run(name)
    rows, once, task = tiny.rows_text(name), tiny.started(), Plan(name, "smoke", "cpu").tasks[1]
    folder = tiny.home / "cache" / "runs" / name
    DAMAGES[how](folder / f"{task.key}.{ending}")
    assert read_entry(folder, task.key) is None
    _result(tiny, name).unlink()
    lab.run(name)
    assert tiny.started() == once | {"b": 2} and tiny.rows_text(name) == rows
    assert len(lab.load_arrays(name, "smoke")) == (0 if ending == "json" else 2)


def test_damaged_arrays_beside_a_result_are_named(tiny):
    lab.run("tiny-arrays", only="a")
    _truncate(_result(tiny, "tiny-arrays").with_suffix(".npz"))
    with pytest.raises(
        lab.StoreError, match=r"tiny-arrays.smoke.npz cannot be read .*Remove it and tiny-arrays.smoke.json"
    ):
        lab.load_arrays("tiny-arrays", "smoke")
    with pytest.raises(lab.StoreError, match=r"tiny-arrays.smoke.npz cannot be read"):
        lab.run("tiny-arrays")
    assert len(json.loads(_result(tiny, "tiny-arrays").read_text())["cells"]) == 1


@pytest.mark.parametrize("clock", ["", "not a number"])
def test_an_unreadable_checkpoint_starts_the_cell_over_with_a_warning(tiny, clock):
    lab.run("tiny-long", only="a")
    rows = tiny.rows_text("tiny-long")
    task = Plan("tiny-long", "smoke", "cpu").tasks[0]
    folder = tiny.home / "cache" / "runs" / "tiny-long"
    for path in (folder / f"{task.key}.json", _result(tiny, "tiny-long")):
        path.unlink()
    (folder / f"{task.key}.checkpoint.pt").write_bytes(b"PK\x03\x04 no checkpoint")
    (folder / f"{task.key}.checkpoint.seconds").write_text(clock)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lab.run("tiny-long", only="a")
    assert "the work starts over" in str([one.message for one in caught])
    assert tiny.rows_text("tiny-long") == rows and tiny.started()["a:0"] == 2
    assert not list(folder.glob("*checkpoint*"))
