"""The generated status page counts what is there."""

from __future__ import annotations

import json
import shutil

import pytest

from book import lab
from book.editions import compared, pages, status
from book.editions.project import BookError, Project

PROSE = "# Sparse things\n\n$$a = b$$ (x-one)\n\n$$a = b$$ (x-two)\n\n$$a = b$$ (x-three)\n"
RUN = {"bnn_book": {"key": "k", "profile": "smoke", "seconds": 90.0}}


@pytest.fixture
def chapter(make_notebook):
    made = make_notebook(("text-all", PROSE), ("a", "lab.table('svbnn-lambda')\ndatasets.load('boston', split=0)"))
    return {**made, "metadata": RUN}


def test_results_and_data_are_found_by_their_whole_names(tmp_path, chapter):
    (tmp_path / "data" / "results").mkdir(parents=True)
    (tmp_path / "bnnlib" / "datasets").mkdir(parents=True)
    (tmp_path / "bnnlib" / "datasets" / "registry.toml").write_text("[boston]\nfolder = 'x'\n[mnist]\n[concrete]\n")
    for name in ("svbnn-lambda.smoke", "svbnn-lambda.book", "svbnn-lambda-long.paper"):
        result = {"provenance": {"minutes": 2.5, "data": {"mnist": "sha"}}, "rows": []}
        (tmp_path / "data" / "results" / f"{name}.json").write_text(json.dumps(result))
    results = compared.stored_results(tmp_path)
    assert {name: origin["profile"] for name, origin in results.items()} == {
        "svbnn-lambda": "book",
        "svbnn-lambda-long": "paper",
    }
    assert status.results_shown(chapter, results) == ["svbnn-lambda"]
    assert status.data_used(tmp_path, chapter, results) == ["boston", "mnist"]
    chapter["cells"][1]["source"] = "for name in ['lambda', 'gamma']:\n    lab.table(f'svbnn-{name}')"
    assert status.results_shown(chapter, results) == ["svbnn-lambda"]
    assert status.data_used(tmp_path, chapter, results) == ["mnist"]


def test_verdicts_come_from_the_library_of_the_tree(root):
    # Published values exist for this experiment, so each of them must end in some verdict, also before any run.
    found = compared.compared(root, ["svbnn-simulation-2"])["svbnn-simulation-2"]
    assert set(compared.KINDS) == set(found["counts"])
    for kind, count in (("own", 5), ("rival", 23), ("oracle", 0)):
        said = found["counts"][kind]
        assert sum(said[word] for word in compared.WORDS) == said["cells"] == count
    assert len(found["cells"]) == 28


def test_the_words_are_those_of_the_library():
    assert compared.WORDS == lab.verdicts.WORDS


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
    assert "without a test of their own: `x-three`." in page
    assert "No results are committed yet." in page
    assert f"| torch | {status.installed('torch')} |" in page


def test_an_unchanged_page_is_not_made_again(scratch, chapter, monkeypatch):
    project = Project(scratch.root)
    project.build.mkdir()
    scratch.write("book/verdicts.md", "# Words\n\n% example: agrees\n")
    made = pages.written_pages(project, {"chapters/x.ipynb": chapter}, "smoke")
    assert set(made) == {"book/status.md", "book/verdicts.md"}
    for name, text in made.items():
        (project.staging / name).parent.mkdir(parents=True, exist_ok=True)
        (project.staging / name).write_text(text)
    monkeypatch.setattr(status, "page", lambda *_: "made again")

    def status_now(profile):
        return pages.written_pages(project, {"chapters/x.ipynb": chapter}, profile)["book/status.md"]

    assert status_now("smoke") == made["book/status.md"]
    prose = chapter["cells"][0]
    prose["source"] += "\n\nOne more sentence."
    assert status_now("smoke") == made["book/status.md"]
    assert status_now("book") == "made again"
    scratch.write("tests/equations/test_x.py", "# equation: x-one\ndef test_x(): ...\n")
    assert status_now("smoke") == "made again"
    for cell in (prose, chapter["cells"][1]):  # a label or a data set may be in it
        cell["source"] = cell["source"].replace("x-one", "x-four").replace("boston", "diabetes")
        assert status_now("smoke") == "made again"
    scratch.write("book/verdicts.md", "# Other words\n")
    assert pages.written_pages(project, {}, "smoke")["book/verdicts.md"] == "# Other words\n"


