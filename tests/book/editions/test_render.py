"""The swap of the pages: a reader has a whole book before, during and after every build, however it ends."""

import os
import signal
import subprocess
import sys

import pytest

from book.editions import render
from book.editions.project import BookError, Project

# In a process of its own, which kills itself at the marked place.
KILLED = """
import os, signal, sys
from pathlib import Path
from book.editions import render
from book.editions.project import Project

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def pages(project, folder, inherited):
    html = folder / "_build" / "html"
    html.mkdir(parents=True, exist_ok=True)
    (html / "index.html").write_text("new")
    if sys.argv[2] == "rendering":
        die()
    rename = Path.rename
    Path.rename = lambda path, target: die() if Path(target) == project.html else rename(path, target)

render.jupyter_book = pages
render.render(Project(Path(sys.argv[1])))
"""


@pytest.fixture
def project(scratch, monkeypatch) -> Project:
    """A tree with a rendered book of one page, whose text is the table of contents."""

    def pages(project, folder, inherited):
        html = folder / "_build" / "html"
        html.mkdir(parents=True, exist_ok=True)
        (html / "index.html").write_text("old")
        for name in project.documents:
            (html / f"{name.replace('/', '-')}.html").touch()

    monkeypatch.setattr(render, "jupyter_book", pages)
    made = Project(scratch.root)
    made.build.mkdir()
    render.render(made)
    return made


def left(project: Project) -> list[str]:
    """What lies in the folder of the build, apart from locks."""
    return sorted(path.name for path in project.build.iterdir() if not path.name.endswith(".lock"))


def test_a_page_that_vanished_from_the_contents_vanishes_from_the_book(project, scratch):
    assert (project.html / "book-status.html").exists()
    scratch.write("_toc.yml", "format: jb-book\nroot: book/index\n")
    again = Project(scratch.root)
    render.render(again)
    assert sorted(path.name for path in again.html.glob("*.html")) == ["book-index.html", "index.html"]
    assert left(project) == ["html", "sphinx"]


@pytest.mark.parametrize("error", [BookError, KeyboardInterrupt])
def test_a_render_that_fails_leaves_the_book_untouched(project, monkeypatch, error):
    def spoiled(project, folder, inherited):
        (folder / "_build" / "html").mkdir(parents=True, exist_ok=True)
        (folder / "_build" / "html" / "index.html").write_text("half")
        raise error

    monkeypatch.setattr(render, "jupyter_book", spoiled)
    with pytest.raises(error):
        render.render(project)
    assert (project.html / "index.html").read_text() == "old" and render.rendered(project)
    assert left(project) == ["html"]


@pytest.mark.parametrize("place", ["rendering", "swapping"])
def test_a_killed_build_leaves_the_book_and_the_next_one_tidies_up(project, root, place):
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", KILLED, str(project.root), place], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert (project.sphinx / render.WHOLE).exists() == (place == "swapping")
    assert any(name.startswith(render.RENDERING) for name in left(project)) == (place == "swapping")
    if place == "rendering":  # between the two renames the old pages lie aside for an instant
        assert (project.html / "index.html").read_text() == "old"
    render.tidy(project)
    assert (project.html / "index.html").read_text() == "old" and render.rendered(project)
    assert left(project) == ["html", "sphinx"]


@pytest.mark.parametrize("name", ["book/editions/_ext/theme.py", "_config.yml", "_build/book/book/index.md"])
def test_pages_are_rendered_anew_when_what_they_are_made_from_changes(project, scratch, name):
    assert render.rendered(project)
    scratch.write(name, "changed")
    assert not render.rendered(project)
