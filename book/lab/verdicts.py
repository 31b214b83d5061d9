"""In which words our numbers are laid beside published ones: the rule, and how cells are counted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from book.lab.published import PaperValue

AGREES = "agrees"
BETTER = "better"
WORSE = "worse"
DIFFERS = "differs"
UNDECIDED = "undecided"
NOT_COMPARABLE = "not comparable"
BY_DESIGN = "by design"
DIVERGED = "diverged"
NOT_RUN = "not run"
WORDS = (AGREES, BETTER, WORSE, DIFFERS, UNDECIDED, NOT_COMPARABLE, BY_DESIGN, DIVERGED, NOT_RUN)
NOT_PUBLISHED = "not published"
"""What stands in the place of a word where only we have a number."""
SYMBOLS = {AGREES: "✓", BETTER: "▲", WORSE: "▼", DIFFERS: "≠", UNDECIDED: "?", DIVERGED: "✗", NOT_PUBLISHED: "·"}
"""Signs of the words; what was not judged has a dash."""

FEW = 3
"""Fewer replicates than this decide only what is beyond `FAR` interesting differences."""
FAR = 3.0
FAILED_SHARE = 0.1
"""A larger share of failed replicates leaves a mean that speaks of the survivors only."""

# one published cell beside several of our rows: what has a say, and who wins a tie
_VOTERS = (WORSE, DIVERGED, DIFFERS, UNDECIDED, AGREES, BETTER)
_SILENT = (BY_DESIGN, NOT_COMPARABLE, NOT_RUN)


@dataclass(frozen=True)
class Verdict:
    """A word with its reason, and the numbers that it follows from.

    Args:
        word: one of `WORDS`, or `NOT_PUBLISHED`.
        reason: why the word is not a plain comparison; "" where it is.
        difference: ours - published, None without both.
        error: combined standard error of the difference, None where neither number has one.
        margin: rounding, reading error and declared tolerance.
    """

    word: str
    reason: str = ""
    difference: float | None = None
    error: float | None = None
    margin: float | None = None

    def __str__(self) -> str:
        return f"{self.word}: {self.reason}" if self.reason else self.word


def verdict(
    value: PaperValue,
    mean: float,
    se: float | None = None,
    n: int = 1,
    *,
    failed: int = 0,
    obstacles: Iterable[str] = (),
) -> Verdict:
    """Judge our mean against a published one; the first of these rules that holds gives the word.

    With d = ours - published, the combined standard error ``s = sqrt(se^2 + value.se^2)`` (ours over replicates; theirs
    over replicates and, once, that of the test set) and the margin m = rounding + reading error + tolerance:

    1. **diverged**: more than a tenth of the replicates failed.
    2. **by design**: the method or its user fixes the number.
    3. **not comparable**: other data, teacher, hardware, selection rule, or less than half of the published budget.
    4. **undecided**: n < 3, or 2 s above the interesting difference; unless ``|d|`` is beyond m + 2 s and beyond three
       interesting differences as well.
    5. **agrees**: ``|d| <= m + 2 s``.
    6. **better** or **worse** in the metric's direction (for a coverage: closer to its nominal level or not), and
       **differs** where it has none.

    What was not run has no mean; `compare` says **not run** with the reason.

    Args:
        value: the published number.
        mean: ours, in the same unit.
        se: standard error of ours; None (a single run) counts as 0.
        n: replicates behind it.
        failed: replicates that failed, beside those.
        obstacles: what stands between the two numbers beside `value.not_comparable`.
    """
    difference, error = mean - value.mean, math.hypot(se or 0.0, value.se)
    known = error if se is not None or value.se else None
    found = Verdict(AGREES, "", difference, known, value.margin)
    if failed and failed > FAILED_SHARE * (n + failed):
        return replace(found, word=DIVERGED, reason=f"{failed} of {n + failed} replicates failed")
    if value.by_design:
        return replace(found, word=BY_DESIGN, reason=value.by_design)
    if reasons := [one for one in (*obstacles, value.not_comparable) if one]:
        return replace(found, word=NOT_COMPARABLE, reason="; ".join(reasons))
    rim = 1e-9 * max(1.0, abs(value.mean))  # decimal limits such as 0.005 are not exact in binary
    apart = abs(difference) > value.margin + 2.0 * error + rim
    if not (apart and abs(difference) > FAR * value.interesting + rim):
        if n < FEW:
            return replace(found, word=UNDECIDED, reason="one run" if n == 1 else f"{n} runs")
        if 2.0 * error > value.interesting + rim:
            text = f"2 s = {2.0 * error:.2g}, above the interesting difference of {value.interesting:.2g}"
            return replace(found, word=UNDECIDED, reason=text)
    if not apart:
        return found
    if value.direction == "none":
        return replace(found, word=DIFFERS)
    return replace(found, word=BETTER if on_better_side(value, mean) else WORSE)


def on_better_side(value: PaperValue, mean: float) -> bool:
    """Whether our mean lies beyond the published one in the metric's direction, by however little."""
    if value.direction == "nominal":
        return value.nominal is not None and abs(mean - value.nominal) < abs(value.mean - value.nominal)
    return {"lower": mean < value.mean, "higher": mean > value.mean}.get(value.direction, False)


