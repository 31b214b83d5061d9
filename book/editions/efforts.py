"""Tables of what the published tables took here, chapter by chapter: hours, budgets, and what is left to run."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from book.editions.compared import Found
from book.editions.project import Project
from book.editions.templates import markdown

Chapters = list[tuple[str, str, str, Found]]


def tables(project: Project, found: Found) -> dict[str, Callable[[], str]]:
    """The tables of the chapters' efforts, by the names by which pages ask for them."""
    made = {"hours": _hours, "budgets": _budgets, "left": _left, "validity": _validity, "readings": _readings}
    return {name: partial(table, list(_chapters(project, found))) for name, table in made.items()}


def _chapters(project: Project, found: Found) -> Iterable[tuple[str, str, str, Found]]:
    """Number and title of each chapter with a report, the report's address, and the chapter's experiments."""
    for document, study in project.reports.items():
        own = {name: one for name, one in found.items() if name.startswith(f"{study.prefix}-")}
        yield f"{study.number:02}", study.title, f"reports/{Path(document).name}.md", own


def _each(chapters: Chapters) -> Iterable[tuple[str, str, dict[str, Any]]]:
    """Link to the chapter's report, name and evidence of each experiment with a result."""
    for number, _, address, own in chapters:
        yield from ((f"[{number}]({address})", name, one) for name, one in own.items() if one["runs"])


def _is_gpu(run: dict[str, Any]) -> bool:
    return not run["device"].startswith("cpu")


def _validity(chapters: Chapters) -> str:
    """How many results are current, certified and so on."""
    lines = []
    for number, title, address, own in chapters:
        words = Counter(one["state"] or "not run" for one in own.values())
        valid = ", ".join(f"{count} {word}" for word, count in words.items())
        minutes = sum(one["provenance"].get("minutes", 0.0) for one in own.values())
        lines.append([f"[{number} {title}]({address})", str(len(own)), valid, f"{minutes:,.0f}"])
    return markdown(["Report", "Experiments", "Validity", "Minutes"], lines)


def _hours(chapters: Chapters) -> str:
    """Hours of one processor core and of a GPU, by experiment."""
    lines, total = [], [0, 0.0, 0.0]
    for chapter, name, one in _each(chapters):
        hours = [sum(run["minutes"] for run in one["runs"] if _is_gpu(run) is kind) / 60 for kind in (False, True)]
        total = [before + more for before, more in zip(total, [len(one["runs"]), *hours], strict=True)]
        lines.append([chapter, f"`{name}`", one["profile"], str(len(one["runs"])), *map(_hour, hours)])
    lines.append(["all", "", "", f"{total[0]:,}", *map(_hour, total[1:])])
    table = markdown(["Chapter", "Experiment", "Profile", "Runs", "Processor, h", "GPU, h"], lines)
    told = f"In all {total[0]:,} runs took {total[1]:,.0f} hours of a processor core and {total[2]:,.0f} of a GPU."
    return f"{told}\n\n```{{admonition}} Hours by experiment\n:class: dropdown\n\n{table}\n```"


def _left(chapters: Chapters) -> str:
    """The papers' own sizes that are not run: cells, and the hours that they would take at the rate of what ran."""
    # here, so that a book whose library is not bnnlib can be built
    from book.lab import catalog
    from book.lab.plan import minutes_by_budget, stored_entries

    lines, total = [], [0, 0.0, 0.0, 0]
    for chapter, name, one in _each(chapters):
        experiment = catalog.get(name)
        if one["profile"] == "paper" or "paper" not in experiment.profiles:
            continue
        entries = list(stored_entries(name, one["profile"]).values())
        kind = sum(map(_is_gpu, entries)) > len(entries) / 2  # of most runs; the others say nothing of this device
        alike = [entry for entry in entries if _is_gpu(entry) is kind and entry["seconds"]]
        known = [minutes_by_budget(experiment, cell, alike) for cell in experiment.profiles["paper"]()]
        hours = sum(minutes for minutes in known if minutes is not None) / 60
        line = [len(known), 0.0 if kind else hours, hours if kind else 0.0, known.count(None)]
        total = [before + more for before, more in zip(total, line, strict=True)]
        lines.append([chapter, f"`{name}`", *_sizes(*line)])
    lines.append(["all", "", *_sizes(*total)])
    return markdown(["Chapter", "Experiment", "Cells", "Processor, h", "GPU, h", "Without an estimate"], lines)


def _readings(chapters: Chapters) -> str:
    """How often test rows of the comparison were read: versions of a cell that were committed."""
    from book.lab import history, store

    lines = []
    for _, name, one in _each(chapters):
        if not name.startswith("side-"):
            continue
        read: dict[str, set[str]] = {}
        last: set[str] = set()
        for result in history.versions(name, one["profile"]):
            last = set()
            for about, rows in store.by_cell(result):
                # times are of a machine: a cell that says the same but for them was not read again
                values = [row for row in rows if not row["metric"].startswith("seconds")]
                last.add(label := f"{about['cell']['setting']}, {about['cell']['method']}")
                told = read.setdefault(label, set())
                told.add(hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest())
        again = [label for label, versions in read.items() if len(versions) > 1]
        once = read.keys() - set(again)
        counts = (len(one["runs"]), len(once), len(once - last))
        lines.append([f"`{name}`", *map(str, counts), "; ".join(again) or "–"])
    if not any(line[2] != "0" for line in lines):
        return "This copy has no history of its results."
    return markdown(["Experiment", "Cells", "Read once", "Of these dropped", "Read again"], lines)


def _sizes(cells: int, processor: float, gpu: float, unknown: int) -> list[str]:
    return [f"{cells:,}", *map(_hour, (processor, gpu)), str(unknown or "–")]


def _hour(hours: float) -> str:
    return _short(hours) if hours else "–"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def _budgets(chapters: Chapters) -> str:
    """Epochs or iterations, ours and the published ones, where both are known."""
    lines = []
    for chapter, name, one in _each(chapters):
        known: dict[str, list[tuple[float, float]]] = {}
        for row in one["cells"]:
            if row["mean"] is not None and row["budget"] and row["published_budget"]:
                known.setdefault(row["budget_unit"], []).append((row["budget"], row["published_budget"]))
        for unit, pairs in sorted(known.items()):
            ours, theirs = map(_range, zip(*pairs, strict=True))
            share = _range([100.0 * mine / other for mine, other in pairs])
            lines.append([chapter, f"`{name}`", unit, ours, theirs, f"{share} %"])
    return markdown(["Chapter", "Experiment", "Unit", "Ours", "Published", "Share"], lines)


def _range(values: Iterable[float]) -> str:
    values = list(values)
    ends = [_short(end) for end in (min(values), max(values))]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
