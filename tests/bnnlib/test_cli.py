"""The library's command line: data sets."""

from pathlib import Path

import pytest

import bnnlib
from bnnlib import datasets
from bnnlib.__main__ import main


def test_data_lists_and_fetches(monkeypatch, capsys):
    fetched = []
    monkeypatch.setattr(datasets, "available", lambda name: name == "digits")
    monkeypatch.setattr(datasets, "fetch", fetched.append)
    assert main(["data"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(datasets.names())
    assert sum(line.endswith(" here") for line in lines) == 1 and sum("not fetched" in line for line in lines) > 5
    assert main(["data", "mnist"]) == 0 and fetched == ["mnist"]

    def unreachable(name):
        raise OSError("no source of 'mnist' answers; check the network")

    monkeypatch.setattr(datasets, "fetch", unreachable)
    capsys.readouterr()
    assert main(["data", "mnist"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "no source of 'mnist' answers" in err


def test_wrong_usage_is_exit_code_2_and_says_what_is_allowed(capsys):
    assert main(["data", "mnits"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "Did you mean 'mnist'?" in err
    with pytest.raises(SystemExit) as stop:
        main(["run", "svbnn-mnist"])
    err = capsys.readouterr().err
    assert stop.value.code == 2 and "invalid choice: 'run'" in err and "from a checkout" in err


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0 and capsys.readouterr().out == f"bnnlib {bnnlib.__version__}\n"


def test_data_is_verified_and_damage_is_named(monkeypatch, capsys):
    def look(name):
        if name == "mnist":
            raise datasets.IntegrityError("mnist is damaged: the sha256 differs")
        return "0" * 64

    monkeypatch.setattr(datasets, "available", lambda name: name in ("digits", "mnist"))
    monkeypatch.setattr(datasets, "fingerprint", look)
    assert main(["data", "--verify", "digits"]) == 0 and "digits" in capsys.readouterr().out
    assert main(["data", "--verify"]) == 1
    out, err = capsys.readouterr()
    assert "verified" in out and "mnist is damaged" in err
    monkeypatch.undo()
    assert main(["data", "--verify", "digits", "mnits"]) == 2


def test_types_are_said_to_be_there():
    assert (Path(bnnlib.__file__).parent / "py.typed").is_file()
