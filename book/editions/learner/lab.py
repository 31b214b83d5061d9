"""Open the learner's notebooks: ``python -m book lab [options of jupyter lab]`` (``make lab`` calls it)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from book.editions.build import build, exclusive
from book.editions.learner.names import FILE
from book.editions.learner.write import editions, offer
from book.editions.project import BookError, Project


def prepare(project: Project, say=print) -> int:
    """Have the notebooks of the last build in ``_build/lab``, building the book if there is none; the exit code."""
    if not (project.html / FILE).exists():
        return build(project.root, say=say)
    try:
        with exclusive(project, say):
            offer(editions(project, project.html), project.lab, say)
    except BookError as error:  # chapters and pages are of different builds
        say(f"{error}\n{project.lab} holds the notebooks of an earlier build; `make book` brings them up to date.")
    return 0


def main(arguments: list[str]) -> int:
    project = Project(Path.cwd())
    if code := prepare(project):
        return code
    folder = project.lab.relative_to(project.root).as_posix()
    command = [sys.executable, "-m", "jupyter", "lab", f"--LabApp.default_url=/lab/tree/{folder}"]
    command += ["--LabApp.news_url=None", *(["--allow-root"] if os.geteuid() == 0 else []), *arguments]
    os.execv(command[0], command)
