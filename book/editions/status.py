"""Write the page ``book/status``: what was run, with what, for how long, what is proved, how published cells fare.

The same comparison fills the examples of the page ``book/verdicts``.
"""

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

WORDS = (
    "agrees",
    "better",
    "worse",
    "differs",
    "undecided",
    "not comparable",
    "by design",
    "diverged",
    "not run",
)
DECIDED = WORDS[:4]
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
from book.lab import validity
found = {}
for name in sys.argv[1:]:
    if name not in lab.names():
        continue
    rows = lab.compare(name)
    stored = lab.load_result(name)
    dirty = any(cell["dirty"] for cell in stored["cells"])
    state = validity.worst(validity.states(name, stored["profile"])) + (", dirty" if dirty else "")
    found[name] = {"counts": lab.counts(rows), "cells": lab.distinct(rows), "state": state}
print(json.dumps(found))
"""
EXAMPLE = re.compile(r"^% example: ([\w ]+)$", re.MULTILINE)  # a MyST comment, invisible where nothing fills it


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


def verdicts(root: Path, names: list[str]) -> dict[str, dict]:
    """For each experiment "counts" of its distinct published cells by word, and those "cells" themselves.

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
    return json.loads(done.stdout)


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


def page(project: Project, chapters: dict[str, dict], profile: str, results: dict, compared: dict[str, dict]) -> str:
    """The page's text."""
    named, _ = equation_tests(project.root)
    counts = {name: Counter(found["counts"]) for name, found in compared.items()}
    rows, untested = [], []
    for name, notebook in chapters.items():
        run = notebook["metadata"]["bnn_book"]
        labels = equation_labels(notebook)
        tested = named & set(labels)
        untested += [f"`{label}`" for label in labels if label not in tested]
        said = sum((counts.get(shown, Counter()) for shown in results_shown(notebook, results)), Counter())
        decided = sum(said[word] for word in DECIDED)
        rows.append(
            [
                f"[{title_of(notebook, name)}](../{name})",
                run["profile"],
                f"{run['seconds'] / 60:.1f}",
                f"{len(tested)} of {len(labels)}",
                f"{said['agrees'] + said['better']} of {decided}; {said['cells']}" if said["cells"] else "none stored",
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
        "*Published cells* has how many agree or are better, of those that are decided, and how many there are in all.",
        table(["Chapter", "Profile", "Minutes", "Equations", "Published cells", "Data sets"], rows),
    ]
    if untested:
        text.append("Labeled equations without a test of their own: " + ", ".join(untested) + ".")
    states = {name: found["state"] for name, found in compared.items()}
    text += ["## Results", *_results(results, counts, states)]
    text += [
        "## Versions",
        table(
            ["Package", "Version"],
            [["Python", sys.version.split()[0]], *[[name, installed(name)] for name in PACKAGES]],
        ),
    ]
    return "\n\n".join(text) + "\n"


def _results(results: dict[str, dict], counts: dict[str, Counter], states: dict[str, str]) -> list[str]:
    """How the published cells of each experiment fare, and all of them."""
    if not results:
        return ["No results are committed yet."]
    runs = [
        [f"`{name}`", origin["profile"], _cells(origin), _minutes(origin), states.get(name, "")]
        for name, origin in sorted(results.items())
    ]
    lines = [[f"`{name}`", *_line(counts.get(name, Counter()))] for name in sorted(results)]
    total = sum(counts.values(), Counter())
    lines.append(["all", *_line(total)])
    known, share = total["budget known"], total["budget comparable"]
    return [
        "*Runs* are the finished cells of the profile's grid. "
        "*Validity*: the result is *current* while the code that made it is unchanged, *certified* when the code has "
        "moved and small seeded runs of it gave the same numbers, *accepted* when they differ for a stated reason; "
        "*moved* is not settled yet, *changed since* and *outdated* results wait to be computed again. *Dirty* results "
        "come from a tree with uncommitted changes.",
        table(["Experiment", "Profile", "Runs", "Minutes", "Validity"], runs),
        "Published cells by [verdict](verdicts.md), each counted once however many of our rows stand beside it. "
        "*Budget* has how many were run with at least half of the published epochs or iterations, of those that were "
        "run and whose published number is known.",
        table(["Experiment", *[word.capitalize() for word in WORDS], "Cells", "Budget"], lines),
        f"Of {total['cells']} published cells {total['cells'] - total['not run']} were run; of {known} of these the "
        f"published budget is known, and {share} had at least half of it.",
    ]


def _line(said: Counter) -> list[str]:
    known = said["budget known"]
    return [
        *[str(said[word]) for word in (*WORDS, "cells")],
        f"{said['budget comparable']} of {known}" if known else "–",
    ]


def examples(template: str, cells: list[dict]) -> str:
    """The page of verdicts with one cell of the stored results after each word that asks for one.

    It is the first of those with the most replicates, and of those with a known published budget where there are any.
    """

    def example(match: re.Match) -> str:
        word = match[1].strip()
        found = [row for row in cells if row["verdict"].partition(":")[0] == word]
        if not found:
            return "No published cell has this verdict in the stored results."
        row = max(found, key=lambda one: (one["published_budget"] is not None, one["n"]))
        return f"For example, paper {row['paper']}, {row['cell']} ({row['setting']}, {row['method']}): {_said(row)}."

    return EXAMPLE.sub(example, template)


def _said(row: dict) -> str:
    parts = [f"published {row['printed']}"]
    if row["mean"] is not None:
        parts.append(f"ours {row['mean']:.4g}" + ("" if row["se"] is None else f" ± {row['se']:.2g}"))
        parts[-1] += f" (n = {row['n']})"
    if row["difference"] is not None:
        error = "" if row["error"] is None else f", s = {row['error']:.2g}"
        parts.append(f"d = {row['difference']:+.3g}{error}, m = {row['margin']:.2g}")
    return ", ".join(parts) + f"; **{row['verdict']}**"


def _cells(origin: dict) -> str:
    cells = origin.get("cells") or {}
    return f"{cells['done']} of {cells['total']}" if cells else "unknown"


def _minutes(origin: dict) -> str:
    minutes = origin.get("minutes")
    return "unknown" if minutes is None else f"{minutes:.1f}"


def written_pages(project: Project, chapters: dict[str, dict], profile: str) -> dict[str, str]:
    """The pages that a build writes or completes, by path; those of the last build when nothing changed for them."""
    told = [json.dumps(notebook, sort_keys=True) for notebook in chapters.values()]
    template = project.root / "book" / "verdicts.md"
    sources = [
        Path(__file__),
        template,
        *files_below(project.root / "tests" / "equations"),
        project.root / "bnnlib" / "datasets" / "registry.toml",
    ]
    told += [path.read_text(encoding="utf-8") for path in sources if path.exists()]
    key = digest(project.shared_key(profile), *chapters, *told)
    names = ["book/status.md", *(["book/verdicts.md"] if template.exists() else [])]
    kept, staged = project.build / "status.key", [project.staging / name for name in names]
    if kept.exists() and all(path.exists() for path in staged) and kept.read_text() == key:
        return {name: path.read_text(encoding="utf-8") for name, path in zip(names, staged, strict=True)}
    results = stored_results(project.root)
    compared = verdicts(project.root, sorted(results))
    made = {"book/status.md": page(project, chapters, profile, results, compared)}
    if template.exists():
        cells = [row for found in compared.values() for row in found["cells"]]
        made["book/verdicts.md"] = examples(template.read_text(encoding="utf-8"), cells)
    kept.write_text(key)
    return made
