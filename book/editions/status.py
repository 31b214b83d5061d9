"""Tables of the page ``book/status``: what was run, with what, for how long, and which equations are tested."""

import re
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from book import studies
from book.editions.equations import equation_labels, equation_tests
from book.editions.project import Project, code_cells, source_of
from book.editions.templates import markdown

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "matplotlib")
PACKAGES += ("jupyter-book", "sphinx", "papermill", "jupyterlab", "ipywidgets")
LOADED = re.compile(r"""\bload\(\s*["']([\w.-]+)["']""")


def title_of(notebook: dict, name: str) -> str:
    """The first heading of a chapter."""
    prose = "\n".join(source_of(cell) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    return found[1].strip() if (found := re.search(r"^# +(.+)$", prose, re.MULTILINE)) else name


def data_used(root: Path, notebook: dict, results: dict[str, dict], prefix: str) -> list[str]:
    """Names of the registered data sets that a chapter loads, or that a stored result of its study comes from."""
    registry = root / "bnnlib" / "datasets" / "registry.toml"
    known = tomllib.loads(registry.read_text(encoding="utf-8")) if registry.exists() else {}
    known |= {name: {} for part in known.values() if isinstance(part, dict) for name in part}
    code = "\n".join(source_of(cell) for cell in code_cells(notebook))
    names = set(known) & set(LOADED.findall(code))
    return sorted(
        names.union(*(one.get("data") or () for name, one in results.items() if name.startswith(f"{prefix}-")))
    )


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def tables(project: Project, chapters: dict[str, dict], profile: str, results: dict) -> dict[str, Callable[[], str]]:
    """The tables of what ran; results: see `compared.stored_results`."""
    named, _ = equation_tests(project.root)
    labels = {name: equation_labels(notebook) for name, notebook in chapters.items()}

    prefixes = {Path(one.notebook).stem: one.prefix for one in studies.all(project.root / "chapters")}

    def ran() -> str:
        rows = []
        for name, notebook in chapters.items():
            run = notebook["metadata"]["bnn_book"]
            tested = f"{len(named & set(labels[name]))} of {len(labels[name])}"
            sets = (
                ", ".join(data_used(project.root, notebook, results, prefixes.get(Path(name).stem, "")))
                or "simulated or bundled"
            )
            title, minutes = f"[{title_of(notebook, name)}](../{name})", f"{run['seconds'] / 60:.1f}"
            rows.append([title, run["profile"], minutes, tested, sets])
        return markdown(["Chapter", "Profile", "Minutes", "Equations", "Data sets"], rows)

    def untested() -> str:
        found = [f"`{label}`" for own in labels.values() for label in own if label not in named]
        return f"Labeled equations without a test of their own: {', '.join(found)}." if found else ""

    def versions() -> str:
        packages = [[name, installed(name)] for name in PACKAGES]
        return markdown(["Package", "Version"], [["Python", sys.version.split()[0]], *packages])

    executed = (
        f"The chapters were executed with the profile `{profile}`. "
        "Results come from the committed runs, whatever the profile of the build."
    )
    return {"profile": lambda: executed, "chapters": ran, "untested": untested, "versions": versions}
