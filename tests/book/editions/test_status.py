"""The status page counts what is there, and pages are made anew when something has changed for them."""

import json
import shutil

import pytest

from book.editions import compared, pages, status
from book.editions.project import BookError, Project
from book.lab import verdicts

PROSE = "# Sparse things\n\n$$a = b$$ (x-one)\n\n$$a = b$$ (x-two)\n\n$$a = b$$ (x-three)\n"
RUN = {"bnn_book": {"key": "k", "profile": "smoke", "seconds": 90.0}}


@pytest.fixture
def chapter(make_notebook):
    made = make_notebook(("text-all", PROSE), ("a", "lab.table('svbnn-lambda')\ndatasets.load('boston', split=0)"))
    return {**made, "metadata": RUN}


def test_data_are_those_of_the_code_and_of_the_study(tmp_path, chapter):
    (tmp_path / "data" / "results").mkdir(parents=True)
    (tmp_path / "bnnlib" / "datasets").mkdir(parents=True)
    (tmp_path / "bnnlib" / "datasets" / "registry.toml").write_text("[boston]\nfolder = 'x'\n[mnist]\n[concrete]\n")
    for name in ("svbnn-lambda.smoke", "svbnn-lambda.book", "svbnn-lambda-long.paper"):
        result = {"provenance": {"minutes": 2.5, "data": {"mnist": "sha"}}, "rows": []}
        (tmp_path / "data" / "results" / f"{name}.json").write_text(json.dumps(result))
    results = compared.stored_results(tmp_path)
    profiles = {name: origin["profile"] for name, origin in results.items()}
    assert profiles == {"svbnn-lambda": "book", "svbnn-lambda-long": "paper"}
    assert status.data_used(tmp_path, chapter, results, "svbnn") == ["boston", "mnist"]
    assert status.data_used(tmp_path, chapter, results, "sbn") == ["boston"]


@pytest.mark.slow
def test_verdicts_come_from_the_library_of_the_tree(root):
    # Published values exist for this experiment, so each of them must end in some verdict, also before any run.
    found = compared.compared(root, ["svbnn-simulation-2"])["svbnn-simulation-2"]
    assert set(compared.KINDS) == set(found["counts"])
    for kind, count in (("own", 5), ("rival", 23), ("oracle", 0)):
        said = found["counts"][kind]
        assert sum(said[word] for word in compared.WORDS) == said["cells"] == count
    assert len(found["cells"]) == 28
    assert compared.WORDS == verdicts.WORDS


def test_a_library_that_cannot_compare_stops_the_build_with_its_error(tmp_path):
    (tmp_path / "book" / "lab").mkdir(parents=True)
    (tmp_path / "book" / "__init__.py").write_text("")
    (tmp_path / "book" / "lab" / "__init__.py").write_text("raise RuntimeError('broken store')")
    with pytest.raises(BookError, match="broken store"):
        compared.compared(tmp_path, ["svbnn-lambda"])


def test_the_page_tells_what_was_run(scratch, root, chapter):
    scratch.write("tests/equations/test_x.py", "# equation: x-one x-two\ndef test_x(): ...\n")
    shutil.copytree(root / "bnnlib", scratch.root / "bnnlib", dirs_exist_ok=True)
    project = Project(scratch.root)
    project.build.mkdir()
    page = pages.written_pages(project, {"chapters/x.ipynb": chapter}, "smoke")["book/status.md"]
    assert "| [Sparse things](../chapters/x.ipynb) | smoke | 1.5 | 2 of 3 | boston |" in page
    assert "without a test of their own: `x-three`." in page and "No results are committed yet." in page
    assert f"| torch | {status.installed('torch')} |" in page


def test_an_unchanged_page_is_not_made_again(scratch, chapter, monkeypatch):
    project, made = Project(scratch.root), []
    project.build.mkdir()
    scratch.write("book/verdicts.md", "# Words\n\n% example: agrees\n")
    monkeypatch.setattr(pages, "fill", lambda text, tables: made.append(text) or f"{len(made)}")

    def again(profile="smoke") -> bool:
        before = len(made)
        found = pages.written_pages(project, {"chapters/x.ipynb": chapter}, profile)
        assert set(found) == {"book/status.md", "book/verdicts.md"}
        return len(made) > before

    assert again() and not again()
    prose = chapter["cells"][0]
    prose["source"] += "\n\nOne more sentence."
    assert not again()
    assert again("book") and again()
    scratch.write("tests/equations/test_x.py", "# equation: x-one\ndef test_x(): ...\n")
    assert again() and not again()
    prose["source"] = prose["source"].replace("x-one", "x-four")
    assert again()
    scratch.write("bnnlib/datasets/registry.toml", "[boston]\n[diabetes]\n")
    assert again()
    chapter["cells"][1]["source"] = chapter["cells"][1]["source"].replace("boston", "diabetes")
    assert again() and not again()
    scratch.write("book/verdicts.md", "# Other words\n\n% example: agrees\n")
    assert again()
