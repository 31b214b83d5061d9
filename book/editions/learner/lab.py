"""Open the learner's notebooks: ``python -m book lab [options of jupyter lab]`` (``make lab`` calls it)."""

import json
import os
import subprocess
import sys
from pathlib import Path

from book.editions.build import build, exclusive
from book.editions.learner.write import editions, offer
from book.editions.project import Project
from book.editions.render import rendered

# jupyterlab-myst, which serves authors, would put a second number beside each equation's; the other asks for news.
DISABLED = {"jupyterlab-myst": True, "@jupyterlab/apputils-extension:announcements": True}


def plain_jupyterlab(folder: Path) -> dict[str, str]:
    """The environment in which JupyterLab shows plain Markdown; what it reads for that is written into `folder`."""
    path = folder / "labconfig" / "page_config.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"disabledExtensions": DISABLED}), encoding="utf-8")
    paths = [str(folder), *filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])]
    return {"JUPYTER_CONFIG_PATH": os.pathsep.join(paths)}


def prepare(project: Project, say=print) -> int:
    """Have the notebooks of the last build in ``_build/lab``, building the book if there is none; the exit code."""
    if not any(project.lab.glob("*.ipynb")) and not rendered(project):
        return build(project.root, say=say)
    if not rendered(project):  # numbers of these pages would not fit the chapters that lie there now
        say(f"{project.lab} holds the notebooks of an earlier build; `make book` brings them up to date.")
        return 0
    with exclusive(project, say):
        offer(editions(project, project.html), project.lab, say)
    return 0


def _answered(arguments: list[str]) -> int | None:
    """The exit code where JupyterLab refuses the options, or only tells of itself."""
    jupyter = [sys.executable, "-m", "jupyter", "lab", *arguments]
    if {"-h", "--help", "--help-all", "--version"}.intersection(arguments):
        return subprocess.run(jupyter, check=False).returncode
    return subprocess.run([*jupyter, "--show-config"], stdout=subprocess.DEVNULL, check=False).returncode or None


def main(arguments: list[str]) -> int:
    if arguments and (code := _answered(arguments)) is not None:  # before a build of minutes
        return code
    project = Project(Path.cwd())
    if code := prepare(project):
        return code
    folder = project.lab.relative_to(project.root).as_posix()
    command = [sys.executable, "-m", "jupyter", "lab", f"--LabApp.default_url=/lab/tree/{folder}"]
    command += ["--LabApp.news_url=None", *(["--allow-root"] if os.geteuid() == 0 else []), *arguments]
    os.execve(command[0], command, os.environ | plain_jupyterlab(project.lab / ".jupyter"))