def beside_error(found: Verdict, name: str, error: Verdict | None) -> Verdict:
    """A size (sparsity, FLOPs, units) is better only beside an error that agrees or is better; it differs otherwise.

    Args:
        found: of the size alone.
        name: what the error is called.
        error: of the error of the same networks, None where there is none.
    """
    if found.word != BETTER or (error and error.word in (AGREES, BETTER)):
        return found
    reason = f"the {name} is {error.word}" if error else "no error is published with it"
    return replace(found, word=DIFFERS, reason=reason)


def budget_obstacle(ours: tuple[float, str] | None, published: float | None) -> str:
    """Why a budget forbids the comparison: less than half of the published one. "" where it does not, or is unknown."""
    if ours is None or published is None or ours[0] >= 0.5 * published:
        return ""
    return f"budget {ours[0]:,g} of {published:,g} {ours[1]}"


def word_of(text: str) -> str:
    """The word of a row's verdict, without its reason."""
    return text.partition(":")[0].strip()


def symbol(text: str) -> str:
    """The sign of a verdict, from its word or from the whole text; the word always stands beside it."""
    return SYMBOLS.get(word_of(text), "–")


def distinct(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each published cell (paper, table, cell), however many of ours it is laid beside.

    Where several rows stand beside a cell, those have a say that were judged, or tried: worse, diverged, differs,
    undecided, agrees and better. If all of them say the same, so does the cell; otherwise it is the most frequent word
    with a note that has the others, and of equally frequent words the first in that order. Only where none has a say is
    the cell by design, not comparable or not run, in this order.

    Returns:
        For each cell its first row with that word, in the rows' order, with "rows", their number, and the note.
    """
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if row["published"] is not None:
            cells.setdefault((row["paper"], row["cell"]), []).append(row)
    return [_one(group) for group in cells.values()]


def _one(group: list[dict[str, Any]]) -> dict[str, Any]:
    words = [word_of(row["verdict"]) for row in group]
    votes = Counter(word for word in words if word in _VOTERS)
    word = (
        max(votes, key=lambda one: (votes[one], -_VOTERS.index(one)))
        if votes
        else next(one for one in _SILENT if one in words)
    )
    row = group[words.index(word)]
    said = Counter(words)
    text = ", ".join(f"{said[one]} {one}" for one in WORDS if said[one])
    extra = f"one published cell beside {len(group)} rows of ours: {text}" if len(said) > 1 else ""
    return row | {"rows": len(group), "note": "; ".join(filter(None, (row["note"], extra)))}


def counts(rows: Iterable[dict[str, Any]]) -> dict[str, int]:
    """How many distinct published cells have which word.

    Returns:
        Every one of `WORDS`, then "cells", their number, "budget known": those that were run and whose published
        budget is known, and "budget comparable": those of them with at least half of it.
    """
    cells = distinct(rows)
    said = Counter(word_of(row["verdict"]) for row in cells)
    run = [row for row in cells if row["n"] and row["published_budget"] is not None and row["budget"] is not None]
    comparable = sum(row["budget"] >= 0.5 * row["published_budget"] for row in run)
    found = {word: said[word] for word in WORDS}
    return found | {"cells": len(cells), "budget known": len(run), "budget comparable": comparable}
