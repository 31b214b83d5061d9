"""Conclusions of the papers that did not survive here or came out stronger, each held by stored numbers."""

from __future__ import annotations

import math
import statistics
import tomllib
from pathlib import Path
from typing import Any

from book.editions.project import BookError, Project

FILE = "book/conclusions.toml"
KEYS = {"survives", "paper", "claim", "found", "experiment", "setting", "method", "metric", "says"}
OPTIONAL = {"other", "than"}
SAYS = ("below", "above", "no gain")
Found = dict[str, dict[str, Any]]


def told(project: Project, found: Found, survives: bool) -> str:
    """One kind of conclusions as a Markdown list.

    Raises:
        BookError: an entry is incomplete, or what is stored does not say what it claims.
    """
    links = {
        name: f"[{study.number:02}](reports/{document.rpartition('/')[2]}.md), "
        for document, study in project.reports.items()
        for name in found
        if name.startswith(f"{study.prefix}-")
    }
    entries = [(one, measured(one, found)) for one in listed(project.root)]
    return "\n".join(
        f"- **Paper {one['paper']}.** {_claim(one, found)}\n"
        f"  *Here:* {one['found']}\n"
        f"  Measured: **{value}** ({links.get(one['experiment'], '')}`{one['experiment']}`)."
        for one, value in entries
        if one["survives"] is survives
    )


def listed(root: Path) -> list[dict[str, Any]]:
    """The entries of the file, each with all that it must have."""
    entries = tomllib.loads((root / FILE).read_text(encoding="utf-8"))["conclusion"]
    for one in entries:
        if wrong := (KEYS - set(one)) | (set(one) - KEYS - OPTIONAL):
            raise BookError(f"{FILE}: {one.get('claim', one)}: {', '.join(sorted(wrong))} is missing or unknown")
        if one["says"] not in SAYS or ("other" in one) == ("than" in one):
            raise BookError(f"{FILE}: {one['claim']}: says is one of {', '.join(SAYS)}, of a difference or of a mean")
    return entries


def measured(one: dict[str, Any], found: Found) -> str:
    """What decides a conclusion: "mean ± standard error, n", or that nothing is stored.

    Raises:
        BookError: fewer than three replicates, or they say something else, or a row is not comparable.
    """
    if not found.get(one["experiment"], {}).get("runs"):
        return "(not run)"
    for method in {one["method"], one.get("other", one["method"])}:
        if _row(one, found, method).get("verdict", "").startswith("not comparable"):
            raise BookError(f"{FILE}: {one['claim']}: {method} is not comparable")
    ours = _row(one, found, one["method"]).get("values", [])
    if "other" in one:
        theirs = _row(one, found, one["other"]).get("values", [])
        if len(ours) != len(theirs):
            raise BookError(f"{FILE}: {one['claim']}: {len(ours)} and {len(theirs)} replicates are no pairs")
        ours = [a - b for a, b in zip(ours, theirs, strict=True)]
    # here, so that a book whose library is not bnnlib can be built
    from book.lab.intervals import FEW, decided, spread

    if len(ours) < FEW:
        raise BookError(f"{FILE}: {one['claim']}: rests on {len(ours)} replicates, fewer than {FEW}")
    mean, error = statistics.fmean(ours), spread(ours, found[one["experiment"]]["overlap"])
    gap = mean - one.get("than", 0.0)
    found = ("below" if gap < 0 else "above") if decided(gap, error, len(ours)) else "no gain"
    if found != one["says"]:
        raise BookError(f"{FILE}: {one['claim']}: {mean:.3g} ± {error:.2g} is not {one['says']!r}")
    digits = max(0, 1 - math.floor(math.log10(error))) if error else 0
    sign = "+" if "other" in one else ""
    return f"{mean:{sign}.{digits}f} ± {error:.{digits}f}".replace("-", "−") + f", n = {len(ours)}"


def _claim(one: dict[str, Any], found: Found) -> str:
    printed = {"first": one["method"], "second": one.get("other", "")}
    texts = {name: _row(one, found, method).get("published") for name, method in printed.items()}
    return one["claim"].format(**{name: "–" if text is None else f"{text:g}" for name, text in texts.items()})


def _row(one: dict[str, Any], found: Found, method: str) -> dict[str, Any]:
    where = (one["setting"], method, one["metric"])
    rows = found.get(one["experiment"], {}).get("rows", [])
    return next((row for row in rows if (row["setting"], row["method"], row["metric"]) == where), {})