CARD = 'number = 3\ntitle = "Things"\nnotebook = "x.ipynb"\nsource = "papers/009"\nprefix = "xx"\n'


def test_kinds_stand_apart_and_the_papers_own_methods_come_first(scratch):
    none = dict.fromkeys((*compared.WORDS, "cells", "budget known", "budget comparable"), 0)
    about = {"provenance": {"minutes": 2.0}, "state": "certified", "paper": "009"}

    def counts(own=none, rival=none, oracle=none):
        return {"counts": {"own": own, "rival": rival, "oracle": oracle}}

    own = none | {"agrees": 3, "not run": 1, "cells": 4, "budget known": 2, "budget comparable": 1}
    rival, oracle = none | {"worse": 7, "cells": 7}, none | {"agrees": 100, "cells": 100}
    found = {
        "xx-a": about | counts(own, rival),
        "xx-b": about | counts(none | {"better": 1, "cells": 1}, oracle=oracle) | {"state": "outdated"},
        "other": about | counts(none | {"worse": 5, "cells": 5}) | {"paper": "010"},
    }
    scratch.write("chapters/things/card.toml", CARD)
    scratch.write("data/results/xx-a.book.json", "{}")
    scratch.list("x")
    text = "\n".join(status._results(Project(scratch.root), found))
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    assert lines[0] == ["Verdict", "paper 009", "paper 010"]
    assert {line[0]: line[1:] for line in lines[2:8]} == {
        "agrees": ["3", "–"],
        "better": ["1", "–"],
        "worse": ["–", "5"],
        "not run": ["1", "–"],
        "cells": ["5", "5"],
        "half of the budget or more": ["1 of 2", "–"],
    }
    assert "print 10 numbers of the methods that they propose" in text
    assert "So 9 are decided, of which 4 agree or are better" in text and "puts up to 0 of" in text
    assert "Another 7 numbers are of methods that the papers quote, 100 check our own references" in text
    assert ["worse", "7"] in lines and ["agrees", "100"] in lines and "110" not in text
    assert lines[-1] == ["[03 Things](reports/x.md)", "2", "1 certified, 1 outdated", "4"]


def test_examples_are_cells_of_the_results():
    cell = {"paper": "002", "cell": "Table 2: VD, FNR", "setting": "U", "method": "VD", "printed": "0.67 ± 3.65"}
    cell |= {"mean": 1.333, "se": 0.93, "n": 30, "difference": 0.663, "error": 1.14, "margin": 0.005}
    cell |= {"verdict": "agrees", "published_budget": None}
    fewer = cell | {"n": 3, "cell": "fewer"}
    other = cell | {"verdict": "not comparable: budget 8 of 500 epochs", "se": None, "error": None, "n": 1}
    text = status.examples(
        "a\n\n% example: agrees\n\n% example: not comparable\n\n% example: worse\n", [fewer, cell, other]
    )
    assert "Table 2: VD, FNR (U, VD): published 0.67 ± 3.65, ours 1.333 ± 0.93 (n = 30)" in text and "fewer" not in text
    assert "d = +0.663, s = 1.1, m = 0.005; **agrees**." in text
    assert "d = +0.663, m = 0.005; **not comparable: budget 8 of 500 epochs**." in text
    assert text.endswith("No published cell has this verdict in the stored results.\n")


def test_the_page_of_verdicts_asks_for_an_example_of_every_word(root):
    asked = status.EXAMPLE.findall((root / "book" / "verdicts.md").read_text(encoding="utf-8"))
    assert sorted(asked) == sorted(compared.WORDS)
