"""The make targets: what they promise in `make help`, and what they say on a machine that lacks something."""

import os
import re
import shutil
import subprocess

import pytest

from book.editions.release import SITE, packed
from tests.conftest import LONGEST

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(folder, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path, root):
    """A tree with nothing but what the targets read, and an environment that counts as installed."""
    for name in ("Makefile", "requirements.txt", "pyproject.toml"):
        shutil.copyfile(root / name, tmp_path / name)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".installed").touch()
    return tmp_path


def test_help_lists_every_target(root):
    listed = make(root, "help").stdout
    phony = re.search(r"^\.PHONY: (.+)$", (root / "Makefile").read_text(), re.MULTILINE)[1].split()
    assert {"book", "test", "lab", "clean", "help"} <= set(phony)
    for name in phony:
        assert re.search(rf"^  {name}\s+\w", listed, re.MULTILINE), name
    assert make(root).stdout == listed  # plain `make` explains itself instead of starting something long


def test_workflows_call_targets_that_there_are(root):
    phony = re.search(r"^\.PHONY: (.+)$", (root / "Makefile").read_text(), re.MULTILINE)[1].split()
    flows = (path.read_text() for path in (root / ".github" / "workflows").glob("*.yml"))
    called = {name for text in flows for name in re.findall(r"run: make (\w+)", text)}
    assert {"venv", "test", "book", "release"} <= called <= set(phony)


def test_tests_begin_with_the_files_that_take_longest(root, tree):
    said = make(tree, "-n", "test").stdout
    assert "--dist loadfile" in said and "--no-loadscope-reorder" in said  # else xdist begins with the most tests
    assert len(set(LONGEST)) == len(LONGEST)
    assert [name for name in LONGEST if not (root / "tests" / name).is_file()] == []


def test_profile_and_jobs_reach_the_builder(tree):
    assert "-m book build --profile smoke" in make(tree, "-n", "book").stdout
    assert "--profile paper --jobs 3" in make(tree, "-n", "book", "PROFILE=paper", "JOBS=3").stdout


@pytest.mark.slow
def test_a_rendered_book_is_read_without_an_environment(tree, monkeypatch):
    (tree / ".venv" / ".installed").unlink()
    absent = make(tree, "read")
    assert absent.returncode and "There is no sparse-bayes-book.zip: take it from a release" in absent.stderr
    (tree / "html").mkdir()
    (tree / "html" / "index.html").write_text("Read me.")
    packed(tree / "html", tree / SITE)
    monkeypatch.setenv("BROWSER", "cat %s #")  # in place of a browser: opens nothing and ends
    told = make(tree, "read").stdout
    page = tree / "_build" / "read" / "sparse-bayes-book" / "index.html"
    assert f"Open {page}" in told and page.read_text() == "Read me."
    assert not (tree / ".venv" / ".installed").exists()


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml"])
def test_the_environment_is_made_once_and_again_when_the_pins_change(tree, name):
    for when, one in enumerate(("requirements.txt", "pyproject.toml", ".venv/.installed")):
        os.utime(tree / one, (when, when))
    assert "pip install" not in make(tree, "-n", "book").stdout
    os.utime(tree / name, (3, 3))
    told = make(tree, "-n", "book", "TORCH_INDEX=https://example.org/cpu").stdout
    first, second = [line for line in told.splitlines() if "pip install" in line][:2]
    assert "--index-url https://example.org/cpu" in first + told.split(first)[1].splitlines()[1]
    assert "-r requirements.txt" in second


def test_without_a_suitable_python_it_says_what_to_do(tree):
    (tree / ".venv" / ".installed").unlink()
    done = make(tree, "venv", "PYTHON=")
    assert done.returncode != 0 and "No Python >= 3.11 found" in done.stderr


def test_a_failed_installation_is_not_taken_for_done(tree):
    (tree / ".venv" / ".installed").unlink()
    assert make(tree, "venv", "PYTHON=false").returncode != 0 and not (tree / ".venv" / ".installed").exists()


def test_the_lock_names_every_direct_dependency(root):
    import tomllib

    locked = {line.split("==")[0] for line in (root / "requirements.txt").read_text().splitlines() if "==" in line}
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"]]
    for extra in ("data", "book", "sweep", "dist", "dev"):
        wanted += project["optional-dependencies"][extra]
    names = {re.match(r"[\w-]+", line)[0].lower().replace("_", "-") for line in wanted}
    assert names <= locked, names - locked
    assert "torch==2.13.0" in (root / "requirements.txt").read_text()  # without "+cpu", which no public index serves
