"""Lay out the staging tree (pages, executed chapters, static files) and render it with Jupyter Book."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

from book.editions.project import BookError, Project, digest, files_below

NOT_PAGES = (".py",)


def write_if_changed(path: Path, content: bytes) -> None:
    """Write, unless the file already holds this content: Sphinx and the reader's eye go by what really changed."""
    if not (path.exists() and path.read_bytes() == content):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def notebook_bytes(notebook: dict) -> bytes:
    return (json.dumps(notebook, ensure_ascii=False, indent=1) + "\n").encode()


def write_notebook(path: Path, notebook: dict) -> None:
    """Write an executed copy whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_bytes(notebook_bytes(notebook))
    temporary.replace(path)


def static_inputs(project: Project) -> dict[str, bytes]:
    """Staged files that are copies: ``_toc.yml``, the pages and pictures of ``book/``, and the static files."""
    files = {"_toc.yml": (project.root / "_toc.yml").read_bytes()}
    for path in files_below(project.root / "book"):
        inside = path.relative_to(project.root / "book")
        if path.suffix in NOT_PAGES or inside.parts[0] == "_ext":
            continue
        files[f"book/{inside.as_posix()}"] = path.read_bytes()
    return files


def stage(project: Project, chapters: dict[str, dict], pages: dict[str, str]) -> None:
    """Make ``_build/book`` hold exactly the current pages and executed ``chapters``; what was renamed goes away.

    Args:
        pages: text of the pages that the build writes, or completes, by path.
    """
    wanted = static_inputs(project)
    wanted |= {name: text.encode() for name, text in pages.items()}
    for name, notebook in chapters.items():
        wanted[name] = notebook_bytes(notebook)
    for path in files_below(project.staging):
        if path.relative_to(project.staging).as_posix() not in wanted:
            path.unlink()
    for name, content in wanted.items():
        write_if_changed(project.staging / name, content)


def render_key(project: Project) -> str:
    """Hash of everything that the rendered pages are made from."""
    parts: list[str | bytes] = []
    for folder in (project.staging, project.root / "book" / "_ext"):
        for path in files_below(folder):
            parts += [path.relative_to(folder).as_posix(), path.read_bytes()]
    parts += [(project.root / name).read_bytes() for name in ("_config.yml", "requirements.txt")]
    return digest(*parts)


def render(project: Project, say=print) -> None:
    """Call ``jupyter-book build`` on the staging tree, warnings as errors.

    Raises:
        BookError: Sphinx warned or failed; the message holds its warnings.
    """
    if importlib.util.find_spec("jupyter_book") is None:
        raise BookError(
            f"jupyter-book is not installed for {sys.executable}. Run `make venv`, or pip install -r requirements.txt."
        )
    # Pages of renamed chapters would stay in the output for ever; a full render takes seconds.
    shutil.rmtree(project.html, ignore_errors=True)
    (project.build / "rendered.key").unlink(missing_ok=True)
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(project.staging)]
    command += ["--config", str(project.root / "_config.yml"), "--path-output", str(project.root)]
    command += ["-W", "--keep-going", "--all"]
    log = project.build / "render.log"
    with log.open("w", encoding="utf-8") as out:
        code = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, cwd=project.root, check=False).returncode
    text = log.read_text(encoding="utf-8")
    if code:
        marks = ("WARNING", "ERROR", "CRITICAL", "Exception")
        found = [line for line in text.splitlines() if any(mark in line for mark in marks)]
        told = "\n".join(f"  {line}" for line in found or text.splitlines()[-30:])
        raise BookError(f"jupyter-book found fault with the pages (all of it in _build/render.log):\n{told}")
    (project.build / "rendered.key").write_text(render_key(project), encoding="utf-8")


def rendered(project: Project) -> bool:
    """Whether ``_build/html`` was rendered from exactly what is staged now."""
    key = project.build / "rendered.key"
    return key.exists() and (project.html / "index.html").exists() and key.read_text() == render_key(project)
