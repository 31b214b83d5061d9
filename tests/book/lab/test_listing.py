"""The kept answer of `book list`: at once, and gone as soon as a file that it depends on is another one."""

import os
import subprocess
import sys

import pytest

from book.lab import listing

ROW = {"name": "avo-kept", "paper": "001", "summary": "nothing that any module holds", "profiles": ["smoke", "book"]}
ROW |= {"done": ["book"], "cells": {"smoke": {}, "book": {"total": 3, "done": 2, "failed": 1}}}
ROWS = [ROW | {"words": {"smoke": "", "book": "certified"}}]


def kept():
    return listing.read("list.json", listing.state())


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A small source tree, in which the rows are kept."""
    monkeypatch.setattr(listing, "TREE", tmp_path)
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path / "data"))
    for name in ("bnnlib/nn/base.py", "book/lab/cells.py", "chapters/avo/card.toml", "data/results/avo-kept.book.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one")
    assert kept() is None
    listing.keep("list.json", listing.state(), ROWS)
    assert kept() == ROWS
    return tmp_path


@pytest.mark.parametrize("name", ["bnnlib/nn/base.py", "chapters/avo/card.toml", "data/results/avo-kept.book.json"])
@pytest.mark.parametrize("touch", [lambda one: one.write_text("other"), lambda one: os.utime(one, (0, 0)), os.unlink])
def test_a_touched_file_is_noticed(tree, name, touch):
    touch(tree / name)
    assert kept() is None


@pytest.mark.parametrize("name", ["chapters/avo/experiments/more.py", "data/results/avo-kept.paper.json"])
def test_a_new_source_and_a_new_result_are_noticed(tree, name):
    (tree / name).parent.mkdir(exist_ok=True)
    (tree / name).write_text("")
    assert kept() is None


def test_another_place_of_data_is_noticed_and_damage_is_as_if_nothing_was_kept(tree, monkeypatch):
    with monkeypatch.context() as moved:
        moved.setenv("BNNLIB_DATA", "elsewhere")
        assert kept() is None
    (tree / "data/cache/list.json").write_text('{"state":')
    assert kept() is None


def test_the_kept_answer_is_told_without_pytorch(root, tmp_path, monkeypatch):
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    listing.keep("list.json", listing.state(), ROWS)
    code = "import sys; from book.__main__ import main; code = main(['list']); sys.exit(code or 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    header, row, summary, *_ = done.stdout.splitlines()
    assert header.startswith("Experiment") and row.split(None, 2) == ["avo-kept", "001", "smoke -, book 2/3 certified"]
    assert summary.strip() == ROW["summary"]
