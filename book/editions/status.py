"""Write the page ``book/status``: what was run, with what, for how long, and how much is proved or reproduced."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from book.editions.equations import equation_labels, equation_tests
from book.editions.project import BookError, Project, code_cells, digest, files_below, source_of

VERDICTS = ("reproduced", "within noise", "better", "not reproduced", "not run")
PACKAGES = (
    "torch",
    "numpy",
    "scipy",
    "scikit-learn",
    "matplotlib",
    "jupyter-book",
    "sphinx",
    "papermill",
    "jupyterlab",
    "ipywidgets",
)
LOADED = re.compile(r"""\bload\(\s*["']([\w.-]+)["']""")
# Runs in the built tree's own bnnlib, apart from this process, so that a broken library cannot break the builder.
COMPARE = """
import json, sys
from book import lab
rows = {name: lab.compare(name) for name in sys.argv[1:] if name in lab.names()}
judged = {name: [row["verdict"] for row in found if row["published"] is not None] for name, found in rows.items()}
print(json.dumps(judged))
"""


def title_of(notebook: dict, name: str) -> str:
    """The first heading of a chapter."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown" and (found := re.search(r"^# +(.+)$", source_of(cell), re.MULTILINE)):
            return found[1].strip()
    return name


def stored_results(root: Path) -> dict[str, dict]:
    """Provenance of the committed results by experiment, the largest profile of each."""
    found: dict[str, dict] = {}
    for profile in ("smoke", "book", "paper"):
        for path in sorted((root / "data" / "results").glob(f"*.{profile}.json")):
            result = json.loads(path.read_text(encoding="utf-8"))
            found[path.name.removesuffix(f".{profile}.json")] = {"profile": profile, **result.get("provenance", {})}
    return found


def verdicts(root: Path, names: list[str]) -> dict[str, Counter]:
    """How many comparisons with published numbers ended in which verdict, by experiment.

    Raises:
        BookError: the library could not compare; the message holds its error.
    """
    if not names or not (root / "book" / "lab").is_dir():
        return {}
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]),
        "BNNLIB_HOME": str(root / "data"),
    }
    done = subprocess.run(
        [sys.executable, "-c", COMPARE, *names], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BookError(f"The verdicts for the status page could not be computed:\n{done.stderr}")
    return {name: Counter(v.split(":")[0].strip() for v in found) for name, found in json.loads(done.stdout).items()}


def data_used(root: Path, notebook: dict, results: dict[str, dict]) -> list[str]:
    """Names of the registered data sets that a chapter loads, or that a result it shows was computed from."""
    registry = root / "bnnlib" / "datasets" / "registry.toml"
    known = tomllib.loads(registry.read_text(encoding="utf-8")) if registry.exists() else {}
    code = "\n".join(source_of(cell) for cell in code_cells(notebook))
    names = {
        name
        for name in LOADED.findall(code)
        if name in known or any(name in part for part in known.values() if isinstance(part, dict))
    }
    for name in results_shown(notebook, results):
        names |= set(results[name].get("data") or {})
    return sorted(names)


def results_shown(notebook: dict, results: dict[str, dict]) -> list[str]:
    """Experiments that a chapter's code names, whole ("svbnn-lambda") or put together (f"svbnn-{x}", "lambda")."""
    code = "\n".join(source_of(cell) for cell in code_cells(notebook))
    strings = set(re.findall(r"""["']([\w-]+)["']""", code))
    prefixes = re.findall(r"""\bf["']([\w-]+-)\{\w+\}["']""", code)
    strings |= {prefix + rest for prefix in prefixes for rest in strings}
    return [name for name in results if name in strings]


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def page(project: Project, chapters: dict[str, dict], profile: str) -> str:
    """The page's text."""
    results = stored_results(project.root)
    counts = verdicts(project.root, sorted(results))
    named, _ = equation_tests(project.root)
    rows, untested = [], []
    for name, notebook in chapters.items():
        run = notebook["metadata"]["bnn_book"]
        labels = equation_labels(notebook)
        tested = named & set(labels)
        untested += [f"`{label}`" for label in labels if label not in tested]
        verdict = sum((counts.get(shown, Counter()) for shown in results_shown(notebook, results)), Counter())
        met = sum(verdict[v] for v in ("reproduced", "within noise", "better"))
        rows.append(
            [
                f"[{title_of(notebook, name)}](../{name})",
                run["profile"],
                f"{run['seconds'] / 60:.1f}",
                f"{len(tested)} of {len(labels)}",
                f"{met} of {sum(verdict.values())}" if verdict else "none stored",
                ", ".join(data_used(project.root, notebook, results)) or "simulated or bundled",
            ]
        )
    text = [
        "# Status of this build",
        "Nothing on this page is typed by hand: the build writes it each time the book is made.",
        f"The chapters were executed with the profile `{profile}`. "
        "Tables of results come from the committed runs listed below, whatever the profile of the build.",
        "## Chapters",
        "*Equations* counts the labeled equations that a test of their own checks. "
        "*Published values met* counts comparisons judged reproduced, within noise or better.",
        table(["Chapter", "Profile", "Minutes", "Equations", "Published values met", "Data sets"], rows),
    ]
    if untested:
        text.append("Labeled equations without a test of their own: " + ", ".join(untested) + ".")
    text.append("## Results")
    if results:
        lines = []
        for name, origin in sorted(results.items()):
            found = counts.get(name, Counter())
            lines.append(
                [f"`{name}`", origin["profile"], _minutes(origin), *[str(found[verdict]) for verdict in VERDICTS]]
            )
        text.append(table(["Experiment", "Profile", "Minutes", *[verdict.capitalize() for verdict in VERDICTS]], lines))
    else:
        text.append("No results are committed yet.")
    text += [
        "## Versions",
        table(
            ["Package", "Version"],
            [["Python", sys.version.split()[0]], *[[name, installed(name)] for name in PACKAGES]],
        ),
    ]
    return "\n\n".join(text) + "\n"


def _minutes(origin: dict) -> str:
    minutes = origin.get("minutes")
    return "unknown" if minutes is None else f"{minutes:.1f}"


def status_page(project: Project, chapters: dict[str, dict], profile: str) -> str:
    """The page's text, taken from the last build when nothing that it tells of has changed."""
    told = [json.dumps(notebook, sort_keys=True) for notebook in chapters.values()]
    sources = [
        Path(__file__),
        *files_below(project.root / "tests" / "equations"),
        project.root / "bnnlib" / "datasets" / "registry.toml",
    ]
    told += [path.read_text(encoding="utf-8") for path in sources if path.exists()]
    key = digest(project.shared_key(profile), *chapters, *told)
    kept, text = project.build / "status.key", project.staging / "book" / "status.md"
    if kept.exists() and text.exists() and kept.read_text() == key:
        return text.read_text(encoding="utf-8")
    made = page(project, chapters, profile)
    kept.write_text(key)
    return made
