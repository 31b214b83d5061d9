"""The generated status page counts what is there."""

from __future__ import annotations

import json
import shutil

import pytest

from book.editions import status
from book.editions.project import BookError, Project

PROSE = "# Sparse things\n\n$$a = b$$ (x-one)\n\n$$a = b$$ (x-two)\n\n$$a = b$$ (x-three)\n"
RUN = {"bnn_book": {"key": "k", "profile": "smoke", "seconds": 90.0}}


@pytest.fixture
def chapter(make_notebook):
    made = make_notebook(("text-all", PROSE), ("a", "store.table('svbnn-lambda')\ndatasets.load('boston', split=0)"))
    return {**made, "metadata": RUN}


def test_results_and_data_are_found_by_their_whole_names(tmp_path, chapter):
    (tmp_path / "data" / "results").mkdir(parents=True)
    (tmp_path / "bnnlib" / "datasets").mkdir(parents=True)
    (tmp_path / "bnnlib" / "datasets" / "registry.toml").write_text("[boston]\nfolder = 'x'\n[mnist]\n[concrete]\n")
    for name in ("svbnn-lambda.smoke", "svbnn-lambda.book", "svbnn-lambda-long.paper"):
        result = {"provenance": {"minutes": 2.5, "data": {"mnist": "sha"}}, "rows": []}
        (tmp_path / "data" / "results" / f"{name}.json").write_text(json.dumps(result))
    results = status.stored_results(tmp_path)
    assert {name: origin["profile"] for name, origin in results.items()} == {
        "svbnn-lambda": "book",
        "svbnn-lambda-long": "paper",
    }
    assert status.results_shown(chapter, results) == ["svbnn-lambda"]
    assert status.data_used(tmp_path, chapter, results) == ["boston", "mnist"]
    chapter["cells"][1]["source"] = "for name in ['lambda', 'gamma']:\n    store.table(f'svbnn-{name}')"
    assert status.results_shown(chapter, results) == ["svbnn-lambda"]
    assert status.data_used(tmp_path, chapter, results) == ["mnist"]


def test_verdicts_come_from_the_library_of_the_tree(root):
    # Published values exist for this experiment, so each of them must end in some verdict, also before any run.
    found = status.verdicts(root, ["svbnn-simulation-2"])["svbnn-simulation-2"]
    assert set(found) <= set(status.VERDICTS)
    assert sum(found.values()) > 0


def test_a_library_that_cannot_compare_stops_the_build_with_its_error(tmp_path):
    (tmp_path / "book" / "lab").mkdir(parents=True)
    (tmp_path / "book" / "__init__.py").write_text("")
    (tmp_path / "book" / "lab" / "__init__.py").write_text("raise RuntimeError('broken store')")
    with pytest.raises(BookError, match="broken store"):
        status.verdicts(tmp_path, ["svbnn-lambda"])


def test_the_page_tells_what_was_run(scratch, root, chapter):
    scratch.write("tests/equations/test_x.py", "# equation: x-one x-two\ndef test_x(): ...\n")
    shutil.copytree(root / "bnnlib", scratch.root / "bnnlib", dirs_exist_ok=True)
    project = Project(scratch.root)
    project.build.mkdir()
    page = status.status_page(project, {"chapters/x.ipynb": chapter}, "smoke")
    assert "| [Sparse things](../chapters/x.ipynb) | smoke | 1.5 | 2 of 3 | none stored | boston |" in page
    assert "without a test of their own: `x-three`." in page
    assert "No results are committed yet." in page
    assert f"| torch | {status.installed('torch')} |" in page


def test_an_unchanged_page_is_not_made_again(scratch, chapter, monkeypatch):
    project = Project(scratch.root)
    (project.staging / "book").mkdir(parents=True)
    made = status.status_page(project, {"chapters/x.ipynb": chapter}, "smoke")
    (project.staging / "book" / "status.md").write_text(made)
    monkeypatch.setattr(status, "page", lambda *_: "made again")
    assert status.status_page(project, {"chapters/x.ipynb": chapter}, "smoke") == made
    assert status.status_page(project, {"chapters/x.ipynb": chapter}, "book") == "made again"
    scratch.write("tests/equations/test_x.py", "# equation: x-one\ndef test_x(): ...\n")
    assert status.status_page(project, {"chapters/x.ipynb": chapter}, "smoke") == "made again"
