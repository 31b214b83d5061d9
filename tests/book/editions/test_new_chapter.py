"""A new chapter is one package, one notebook and its tests, and works from its first minute."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from book.editions.new_chapter import main

# Commands in one process, which imports PyTorch once; what each prints, as JSON.
SEVERAL = """
import contextlib, io, json, sys
from book.__main__ import main
said = []
for command in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = main(command)
    assert code == (command[0] == "lint"), command
    said.append(out.getvalue())
print(json.dumps(said))
"""


def contents(root: Path) -> dict[str, bytes]:
    kept = {"_build", "__pycache__", "cache", "results", ".pytest_cache"}
    found = (path for path in root.rglob("*") if path.is_file() and not kept & set(path.relative_to(root).parts))
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


@pytest.fixture
def tree(scratch, make_counting, monkeypatch):
    scratch.chapters(**{"01_one": make_counting("One"), "03_three": make_counting("Three")})
    monkeypatch.chdir(scratch.root)
    return scratch


@pytest.mark.slow
def test_a_new_chapter_is_listed_run_linted_tested_and_rendered(tree, root):
    for name in ("bnnlib", "chapters/shared"):
        shutil.copytree(root / name, tree.root / name, dirs_exist_ok=True)
    for name in ("chapters/__init__.py", "pyproject.toml"):
        shutil.copyfile(root / name, tree.root / name)
    # the page that results are explained on
    tree.write("book/verdicts.md", "# Verdicts\n")
    toc = (tree.root / "_toc.yml").read_text()
    tree.write("_toc.yml", toc.replace("- file: book/status\n", "- file: book/status\n  - file: book/verdicts\n"))
    environment = {**os.environ, "PYTHONPATH": str(tree.root), "BNNLIB_HOME": str(tree.root / "data")}

    def run(command: list[str]) -> subprocess.CompletedProcess:
        return subprocess.run(command, cwd=tree.root, env=environment, capture_output=True, text=True, check=False)

    def call(*arguments: str, module: str = "book") -> subprocess.CompletedProcess:
        return run([sys.executable, "-m", module, *arguments])

    before = contents(tree.root)
    options = ["--number", "2", "--prefix", "thr", "--source", "papers/004-1.3", "--title", "Something to throw away"]
    made = call("new-chapter", "throw_away", *options)
    assert made.returncode == 0, made.stderr
    assert "python -m book run thr-mean" in made.stdout
    after = contents(tree.root)
    assert not set(before) - set(after)
    assert [name for name in before if before[name] != after[name]] == ["_toc.yml"]
    lines = after["_toc.yml"].decode().splitlines()
    assert len(lines) == len(before["_toc.yml"].decode().splitlines()) + 1
    assert [line.split("/")[1] for line in lines if "chapters/" in line] == ["01_one", "02_throw_away", "03_three"]

    notebook = "chapters/02_throw_away.ipynb"
    commands = (["list", "--json"], ["run", "thr-mean"], ["list", "--json"], ["table", "thr-mean"], ["lint", notebook])
    done = run([sys.executable, "-c", SEVERAL, json.dumps(commands)])
    assert done.returncode == 0, done.stderr
    listed, ran, again, table, linted = json.loads(done.stdout)
    assert json.loads(listed) == [{"name": "thr-mean", "paper": "004", "profiles": ["smoke"], "done": []}]
    assert ran == "" and json.loads(again)[0]["done"] == ["smoke"] and "n=100" in table

    problems = linted.splitlines()[:-1]
    # what a chapter of a page cannot have yet: its full size and its exercises
    assert problems and all(": sizes: " in line or ": exercises_complete: " in line for line in problems), problems
    for check in (["check", "--no-cache"], ["format", "--check", "--no-cache"]):
        told = call(*check, "chapters/throw_away", notebook, "tests", module="ruff")
        assert told.returncode == 0, told.stdout
    tested = call("-q", "-n", "0", "-p", "no:cacheprovider", "tests", module="pytest")
    assert tested.returncode == 0 and "2 passed" in tested.stdout, tested.stdout

    built = run([sys.executable, "-c", SEVERAL, json.dumps([["build"], ["check"]])])
    assert built.returncode == 0, built.stdout + built.stderr
    page = (tree.root / "_build/html/chapters/02_throw_away.html").read_text()
    assert "Something to throw away" in page and 'id="equation-thr-mean"' in page
    assert json.loads(built.stdout.splitlines()[-1])[1] == "The rendered book has no faults.\n"


def test_names_numbers_and_prefixes_come_from_what_is_there(tree, capsys):
    assert main(["side_by_side"]) == 0
    card = (tree.root / "chapters/side_by_side/card.toml").read_text()
    assert 'number = 4\ntitle = "Side by side"\n' in card and 'source = "all"\nprefix = "sbs"\n' in card
    assert main(["acceptance"]) == 0 and 'prefix = "acc"' in (tree.root / "chapters/acceptance/card.toml").read_text()
    assert "tests/equations/test_acc.py" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Two-Words"], "use small letters and underscores"),
        (["class"], "no name of a study"),
        (["shared"], "no name of a study"),
        (["first"], "chapters/first is there already"),
        (["second", "--number", "3"], "the number 3 is taken"),
        (["second", "--number", "100"], "beyond 0 to 99"),
        (["second", "--prefix", "a"], "two to five small letters"),
        (["second", "--prefix", "fst"], "the prefix 'fst' belongs to first"),
        (["second", "--title", 'a "b"'], "without quotation marks"),
        (["second", "--prefix", "old"], "tests/equations/test_old.py would be overwritten"),
    ],
)
def test_what_is_taken_is_refused_and_nothing_is_written(tree, capsys, arguments, said):
    assert main(["first", "--prefix", "fst"]) == 0
    tree.write("tests/equations/test_old.py", "kept = True\n")
    before = contents(tree.root)
    assert main(arguments) == 2 and said in capsys.readouterr().err
    assert contents(tree.root) == before
