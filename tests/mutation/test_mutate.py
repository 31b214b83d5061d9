"""Mutants: the list applies, and a tiny tree shows who notices what."""

import subprocess
from dataclasses import replace

import pytest

from book.lab.store import dump_result
from tests.mutation import mutate
from tests.mutation.bench import Bench
from tests.mutation.impact import Impact
from tests.mutation.mutants import LIST, Mutant, MutantError, read

_VALIDITY = """
GOOD, MOVED, UNPROBED = ("certified",), "moved", "no probe"
def worst(states):
    return states[0].word
"""
# a result is as good as twice(2) is 4
_VERIFY = """
from bnnlib.maths import twice
class State:
    method, detail = "SVBNN", "why"
    word = "certified" if twice(2) == 4 else "changed since"
def verify(name, profile, write=True, accept=""):
    return [State]
"""
_STORE = """
def load_result(name, profile):
    return {}
def load_arrays(name, profile):
    return {}
def save_result(result, arrays):
    pass
"""
FILES = {
    "bnnlib/__init__.py": "",
    "bnnlib/maths.py": "def twice(x):\n    return x + x\n\n\ndef half(x):\n    return x / 2\n",
    "book/__init__.py": "",
    "book/lab/__init__.py": "",
    "book/lab/validity.py": _VALIDITY,
    "book/lab/verify.py": _VERIFY,
    "book/lab/store.py": _STORE,
    "data/results/tiny.book.json": "{}",
    "tests/bnnlib/test_maths.py": (
        "from bnnlib.maths import half, twice\n\n\ndef test_half():\n    assert half(4) == 2\n\n\n"
        "def test_twice():\n    assert twice(1) == 2\n"
    ),
    "tests/bnnlib/test_other.py": "def test_fails():\n    assert False\n",
}
TWICE = Mutant("twice", "bnnlib/maths.py", "x + x", "x - x", "sign", "twice nothing")


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A tree in git, whose one result reaches `twice`."""
    root = tmp_path / "tree"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the tree's tests need none
    monkeypatch.setattr(Bench, "_probes", lambda self, result: 0)
    monkeypatch.setattr(Bench, "_evidence", lambda self, result: result)
    impact = Impact(root)
    impact.__dict__ |= {"_results": {"tiny.book": {("bnnlib.maths", 1)}}, "_equations": {}}
    return impact


def _tried(impact, *mutants, **options):
    said = []
    found = mutate.run(list(mutants), impact, 100, say=said.append, **options)
    assert len(said) == len(mutants)
    return found


@pytest.mark.slow
def test_it_is_told_who_notices(tree):
    half = Mutant("half", "bnnlib/maths.py", "x / 2", "x / 3", "constant", "a third")
    square = Mutant("square", "bnnlib/maths.py", "x + x", "x**2 if x == 1 else 2 * x", "formula", "one is not two")
    equal = Mutant("equal", "bnnlib/maths.py", "x + x", "2 * x", "formula", "none", survives="it is the same")
    broken = Mutant("broken", "bnnlib/maths.py", "x + x", "(", "syntax", "it does not run")
    found = _tried(tree, TWICE, half, square, equal, broken, replace(equal, id="none", survives=""))
    assert [one.by for one in found] == ["both", "tests", "tests", "neither", "both", "neither"]
    assert [one.fault for one in found] == ["", "", "", "", "", "nothing notices it"]
    assert found[0].verify.detail == "tiny changed since: SVBNN: why"
    assert found[0].tests.detail == "tests/bnnlib/test_maths.py::test_twice"
    assert found[1].verify.word == "nothing to ask"
    assert "| formula | 0 | 0 | 1 | 2 | 0 |" in mutate.summary(found)
    assert "| all | 2 | 0 | 2 | 2 | 0 |" in mutate.summary(found)
    for name, text in FILES.items():
        assert (tree.tree / name).read_text() == text  # nothing happens to the tree itself


@pytest.mark.slow
def test_a_false_alarm_and_a_reason_out_of_date_are_faults(tree):
    harmless, excused = replace(TWICE, harmless=True), replace(TWICE, id="excused", survives="it is the same")
    found = _tried(tree, harmless, excused)
    assert [one.fault for one in found] == [
        "a change without effect raises an alarm",
        "it is noticed: take `survives` out",
    ]


@pytest.mark.slow
def test_a_test_that_fails_anyway_notices_nothing(tree):
    (found,) = _tried(tree, replace(TWICE, tests=("tests/bnnlib/test_other.py",)))
    assert found.by == "verify" and "fail without it, too: tests/bnnlib/test_other.py" in found.tests.detail


def test_what_takes_too_long_is_no_verdict(tree):
    waits = replace(TWICE, new="__import__('time').sleep(600)")
    (found,) = mutate.run([waits], tree, 0.2, say=lambda line: None)
    assert found.by == "timed out" and found.fault == "no verdict: give it more time"


@pytest.mark.slow
def test_answers_are_kept_until_the_mutant_or_a_test_changes(tree, monkeypatch):
    asked = []
    call = Bench._call
    monkeypatch.setattr(Bench, "_call", lambda self, *args: asked.append(args) or call(self, *args))
    (first,) = _tried(tree, TWICE)
    assert asked
    asked.clear()
    assert _tried(tree, TWICE) == [first] and not asked
    test = tree.tree / "tests" / "bnnlib" / "test_maths.py"
    test.write_text("from bnnlib.maths import half\n")
    (second,) = _tried(tree, TWICE)
    assert second.by == "verify" and len(asked) == 2  # the quick tests, then the slow ones
    asked.clear()
    assert _tried(tree, TWICE)[0] == second and not asked
    _tried(tree, TWICE, again=True)
    assert asked
    (other,) = _tried(tree, replace(TWICE, new="x + 2"))
    assert other.by == "neither"


def test_the_tests_of_a_file_are_those_that_mirror_it(tmp_path):
    names = [
        "bnnlib/nn/test_base.py",
        "bnnlib/nn/test_base_layers.py",
        "bnnlib/test_files.py",
        "chapters/one/test_a.py",
    ]
    for name in (*names, "equations/test_one.py", "bnnlib/nn/test_other.py"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).touch()
    impact = Impact(tmp_path)
    impact.__dict__ |= {"_equations": {"tests/equations/test_one.py": {("bnnlib.nn.base", 1)}}}

    def tests(file, old="x", **more):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("x = 1\n")
        return impact.tests(Mutant("id", file, old, "y", "kind", "why", **more))

    named = [f"tests/{name}" for name in names]
    assert tests("bnnlib/nn/base.py") == [*named[:2], "tests/equations/test_one.py"]
    assert tests("bnnlib/_files.py") == [named[2]]
    assert tests("bnnlib/nn/deep/base.py") == ["tests/bnnlib/nn"]
    assert tests("chapters/one/experiments/b.py") == ["tests/chapters/one"]
    assert tests("chapters/one/published.toml") == ["tests/chapters/one"]
    assert tests("bnnlib/nn/base.py", tests=("tests/a.py",)) == ["tests/a.py", "tests/equations/test_one.py"]


def test_every_listed_mutant_applies(root):
    listed = read(root)
    assert len(listed) >= 60 and sum(one.harmless for one in listed) >= 1
    assert all(one.why and one.kind for one in listed)


@pytest.mark.parametrize(
    ("entry", "match"),
    [
        ('old = "x +"\nnew = "y"', "occurs 0 times"),
        ('old = "x"\nnew = "y"', "occurs 5 times"),
        ('old = "x + x"\nnew = "y"\nbad = 1', "unknown field 'bad'"),
        ('old = "x + x"\nnew = "y"\ntests = ["tests/none.py"]', "no file tests/none.py"),
        ('old = "x + x"', "new"),
        ('old = "x + x"\nnew = "y"\nchecksum = "lost"', "none of kept, renewed, removed"),
    ],
)
def test_an_entry_that_does_not_apply_is_named(tmp_path, entry, match):
    (tmp_path / "tests").mkdir()
    (tmp_path / "a.py").write_text("x = 1\nx + x\nx * x\n")
    if '+"' in entry:
        (tmp_path / "a.py").write_text("y = 1\n")
    text = f'[[mutant]]\nid = "mine"\nfile = "a.py"\nkind = "k"\nwhy = "w"\n{entry}\n'
    (tmp_path / LIST).write_text(text)
    with pytest.raises(MutantError, match=f"'mine'.*{match}"):
        read(tmp_path)


@pytest.mark.slow
def test_a_checksum_is_kept_renewed_or_removed():
    parts = {"cells": [], "probes": [], "certificates": [], "rows": [{"value": 1.5}]}
    text = dump_result({"experiment": "a", "profile": "book", "provenance": {}, **parts})
    mutant = Mutant("a", "a.json", "1.5", "2.5", "kind", "why")
    assert mutant.of(text).splitlines()[1] == text.splitlines()[1]
    renewed = replace(mutant, checksum="renewed").of(text)
    assert renewed == dump_result(
        {"experiment": "a", "profile": "book", "provenance": {}, **parts, "rows": [{"value": 2.5}]}
    )
    assert replace(mutant, checksum="removed").of(text) == renewed.replace(renewed.splitlines()[1] + "\n", "")
