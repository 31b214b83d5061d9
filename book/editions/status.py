"""Write the page ``book/status``: what was run, with what, for how long, what is proved, how published cells fare.

The same comparison fills the examples of the page ``book/verdicts``.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from book.editions.compared import headline, markdown, verdicts_by_paper
from book.editions.equations import equation_labels, equation_tests
from book.editions.project import Project, code_cells, source_of

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
EXAMPLE = re.compile(r"^% example: ([\w ]+)$", re.MULTILINE)  # a MyST comment, invisible where nothing fills it


def title_of(notebook: dict, name: str) -> str:
    """The first heading of a chapter."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown" and (found := re.search(r"^# +(.+)$", source_of(cell), re.MULTILINE)):
            return found[1].strip()
    return name


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


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def read_of(name: str, notebook: dict) -> list:
    """All that `page` goes by of a chapter: another sentence in its text changes nothing of it."""
    code = [source_of(cell) for cell in code_cells(notebook)]
    return [name, title_of(notebook, name), equation_labels(notebook), notebook["metadata"]["bnn_book"], code]


def page(project: Project, chapters: dict[str, dict], profile: str, results: dict, found: dict[str, dict]) -> str:
    """The page's text."""
    named, _ = equation_tests(project.root)
    rows, untested = [], []
    for name, notebook in chapters.items():
        run = notebook["metadata"]["bnn_book"]
        labels = equation_labels(notebook)
        tested = named & set(labels)
        untested += [f"`{label}`" for label in labels if label not in tested]
        rows.append(
            [
                f"[{title_of(notebook, name)}](../{name})",
                run["profile"],
                f"{run['seconds'] / 60:.1f}",
                f"{len(tested)} of {len(labels)}",
                ", ".join(data_used(project.root, notebook, results)) or "simulated or bundled",
            ]
        )
    text = [
        "# Status of this build",
        "Nothing on this page is typed by hand: the build writes it each time the book is made.",
        f"The chapters were executed with the profile `{profile}`. "
        "Results come from the committed runs, whatever the profile of the build.",
        "## Chapters",
        "*Equations* counts the labeled equations that a test of their own checks.",
        markdown(["Chapter", "Profile", "Minutes", "Equations", "Data sets"], rows),
    ]
    if untested:
        text.append("Labeled equations without a test of their own: " + ", ".join(untested) + ".")
    text += ["## Results", *_results(project, found)]
    text += [
        "## Versions",
        markdown(
            ["Package", "Version"],
            [["Python", sys.version.split()[0]], *[[name, installed(name)] for name in PACKAGES]],
        ),
    ]
    return "\n\n".join(text) + "\n"


def _results(project: Project, found: dict[str, dict]) -> list[str]:
    """How the published cells fare, those of the papers' own methods first, and the validity of the results."""
    if not found:
        return ["No results are committed yet."]
    states = []
    for document, study in project.reports.items():
        own = [one for name, one in found.items() if name.startswith(f"{study.prefix}-")]
        words = Counter(one["state"] or "not run" for one in own)
        minutes = sum(one["provenance"].get("minutes", 0.0) for one in own)
        link = f"[{study.number:02} {study.title}](reports/{Path(document).name}.md)"
        valid = ", ".join(f"{number} {word}" for word, number in words.items())
        states.append([link, str(len(own)), valid, f"{minutes:,.0f}"])
    return [
        *headline(found),
        "### Other published numbers",
        "Methods that the papers quote from elsewhere:",
        verdicts_by_paper(found, "rival"),
        "Numbers of somebody else that check our own reference, and say nothing of a method of the papers:",
        verdicts_by_paper(found, "oracle"),
        "### Validity",
        "A result is *current* while the code that made it is unchanged, *certified* when the code has "
        "moved and small seeded runs of it gave the same numbers and read the same data (*without data* where they are "
        "not at hand), *accepted* when they differ for a stated reason; "
        "*moved* is not settled yet, *changed since* and *outdated* results wait to be computed again. *Dirty* results "
        "come from a tree with uncommitted changes.",
        markdown(["Report", "Experiments", "Validity", "Minutes"], states),
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
