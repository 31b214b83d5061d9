"""What the sources say there is to build, and when a chapter counts as changed."""

import pytest

from book.editions.project import BookError, Project

EMPTY = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda s: s.list("one", "nowhere"), "chapters/nowhere"),
        (lambda s: s.list(), "stands in no line of _toc.yml"),
        (lambda s: s.write("chapters/one.ipynb", '{"cells": [<<<<<<< HEAD'), "is not a notebook"),
        (lambda s: s.write("chapters/one.ipynb", EMPTY), 'no cell tagged "parameters"'),
    ],
    ids=["named but missing", "present but not named", "merge conflict", "no parameters cell"],
)
def test_faulty_sources_are_refused_before_anything_runs(scratch, make_counting, spoil, message):
    scratch.chapters(one=make_counting("One"))
    spoil(scratch)
    assert scratch.build() == 1 and message in scratch.said
    assert scratch.runs() == []


@pytest.mark.parametrize(
    ("name", "content", "changes"),
    [
        ("bnnlib/deep/er.py", "x = 1", True),
        ("bnnlib/__pycache__/er.pyc", "x = 1", False),
        ("data/results/a.smoke.json", "{}", True),
        ("data/results/.a.smoke.json.tmp", "{}", False),
        ("book/lab/metrics.toml", "a = 1", True),
        ("bnnlib/datasets/registry.toml", "a = 1", True),
        ("data/cache/sets/mnist.gz", "pixels", False),
        ("data/cache/runs/cell.json", "{}", False),
        ("requirements.txt", "numpy==1.0\n", True),
        ("README.md", "words", False),
        ("book/glossary.md", "words", False),
    ],
)
def test_what_the_shared_key_depends_on(scratch, name, content, changes):
    before = Project(scratch.root).shared_key("smoke")
    scratch.write(name, content)
    assert (Project(scratch.root).shared_key("smoke") != before) is changes


def test_the_key_depends_on_profile_and_data_but_not_on_comments(scratch, monkeypatch, tmp_path_factory):
    project = Project(scratch.root)
    before = project.shared_key("smoke")
    assert project.shared_key("book") != before
    pins = (scratch.root / "requirements.txt").read_text()
    scratch.write("requirements.txt", "# a comment\n\n" + pins)
    assert project.shared_key("smoke") == before
    data = tmp_path_factory.mktemp("mirror")
    monkeypatch.setenv("BNNLIB_DATA", str(data))
    keys = {profile: project.shared_key(profile) for profile in ("smoke", "book")}
    (data / "sets.npy").write_bytes(b"abc")
    assert project.shared_key("smoke") == before == keys["smoke"]  # it is executed without them
    assert project.shared_key("book") != keys["book"]


def test_notebooks_are_listed_in_reading_order(scratch, make_counting):
    scratch.chapters(b=make_counting("B"), a=make_counting("A"))
    assert Project(scratch.root).notebooks == ["chapters/b.ipynb", "chapters/a.ipynb"]
    scratch.list("b")
    with pytest.raises(BookError, match=r"chapters/a\.ipynb"):
        _ = Project(scratch.root).notebooks
