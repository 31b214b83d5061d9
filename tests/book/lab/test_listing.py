"""The kept answer of `book list`: at once, and gone as soon as a file that it depends on is another one."""

import os
import subprocess
import sys

import pytest

from book.lab import listing

ROWS = [
    {
        "name": "avo-kept",
        "paper": "001",
        "summary": "nothing that any module holds",
        "profiles": ["smoke", "book"],
        "done": ["book"],
        "cells": {"smoke": {}, "book": {"total": 3, "done": 2, "failed": 1}},
        "words": {"smoke": "", "book": "certified"},
    }
]


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A small source tree, in which the rows are kept."""
    monkeypatch.setattr(listing, "_TREE", tmp_path)
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path / "data"))
    for name in ("bnnlib/nn/base.py", "book/lab/cells.py", "chapters/avo/card.toml", "data/results/avo-kept.book.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one")
    assert listing.kept() is None
    listing.keep(ROWS, listing.state())
    assert listing.kept() == ROWS
    return tmp_path


@pytest.mark.parametrize("name", ["bnnlib/nn/base.py", "book/lab/cells.py", "chapters/avo/card.toml"])
@pytest.mark.parametrize("how", ["another size", "another time", "removed"])
def test_a_touched_source_is_noticed(tree, name, how):
    if how == "another size":
        (tree / name).write_text("other")
    elif how == "another time":
        os.utime(tree / name, ns=(0, 0))
    else:
        (tree / name).unlink()
    assert listing.kept() is None


@pytest.mark.parametrize("name", ["chapters/avo/experiments/more.py", "data/results/avo-kept.paper.json"])
def test_a_new_source_and_a_new_result_are_noticed(tree, name):
    (tree / name).parent.mkdir(exist_ok=True)
    (tree / name).write_text("")
    assert listing.kept() is None


def test_a_stored_cell_and_another_place_of_data_are_noticed(tree, monkeypatch):
    (tree / "data/results/avo-kept.book.json").write_text("two cells")
    assert listing.kept() is None
    listing.keep(ROWS, listing.state())
    monkeypatch.setenv("BNNLIB_DATA", "elsewhere")
    assert listing.kept() is None


def test_a_change_while_the_rows_are_computed_is_noticed(tree):
    before = listing.state()
    (tree / "bnnlib/nn/base.py").write_text("other")
    listing.keep(ROWS, before)
    assert listing.kept() is None


def test_damage_is_as_if_nothing_was_kept(tree):
    (tree / "data/cache/list.json").write_text('{"state":')
    assert listing.kept() is None


def test_the_kept_answer_is_told_without_pytorch(root, tmp_path, monkeypatch):
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    listing.keep(ROWS, listing.state())
    code = "import sys; from book.__main__ import main; code = main(['list']); sys.exit(code or 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    header, row, summary, *_ = done.stdout.splitlines()
    assert header.startswith("Experiment") and row.split(None, 2) == ["avo-kept", "001", "smoke -, book 2/3 certified"]
    assert summary.strip() == ROWS[0]["summary"]
