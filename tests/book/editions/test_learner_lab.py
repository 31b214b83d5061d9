"""`make lab`: which notebooks it opens, and how it starts JupyterLab."""

import json
import os
from pathlib import Path

import pytest

from book.editions.learner import lab
from book.editions.learner.names import FILE
from book.editions.learner.write import editions, publish
from book.editions.project import Project
from book.editions.render import KEY, render_key, write_notebook
from tests.book.editions.conftest import PARAMETERS


@pytest.fixture
def built(scratch, make_notebook) -> Project:
    """A tree whose book of one chapter has been built."""
    scratch.chapters(**{"01_one": make_notebook(("text-title", "# One"), PARAMETERS)})
    project = Project(scratch.root)
    write_notebook(project.staging / "chapters/01_one.ipynb", make_notebook(("text-title", "# One"), PARAMETERS))
    project.html.mkdir(parents=True)
    names = {"labels": {}, "citations": {}, "pages": {"chapters/01_one": "One"}}
    (project.html / FILE).write_text(json.dumps(names))
    (project.html / "index.html").touch()
    (project.html / KEY).write_text(render_key(project))
    return project


def test_without_a_book_it_builds_one(scratch, monkeypatch):
    asked = []
    monkeypatch.setattr(lab, "build", lambda root, say: asked.append(root) or 1)
    assert lab.prepare(Project(scratch.root)) == 1 and asked == [scratch.root]


def test_with_a_book_it_restores_what_is_missing_and_builds_nothing(built, monkeypatch):
    monkeypatch.setattr(lab, "build", None)
    notebook = built.lab / "01_one.ipynb"
    assert lab.prepare(built) == 0 and "# One" in notebook.read_text()
    notebook.unlink()
    assert lab.prepare(built) == 0 and notebook.exists()


def test_with_chapters_newer_than_the_pages_it_says_so_and_opens_what_is_there(built, make_notebook, monkeypatch):
    assert lab.prepare(built) == 0
    newer = make_notebook(("text-title", "# One\n\nSee {eq}`new`."), PARAMETERS)
    write_notebook(built.staging / "chapters/01_one.ipynb", newer)
    monkeypatch.setattr(lab, "build", None)
    said: list[str] = []
    assert lab.prepare(built, said.append) == 0
    assert "notebooks of an earlier build" in said[0] and "make book" in said[0]


@pytest.mark.slow
def test_it_opens_the_learners_folder_in_a_jupyterlab_that_shows_plain_markdown(built, monkeypatch):
    started = {}
    monkeypatch.chdir(built.root)
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/users/own")
    monkeypatch.setattr(os, "execve", lambda path, command, environment: started.update(c=command, e=environment))
    lab.main(["--no-browser"])
    assert "--LabApp.default_url=/lab/tree/_build/lab" in started["c"] and started["c"][-1] == "--no-browser"
    folder, own = started["e"]["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert own == "/users/own"
    page = json.loads((Path(folder) / "labconfig/page_config.json").read_text())
    assert page["disabledExtensions"]["jupyterlab-myst"] is True


@pytest.mark.slow
def test_unknown_options_and_help_build_nothing(scratch, monkeypatch, capfd):
    monkeypatch.chdir(scratch.root)
    monkeypatch.setattr(lab, "prepare", None)
    assert lab.main(["--nope"]) == 2 and "--nope" in capfd.readouterr().err
    assert lab.main(["--version"]) == 0


def test_the_download_button_gives_the_edition(built):
    publish(built, editions(built, built.html), built.html)
    given = json.loads((built.html / "_sources/chapters/01_one.ipynb").read_text())
    assert given["metadata"]["bnn_learner"]["page"] == "chapters/01_one"
    script = (built.html / "_sources/chapters/01_one.ipynb.js").read_text()
    assert json.loads(json.loads(script.removeprefix("bnnKeep(").removesuffix(");\n"))) == given
