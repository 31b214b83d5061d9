"""Lay out the staging tree (pages, executed chapters, static files) and render it with Jupyter Book.

Sphinx keeps what it has read in ``_build/sphinx`` and goes on from there when nothing but the text of documents has
changed since: it reads those, and writes those and what shows something of them (`_ext/outline.py`). Anything else, a
build that failed or one that was stopped: it starts from nothing.
"""

import contextlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from book import studies
from book.editions import slides
from book.editions.learner.write import editions, publish
from book.editions.project import WORDS, BookError, Project, digest, files_below, installed, locked, named

RENDERING = "rendering-"  # begins the name of a folder in which pages are being made
NUMBERS = "chapter_numbers.json"  # what _ext/chapter_numbers.py reads
LOCK = ".sphinx.lock"  # held while Sphinx is at work
KEY = ".rendered-from"  # in the folder of the pages: what they were made from
WHOLE = "whole"  # in the folder that Sphinx keeps, after a build without fault: what it holds for all documents


def notebook_bytes(notebook: dict) -> bytes:
    return (json.dumps(notebook, ensure_ascii=False, indent=1) + "\n").encode()


def write_notebook(path: Path, notebook: dict) -> None:
    """Write an executed copy whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_bytes(notebook_bytes(notebook))
    temporary.replace(path)


def static_inputs(project: Project) -> dict[str, bytes]:
    """Staged files that no chapter's run changes: ``_toc.yml``, the chapters' numbers, and what ``book/`` holds."""
    numbers = {f"chapters/{Path(one.notebook).stem}": one.number for one in studies.all(project.root / "chapters")}
    files = {"_toc.yml": (project.root / "_toc.yml").read_bytes(), NUMBERS: json.dumps(numbers).encode()}
    for path in files_below(project.root / "book"):
        inside = path.relative_to(project.root / "book")
        files |= {f"book/{inside.as_posix()}": path.read_bytes()} if path.suffix != ".py" else {}
    return files


def stage(project: Project, chapters: dict[str, dict], pages: dict[str, str]) -> None:
    """Make ``_build/book`` hold exactly the executed `chapters`, the written `pages` by path, and ``book/`` itself."""
    wanted = static_inputs(project) | {name: text.encode() for name, text in pages.items()}
    wanted |= {name: notebook_bytes(notebook) for name, notebook in chapters.items()}
    for path in files_below(project.staging):
        if path.relative_to(project.staging).as_posix() not in wanted:
            path.unlink()
    for name, content in wanted.items():
        path = project.staging / name
        if not (path.exists() and path.read_bytes() == content):  # Sphinx goes by what really changed
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def code(project: Project) -> list[Path]:
    """The code that pages show: docstrings of the library are its reference, and links lead to functions of both."""
    studies = [path for path in files_below(project.root / "chapters") if path.suffix == ".py"]
    return files_below(project.root / "bnnlib") + studies


def settings(project: Project) -> list[bytes]:
    """How pages are made, and the version at the foot of each."""
    paths = [project.root / name for name in ("_config.yml", "requirements.txt", "pyproject.toml")]
    return [path.read_bytes() for path in paths if path.exists()]


def render_key(project: Project) -> str:
    """Hash of everything that the rendered pages are made from."""
    parts: list[str | bytes] = []
    makers = project.root / "book" / "editions"
    for folder in (project.staging, makers / "_ext", makers / "learner"):
        parts += named(folder, files_below(folder))
    return digest(*parts, *named(project.root, code(project)), *settings(project))


def surroundings_key(project: Project) -> str:
    """Hash of everything that pages are made from, apart from the text of the documents itself, and from slides."""
    documents = {f"{name}{suffix}" for name in project.documents for suffix in (*WORDS, ".ipynb")}
    parts: list[str | bytes] = [installed(), *project.documents]
    for folder in (project.staging, project.root / "book" / "editions" / "_ext"):
        for path in files_below(folder):
            name = path.relative_to(folder).as_posix()
            text = folder == project.staging and (name in documents or name.startswith(slides.FOLDER))
            parts += [name] if text else [name, path.read_bytes()]
    return digest(*parts, *named(project.root, code(project)), *settings(project))


def jupyter_book(project: Project, folder: Path, inherited: list[int]) -> None:
    """Call ``jupyter-book build`` on the staging tree, warnings as errors; the pages lie in ``folder/_build/html``.

    It goes on from what is there. Sphinx keeps the inherited file descriptors open, see `made_pages`.
    """
    if importlib.util.find_spec("jupyter_book") is None:
        raise BookError(
            f"jupyter-book is not installed for {sys.executable}. Run `make venv`, or pip install -r requirements.txt."
        )
    # -P: the folder of the script has modules with names of the standard library.
    command = [sys.executable, "-P", str(Path(__file__).with_name("quick_sphinx.py")), "build", str(project.staging)]
    command += ["--config", str(project.root / "_config.yml"), "--path-output", str(folder), "-W", "--keep-going"]
    log = project.build / "render.log"
    with log.open("w", encoding="utf-8") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, cwd=project.root, pass_fds=inherited)
    if done.returncode:
        text = log.read_text(encoding="utf-8")
        marks = ("WARNING", "ERROR", "CRITICAL", "Exception")
        found = [line for line in text.splitlines() if any(mark in line for mark in marks)]
        told = "\n".join(f"  {line}" for line in found or text.splitlines()[-30:])
        raise BookError(f"jupyter-book found fault with the pages (all of it in _build/render.log):\n{told}")


def tidy(project: Project) -> None:
    """Undo what a killed build left: its half-made pages go, and a book that it had just put aside comes back.

    What Sphinx keeps is looked after in `made_pages`, which alone may wait for a Sphinx that is still running.
    """
    if not project.html.exists() and project.aside.exists():
        project.aside.rename(project.html)
    for folder in (project.aside, *project.build.glob(f"{RENDERING}*")):
        shutil.rmtree(folder, ignore_errors=True)


def made_pages(project: Project) -> Path:
    """Bring the pages that Sphinx keeps up to date; returns their folder."""
    kept, key = project.sphinx, surroundings_key(project)
    mark, pages = kept / WHOLE, kept / "_build" / "html"
    # the Sphinx of a builder that was killed goes on writing for a while, and so long holds the lock
    with locked(project.build / LOCK) as inherited:
        if mark.exists() and mark.read_text(encoding="utf-8") == key:
            mark.unlink()
            # As at a build from nothing, where pages name the style sheets that are copied last without a digest.
            shutil.rmtree(pages / "_static", ignore_errors=True)
        else:
            shutil.rmtree(kept, ignore_errors=True)
        try:
            jupyter_book(project, kept, inherited)
        except BaseException:
            shutil.rmtree(kept, ignore_errors=True)
            raise
        mark.write_text(key, encoding="utf-8")
    return pages


def import_ahead() -> None:
    """Import what `editions` needs while Sphinx is at work; torch alone takes seconds."""
    with contextlib.suppress(Exception):  # whatever it is, it is raised again where it is needed
        importlib.import_module("book.display.exercises")


def render(project: Project) -> dict[str, dict]:
    """Render apart from the book and swap the pages in when they are whole, so that a reader always has a book.

    Returns:
        The learner's edition of every chapter, see `editions`.
    """
    threading.Thread(target=import_ahead, daemon=True).start()
    pages = made_pages(project)
    folder = Path(tempfile.mkdtemp(prefix=RENDERING, dir=project.build))
    try:
        made = folder / "html"
        shutil.copytree(pages, made)
        notebooks = editions(project, made)
        publish(project, notebooks, made)
        (made / KEY).write_text(render_key(project), encoding="utf-8")
        if project.html.exists():
            project.html.rename(project.aside)
        made.rename(project.html)
        return notebooks
    finally:
        tidy(project)
        shutil.rmtree(folder, ignore_errors=True)


def rendered(project: Project) -> bool:
    """Whether ``_build/html`` was rendered from exactly what is staged now."""
    key = project.html / KEY
    return key.exists() and (project.html / "index.html").exists() and key.read_text() == render_key(project)
