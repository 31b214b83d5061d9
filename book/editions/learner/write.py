"""Write the learner's notebooks: into ``_build/lab`` to work on, and behind the download button of each page."""

import json
from pathlib import Path

from book.editions.learner import companion
from book.editions.learner.names import Names
from book.editions.learner.notebook import edition, fingerprint
from book.editions.project import BookError, Project, read_notebook


def first_cell(root: Path) -> str:
    """What the notebook needs, where it may lie."""
    known = companion.address(root)
    alone = f"the next cell fetches it from {known}" if known else "the download button of the page gives it, too"
    upload = "" if known else f" Upload `{companion.NAME}.zip` first, by the folder icon on the left."
    return f"""\
**Learner's edition.** Run the cells, change them, answer the exercises; solutions are folded at the end.
The next cell finds the code and the stored results that the notebook calls, and installs packages that are missing.

- *From `make lab`, or in the unpacked folder `{companion.NAME}`:* everything is there.
- *This file alone, in Jupyter or VS Code:* it needs `{companion.NAME}.zip` beside it; {alone}.
- *In Colab:* the same.{upload}"""


def editions(project: Project, html: Path) -> dict[str, dict]:
    """The learner's edition of every chapter by its path, from the staged copies and what the pages in `html` show."""
    first, made = (first_cell(project.root), companion.start(project.root)), {}
    for name in project.notebooks:
        names = Names.read(html, name.removesuffix(".ipynb"))
        made[name] = edition(read_notebook(project.staging / name), names, first)
    return made


def as_json(notebook: dict) -> str:
    """The file's text: sources as lists of lines, so that changes can be read."""
    cells = [{**cell, "source": cell["source"].splitlines(keepends=True)} for cell in notebook["cells"]]
    return json.dumps({**notebook, "cells": cells}, ensure_ascii=False, indent=1) + "\n"


def publish(project: Project, made: dict[str, dict], html: Path) -> None:
    """Put the editions, and what they run on, where the download buttons of the pages in `html` lead to."""
    texts = {name: as_json(notebook) for name, notebook in made.items()}
    for name, text in texts.items():
        path = html / "_sources" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        # A browser shows a file of the disk whatever the link says, and lets a page read it only as a script.
        path.with_name(f"{path.name}.js").write_text(f"bnnKeep({json.dumps(text)});\n", encoding="utf-8")
    if texts:
        (html / "_sources" / f"{companion.NAME}.zip").write_bytes(companion.archive(project, texts))


def state(path: Path) -> tuple[str | None, bool]:
    """The edition that a learner's notebook started from, and whether a learner has changed its sources since."""
    begun = None
    try:
        notebook = read_notebook(path)
        begun = _version(notebook)
        return begun, fingerprint(notebook) != begun
    except (BookError, KeyError):  # half saved, or of another making: not ours to overwrite
        return begun, True


def offer(made: dict[str, dict], folder: Path, say=print) -> list[Path]:
    """Write the editions into the learner's folder; what a learner has changed stays, and the new one goes beside it.

    Returns:
        The notebooks to work on, in the book's order.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, notebook in made.items():
        path = folder / Path(name).name
        paths.append(path)
        beside = path.with_suffix(".new.ipynb")
        begun, changed = state(path) if path.exists() else (None, False)
        if not changed:
            if begun != _version(notebook):
                path.write_text(as_json(notebook), encoding="utf-8")
            beside.unlink(missing_ok=True)
        elif begun != _version(notebook):
            beside.write_text(as_json(notebook), encoding="utf-8")
            say(f"{path.name} holds your changes and was left alone; the chapter's new edition is {beside.name}.")
    return paths


def _version(notebook: dict) -> str:
    return notebook["metadata"]["bnn_learner"]["sources"]
