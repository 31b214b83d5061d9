"""The library's command line: data sets."""

from __future__ import annotations

import pytest

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
