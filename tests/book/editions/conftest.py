"""A scratch project: the real builder, configuration and pages over small chapters and a library of one line."""

from __future__ import annotations

import base64
import io
import json
import shutil
from pathlib import Path

import pytest
import yaml
from PIL import Image

from book.editions.build import build

PARAMETERS = ("parameters", 'PROFILE = "smoke"', {"tags": ["parameters", "remove-cell"]})


def notebook(*cells: tuple) -> dict:
    """A notebook of (id, source[, metadata]) cells; a source that starts with "# " or is prose is Markdown."""
    made = []
    for name, source, *metadata in cells:
        cell = {"id": name, "metadata": metadata[0] if metadata else {}, "source": source}
        if name.startswith("text"):
            made.append({"cell_type": "markdown", **cell})
        else:
            made.append({"cell_type": "code", "execution_count": None, "outputs": [], **cell})
    kernel = {"display_name": "Python 3", "language": "python", "name": "another-machines-kernel"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def counting(title: str, *cells: tuple) -> dict:
    """A chapter that leaves a line in runs.txt each time it is executed."""
    note = f"with open('../runs.txt', 'a') as runs:\n    print({title!r}, PROFILE, file=runs)"
    return notebook(("text-title", f"# {title}\n"), PARAMETERS, ("note", note), *cells)


class Scratch:
    """The scratch tree and what its builds said."""

    def __init__(self, root: Path, source: Path):
        self.root, self.said = root, ""
        for name in ("_config.yml", "requirements.txt"):
            shutil.copyfile(source / name, root / name)
        # Without the real pages, which refer to the real chapters.
        shutil.copytree(source / "book", root / "book", ignore=shutil.ignore_patterns("__pycache__", "*.md"))
        shutil.copyfile(source / "book/status.md", root / "book/status.md")
        self.write("book/index.md", "# A book\n\nFor the tests: {cite:t}`bai2020efficient`.\n")
        self.write("book/bibliography.md", "# Bibliography\n\n```{bibliography}\n```\n")
        (root / "chapters").mkdir()
        self.write("bnnlib/__init__.py", "VALUE = 1\n")
        self.list()

    def write(self, name: str, content: str | dict) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content) if isinstance(content, dict) else content)
        return path

    def list(self, *chapters: str) -> None:
        """Let _toc.yml name these chapters."""
        part = {"caption": "Chapters", "chapters": [{"file": f"chapters/{name}"} for name in chapters]}
        last = {"caption": "End", "chapters": [{"file": "book/status"}, {"file": "book/bibliography"}]}
        toc = {"format": "jb-book", "root": "book/index", "parts": [*([part] if chapters else []), last]}
        self.write("_toc.yml", yaml.safe_dump(toc, sort_keys=False))

    def chapters(self, **chapters: dict) -> None:
        """Write the chapters and name them in _toc.yml."""
        for name, content in chapters.items():
            self.write(f"chapters/{name}.ipynb", content)
        self.list(*chapters)

    def build(self, execute_only: bool = True, profile: str = "smoke", jobs: int = 2) -> int:
        lines: list[str] = []
        code = build(self.root, profile, jobs, execute_only, say=lines.append)
        self.said = "\n".join(lines)
        return code

    def runs(self) -> list[str]:
        """One line for each execution of a counting chapter so far."""
        path = self.root / "runs.txt"
        return sorted(path.read_text().split("\n")[:-1]) if path.exists() else []

    def staged(self, name: str) -> dict:
        return json.loads((self.root / f"_build/book/chapters/{name}.ipynb").read_text())


@pytest.fixture
def scratch(tmp_path, root, monkeypatch) -> Scratch:
    monkeypatch.delenv("BNNLIB_DATA", raising=False)
    return Scratch(tmp_path, root)


@pytest.fixture(scope="module")
def lasting_scratch(tmp_path_factory, root) -> Scratch:
    """One for all tests of a file, which only read what is made in it."""
    return Scratch(tmp_path_factory.mktemp("scratch"), root)


@pytest.fixture(scope="session")
def make_notebook():
    return notebook


@pytest.fixture
def make_counting():
    return counting


@pytest.fixture(scope="session")
def drawn():
    """Make a code cell one that has drawn a figure of 40 by 20 pixels, with a caption and this alternative text."""
    out = io.BytesIO()
    Image.new("RGB", (40, 20), "white").save(out, "PNG")
    data = {"image/png": base64.b64encode(out.getvalue()).decode()}

    def draw(cell: dict, alt: str) -> None:
        cell["metadata"]["mystnb"] = {"figure": {"name": "fig", "caption": "What $\\phi$ is."}, "image": {"alt": alt}}
        cell["outputs"] = [{"output_type": "display_data", "data": data, "metadata": {}}]

    return draw
