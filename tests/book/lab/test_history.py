"""The probes of another commit, in scratch repositories whose modules say what they were asked."""

import subprocess

import pytest

from book.lab import history
from book.lab.cells import ExperimentError

_VALIDITY = """from collections import namedtuple
GOOD = ("certified",)
State = namedtuple("State", "method word")
def states(name, profile):
    return [State("VD", {word!r}), State("AGP", "certified"), State("AGP", "moved")]
"""
_PROBES = """def rows_of(name, profile, method):
    return {{f"{{name}}/{{profile}}/{{method}}": [{number}], "another kind": []}}
"""
KIND = "name/book/VD"


@pytest.fixture
def commit(tmp_path, monkeypatch):
    """``commit(number, word)`` changes the stored result and commits a tree, ``result=False`` only the tree."""

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def commit(number, word="certified", result=True):
        (lab / "validity.py").write_text(_VALIDITY.format(word=word))
        (lab / "probes.py").write_text(_PROBES.format(number=number))
        if result:
            (results / "name.book.json").write_text(str(number))
        git("add", ".")
        git("commit", "-qm", "x")

    lab, results = tmp_path / "book" / "lab", tmp_path / "data" / "results"
    for folder in (lab, results):
        folder.mkdir(parents=True)
    for folder in (lab, lab.parent):
        (folder / "__init__.py").touch()
    git("init", "-q")
    monkeypatch.setattr(history, "TREE", tmp_path)
    return commit


def test_the_probes_come_from_the_tree_that_brought_the_result_last(commit):
    for number in (1, 2):
        commit(number)
    commit(3, result=False)
    assert history.reference_rows("name", "book", "VD", [KIND]) == {KIND: [2]}


@pytest.mark.parametrize(("number", "why"), [("no_such_name", "no_such_name"), ("(", "SyntaxError")])
def test_a_tree_that_does_not_run_here_is_told_unless_an_earlier_one_does(commit, number, why):
    commit(number)
    with pytest.raises(ExperimentError, match=rf"do not run at (?s:.*){why}"):
        history.reference_rows("name", "book", "VD", [KIND])
    commit(1)
    commit(number)
    assert history.reference_rows("name", "book", "VD", [KIND]) == {KIND: [1]}


def test_a_commit_where_the_cells_are_not_good_cannot_tell(commit):
    """Nor one that does not know the probe; then an earlier one is asked."""
    commit(1)
    commit(2, word="moved")
    assert history.reference_rows("name", "book", "VD", [KIND]) == {KIND: [1]}
    for method, kind in (("AGP", "name/book/AGP"), ("VD", "name/book/VD, wide")):
        with pytest.raises(ExperimentError, match="no commit of this clone's history has code that agrees"):
            history.reference_rows("name", "book", method, [kind])


def test_every_committed_version_of_a_result_is_told_oldest_first(commit):
    assert list(history.versions("name", "book")) == []
    for number in (1, 2):
        commit(number)
    commit(3, result=False)
    assert list(history.versions("name", "book")) == [1, 2] and list(history.versions("name", "paper")) == []
