"""The line from notebooks to executed copies: what is executed again, and what happens when a chapter fails."""

import json
import os
import subprocess
import sys

import pytest

from book.editions import execute, preloaded

pytestmark = pytest.mark.slow  # each test starts at least one kernel


def outputs(notebook: dict) -> list[str]:
    return ["".join(o["text"]) for c in notebook["cells"] if c["cell_type"] == "code" for o in c["outputs"]]


def test_only_what_changed_is_executed_again(scratch, make_counting):
    first = make_counting("One", ("show", "import bnnlib\nprint(bnnlib.VALUE)"))
    scratch.chapters(one=first, two=make_counting("Two"))
    assert scratch.build() == 0 and scratch.runs() == ["One smoke", "Two smoke"]
    assert outputs(scratch.staged("one")) == ["1\n"]
    assert scratch.build() == 0 and "to execute: 0" in scratch.said

    # Prose, captions and tags of the layout: new text, old outputs.
    first["cells"][0]["source"] = "# One, rewritten\n"
    first["cells"].insert(1, {"cell_type": "markdown", "id": "text-new", "metadata": {}, "source": "More words."})
    first["cells"][-1]["metadata"] = {"tags": ["hide-input"]}
    scratch.write("chapters/one.ipynb", first)
    assert scratch.build() == 0 and scratch.runs() == ["One smoke", "Two smoke"]
    kept = scratch.staged("one")
    assert kept["cells"][0]["source"] == "# One, rewritten\n" and outputs(kept) == ["1\n"]
    assert kept["cells"][-1]["metadata"] == {"tags": ["hide-input"]}

    # Code: that chapter alone.
    first["cells"][-1]["source"] = "import bnnlib\nprint(bnnlib.VALUE + 10)"
    scratch.write("chapters/one.ipynb", first)
    assert scratch.build() == 0 and scratch.runs() == ["One smoke", "One smoke", "Two smoke"]

    # The library: all of them.
    scratch.write("bnnlib/__init__.py", "VALUE = 2\n")
    assert scratch.build() == 0 and scratch.runs() == ["One smoke"] * 3 + ["Two smoke"] * 2
    assert outputs(scratch.staged("one")) == ["12\n"]


@pytest.mark.parametrize(
    ("said", "tries"),
    [("Kernel didn't respond in 120 seconds", 2), ("Kernel died before replying", 2), ("Kernel died", 1)],
)
def test_a_kernel_that_does_not_start_gets_one_more_try(scratch, make_counting, monkeypatch, said, tries):
    scratch.chapters(one=make_counting("One"))
    begun, errors = [], [RuntimeError(said)]

    def started(*paths, **settings):
        begun.append(paths)
        if errors:
            raise errors.pop()

    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(preloaded, "execute_notebook", started)
    outcome = execute._run(str(scratch.root), "chapters/one.ipynb", "smoke", 1)
    assert len(begun) == tries and (outcome["failure"] is None) == (tries == 2)


def test_a_failing_chapter_is_reported_and_the_others_are_kept(scratch, make_counting):
    bad = make_counting("Bad", ("fine", "x = 1"), ("culprit", "y = 0\nx / y"))
    scratch.chapters(bad=bad, good=make_counting("Good"))
    assert scratch.build(execute_only=False) == 1
    where = ("FAILED chapters/bad.ipynb, code cell 4 (id culprit)", "    | x / y", "----> 2 x / y")
    for told in (*where, "ZeroDivisionError: division by zero", "1 of 2 chapters failed"):
        assert told in scratch.said
    assert not (scratch.root / "_build/html").exists()
    partial = json.loads((scratch.root / "_build/failed/chapters/bad.ipynb").read_text())
    assert any(o["output_type"] == "error" for c in partial["cells"] if c["cell_type"] == "code" for o in c["outputs"])
    assert scratch.runs() == ["Bad smoke", "Good smoke"]

    bad["cells"][-1]["source"] = "x"
    scratch.write("chapters/bad.ipynb", bad)
    assert scratch.build() == 0 and scratch.runs() == ["Bad smoke", "Bad smoke", "Good smoke"]
    assert not list((scratch.root / "_build/failed").rglob("*.ipynb"))


def test_a_killed_kernel_is_an_error_and_not_a_hang(scratch, make_counting):
    kill = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    scratch.chapters(killed=make_counting("Killed", ("kill", kill), ("after", "1")))
    assert scratch.build() == 1 and "FAILED chapters/killed.ipynb, code cell 3 (id kill)" in scratch.said
    assert "DeadKernelError" in scratch.said


def test_a_live_widget_is_refused(scratch, make_counting):
    scratch.chapters(live=make_counting("Live", ("slider", "import ipywidgets\nipywidgets.IntSlider()")))
    assert scratch.build() == 1 and "live widget in the output of cell slider" in scratch.said
    assert "book.display.curves" in scratch.said


def test_executed_copies_carry_no_traces_of_the_machine(scratch, make_counting):
    scratch.chapters(one=make_counting("One", ("show", ["PROFILE\n", "PROFILE"])))  # lines, as files have them
    assert scratch.build(profile="book") == 0
    copy = scratch.staged("one")
    assert [cell["id"] for cell in copy["cells"]] == ["text-title", "parameters", "note", "show"]
    assert copy["cells"][-1]["outputs"][0]["data"]["text/plain"] in ("'book'", ["'book'"])
    assert all("papermill" not in part["metadata"] for part in (copy, *copy["cells"]))
    assert str(scratch.root) not in json.dumps(copy)


def test_a_renamed_chapter_leaves_nothing_behind(scratch, make_counting):
    scratch.chapters(old=make_counting("Same"))
    assert scratch.build() == 0
    (scratch.root / "chapters/old.ipynb").rename(scratch.root / "chapters/new.ipynb")
    scratch.list("new")
    assert scratch.build() == 0
    # Of the pages, test_render.py tells the same.
    assert [path.name for path in (scratch.root / "_build/book/chapters").glob("*.ipynb")] == ["new.ipynb"]


def test_a_second_build_does_nothing_and_a_warning_is_an_error(scratch, make_counting):
    chapter = make_counting("One")
    scratch.chapters(one=chapter)
    assert scratch.build(execute_only=False) == 0
    assert f"Open {scratch.root / '_build/html/index.html'}" in scratch.said
    page = scratch.root / "_build/html/chapters/one.html"
    before = page.stat().st_mtime_ns
    assert scratch.build(execute_only=False) == 0
    assert "to execute: 0" in scratch.said and "Pages: unchanged" in scratch.said
    assert page.stat().st_mtime_ns == before

    chapter["cells"][0]["source"] = "# One\n\nSee {numref}`no-such-figure`.\n"
    scratch.write("chapters/one.ipynb", chapter)
    assert scratch.build(execute_only=False) == 1
    assert "no-such-figure" in scratch.said and "last good build" in scratch.said
    assert page.stat().st_mtime_ns == before
    # The old pages are not taken for the book of these sources by the next run.
    assert scratch.build(execute_only=False) == 1


def test_a_build_waits_for_another_one_in_the_same_tree(scratch, make_counting):
    import fcntl

    scratch.chapters(one=make_counting("One"))
    (scratch.root / "_build").mkdir()
    command = [sys.executable, "-m", "book", "build", "--execute-only"]
    with (scratch.root / "_build/.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        building = subprocess.Popen(command, cwd=scratch.root, stdout=subprocess.PIPE, text=True)
        assert "waiting" in building.stdout.readline()
        assert scratch.runs() == []
    assert building.wait() == 0 and scratch.runs() == ["One smoke"]
