"""What counts as a change beside the commit."""

import subprocess

import pytest

from book.lab import provenance


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in ("bnnlib/nn.py", "book/lab/runner.py", "chapters/one/experiments/a.py", "chapters/01_one.ipynb"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(provenance, "_TREE", tmp_path)
    provenance.commit.cache_clear()
    yield tmp_path
    provenance.commit.cache_clear()


@pytest.mark.parametrize(
    ("name", "dirty"),
    [
        ("bnnlib/nn.py", True),
        ("bnnlib/new.py", True),
        ("book/lab/runner.py", True),
        ("chapters/one/experiments/a.py", True),
        ("chapters/01_one.ipynb", False),
        ("data/results/x.book.json", False),
        ("README.md", False),
    ],
)
def test_code_makes_a_tree_dirty_and_text_and_results_do_not(tree, name, dirty):
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text("x = 2\n")
    about = provenance.commit()
    assert about["dirty"] is dirty and len(about["commit"]) == 40
