"""Conclusions of the papers that did not survive here or came out stronger, each held by stored numbers."""

import math
import statistics
import tomllib
from pathlib import Path
from typing import Any

from book.editions.compared import Found
from book.editions.project import BookError, Project

FILE = "book/conclusions.toml"
KEYS = {"survives", "paper", "claim", "found", "experiment", "setting", "method", "metric", "says"}
SAYS = ("below", "above", "no gain")
Entry = dict[str, Any]


def told(project: Project, found: Found, survives: bool) -> str:
    """One kind of conclusions as a Markdown list."""
    lines = []
    for one in (one for one in listed(project.root) if one["survives"] is survives):
        reports = [each for each in project.reports.items() if one["experiment"].startswith(f"{each[1].prefix}-")]
        links = "".join(f"[{study.number:02}](reports/{Path(document).name}.md), " for document, study in reports)
        lines += [f"- **Paper {one['paper']}.** {_claim(one, found)}", f"  *Here:* {one['found']}"]
        lines.append(f"  Measured: **{measured(one, found)}** ({links}`{one['experiment']}`).")
    return "\n".join(lines)


def listed(root: Path) -> list[Entry]:
    """The entries of the file, each with all that it must have."""
    entries = tomllib.loads((root / FILE).read_text(encoding="utf-8"))["conclusion"]
    for one in entries:
        if wrong := KEYS ^ (set(one) - {"other", "than"}):
            raise BookError(f"{FILE}: {one.get('claim', one)}: {', '.join(sorted(wrong))} is missing or unknown")
        if one["says"] not in SAYS or ("other" in one) == ("than" in one):
            raise BookError(f"{FILE}: {one['claim']}: says is one of {', '.join(SAYS)}, of a difference or of a mean")
    return entries


def measured(one: Entry, found: Found) -> str:
    """What decides a conclusion: "mean ± standard error, n", or that nothing is stored."""
    if not found.get(one["experiment"], {}).get("runs"):
        return "(not run)"
    # here, so that a book whose library is not bnnlib can be built
    from book.lab.intervals import FEW, decided, spread

    where, rows = f"{FILE}: {one['claim']}", _rows(one, found)
    if unlike := [row["method"] for row in rows if row.get("verdict", "").startswith("not comparable")]:
        raise BookError(f"{where}: {unlike[0]} is not comparable")
    values = [row.get("values", []) for row in rows]
    if len(set(map(len, values))) > 1:
        raise BookError(f"{where}: {' and '.join(map(str, map(len, values)))} replicates are no pairs")
    numbers = [ours - sum(theirs) for ours, *theirs in zip(*values, strict=True)]
    if len(numbers) < FEW:
        raise BookError(f"{where}: rests on {len(numbers)} replicates, fewer than {FEW}")
    mean, error = statistics.fmean(numbers), spread(numbers, found[one["experiment"]]["overlap"])
    gap = mean - one.get("than", 0.0)
    if one["says"] != (("below" if gap < 0 else "above") if decided(gap, error, len(numbers)) else "no gain"):
        raise BookError(f"{where}: {mean:.3g} ± {error:.2g} is not {one['says']!r}")
    digits = max(0, 1 - math.floor(math.log10(error))) if error else 0
    sign = "+" if "other" in one else ""
    return f"{mean:{sign}.{digits}f} ± {error:.{digits}f}".replace("-", "−") + f", n = {len(numbers)}"


def _claim(one: Entry, found: Found) -> str:
    """The claim with the values that are published of the one or two methods."""
    printed = [row.get("published") for row in _rows(one, found)]
    texts = ["–" if text is None else f"{text:g}" for text in printed]
    return one["claim"].format(**dict(zip(("first", "second"), texts, strict=False)))


def _rows(one: Entry, found: Found) -> list[dict[str, Any]]:
    """The rows of the method and, where there is one, of the other; empty where they are not stored."""
    rows = found.get(one["experiment"], {}).get("rows", [])
    known = {(row["setting"], row["method"], row["metric"]): row for row in rows}
    methods = [one["method"], *filter(None, [one.get("other")])]
    return [known.get((one["setting"], method, one["metric"]), {}) for method in methods]
