"""The probes of another commit, in scratch repositories whose modules say what they were asked."""

from __future__ import annotations

import subprocess

import pytest

from book.lab import history
from book.lab.cells import ExperimentError
from book.lab.validity import State

_VALIDITY = """from collections import namedtuple
GOOD = ("certified",)
State = namedtuple("State", "method word")
def states(name, profile):
    return [State("VD", {word!r}), State("AGP", "moved")]
"""
_PROBES = """def rows_of(name, profile, method):
    return {{f"{{name}}/{{profile}}/{{method}}": [{number}]}}
"""


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """``scratch(number, word, result)`` commits a tree, ``scratch.git(...)`` asks git."""

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(number, word="certified", result=""):
        (lab / "validity.py").write_text(_VALIDITY.format(word=word))
        (lab / "probes.py").write_text(_PROBES.format(number=number))
        (results / "name.book.json").write_text(result)
        return commit_all()

    def commit_all():
        git("add", ".")
        git("commit", "-qm", "x")
        return git("rev-parse", "HEAD")

    lab, results = tmp_path / "book" / "lab", tmp_path / "data" / "results"
    for folder in (lab, results):
        folder.mkdir(parents=True)
    for folder in (lab, lab.parent):
        (folder / "__init__.py").touch()
    git("init", "-q")
    monkeypatch.setattr(history, "TREE", tmp_path)
    commit.git, commit.commit_all, commit.probes = git, commit_all, lab / "probes.py"
    return commit


def _result(*commits):
    certificates = [{"commit": one, "dirty": False, "since": {"VD": ["c0de"]}} for one in commits]
    cells = [{"code": "c0de", "cell": {"method": one}} for one in ("VD", "AGP")]
    return {"experiment": "name", "profile": "book", "cells": cells, "certificates": certificates}


def _kinds(method, *commits):
    """What is stored of a method's only probe."""
    return {f"name/book/{method}": {"commit": commits[0]} if commits else {}}


def _state(method):
    return State(method, "moved", before=["c0de"])


def test_the_probes_come_from_the_commit_s_own_tree(scratch):
    """Those of the last certificate's."""
    commits = [scratch(1, word="moved"), scratch(2)]  # what stands in the history is believed
    assert history.reference_rows(_result(commits[0]), _state("VD"), _kinds("VD")) == {"name/book/VD": [1]}
    assert history.reference_rows(_result(*commits), _state("VD"), _kinds("VD")) == {"name/book/VD": [2]}
    assert len(scratch.git("worktree", "list").splitlines()) == 1


def test_one_process_answers_for_all_methods(scratch, monkeypatch):
    commit = scratch(1)
    assert history.reference_rows(_result(commit), _state("VD"), _kinds("VD")) == {"name/book/VD": [1]}
    monkeypatch.setattr(history, "_tree_of", None)
    assert history.reference_rows(_result(commit), _state("AGP"), _kinds("AGP", commit)) == {"name/book/AGP": [1]}


def test_code_that_does_not_run_is_told(scratch):
    commit = scratch("no_such_name")
    with pytest.raises(ExperimentError, match=r"do not run at (?s:.*)no_such_name"):
        history.reference_rows(_result(commit), _state("VD"), _kinds("VD"))
    assert len(scratch.git("worktree", "list").splitlines()) == 1


def test_a_tree_that_does_not_even_load_is_told(scratch):
    commit = scratch("(")
    with pytest.raises(ExperimentError, match=r"do not run at (?s:.*)SyntaxError"):
        history.reference_rows(_result(commit), _state("VD"), _kinds("VD"))


def test_where_one_commit_does_not_run_here_an_earlier_one_is_asked(scratch):
    commits = [scratch(1), scratch("(")]
    assert history.reference_rows(_result(*commits), _state("VD"), _kinds("VD")) == {"name/book/VD": [1]}


def test_where_commits_were_squashed_the_one_that_brought_the_certificate_tells(scratch):
    lost = "0123456789" * 4
    scratch(1)
    scratch(2, result=f'"commit": "{lost}"')
    scratch(3, result=f'"commit": "{lost}", and more')
    assert history.reference_rows(_result(lost), _state("VD"), _kinds("VD")) == {"name/book/VD": [2]}


def test_a_commit_where_the_cells_are_not_good_cannot_tell(scratch):
    """Nor one that is nowhere; then an earlier certificate is asked."""
    lost = "0123456789" * 4
    first = scratch(1)
    scratch(2, word="moved", result=f'"commit": "{lost}"')
    assert history.reference_rows(_result(first, lost), _state("VD"), _kinds("VD")) == {"name/book/VD": [1]}
    with pytest.raises(ExperimentError, match="commit 01234567, which could tell, is not in this clone's history"):
        history.reference_rows(_result(lost), _state("VD"), _kinds("VD"))
    with pytest.raises(ExperimentError, match="no commit is known that could tell"):
        history.reference_rows(_result(), _state("VD"), _kinds("VD"))


def test_a_cell_that_is_younger_than_the_last_certificate_is_asked_for_at_its_own_commit(scratch):
    """The tree of the certificate does not know it."""
    old = scratch(1)
    (scratch.probes).write_text(_PROBES.format(number=2).replace("{method}", "{method}, wide"))
    young = scratch.commit_all()
    stored = _kinds("VD") | {"name/book/VD, wide": {"commit": young}}
    expected = {"name/book/VD": [1], "name/book/VD, wide": [2]}
    assert history.reference_rows(_result(old), _state("VD"), stored) == expected
    with pytest.raises(ExperimentError, match="which could tell"):
        history.reference_rows(_result(old), _state("VD"), _kinds("VD, elsewhere"))
