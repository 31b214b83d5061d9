"""In which words our numbers are laid beside published ones: the rule, and how cells are counted."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from book.lab.intervals import FEW, deviation, quantile, spread, welch
from book.lab.published import KINDS, PaperValue

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
SYMBOLS = {AGREES: "✓", BETTER: "▲", WORSE: "▼", DIFFERS: "≠", UNDECIDED: "?", DIVERGED: "∞", NOT_PUBLISHED: "·"}
SYMBOLS |= {NOT_COMPARABLE: "⊘", BY_DESIGN: "○"}
"""Signs of the words, of each its own and none of `book.lab.claims.MARKS` but for the same word; what was not run has a
dash, like an empty cell."""

FAILED_SHARE = 0.1
"""A larger share of failed replicates leaves a mean that speaks of the survivors only."""

# one published cell beside several of our rows: what has a say, and who wins a tie
_VOTERS = (WORSE, DIVERGED, DIFFERS, UNDECIDED, AGREES, BETTER)
_SILENT = (BY_DESIGN, NOT_COMPARABLE, NOT_RUN)


@dataclass(frozen=True)
class Verdict:
    """A word of `WORDS`, or `NOT_PUBLISHED`, with its reason ("" where it is a plain comparison), and its numbers."""

    word: str
    reason: str = ""
    difference: float | None = None  # ours - published, None without both
    error: float | None = None  # combined standard error of the difference, None where neither number has one
    quantile: float | None = None  # of Student's t by which the error is multiplied, None where there is none
    margin: float | None = None  # rounding, reading error and declared tolerance

    def __str__(self) -> str:
        return f"{self.word}: {self.reason}" if self.reason else self.word


def verdict(
    value: PaperValue, numbers: Sequence[float], *, overlap: float = 0.0, failed: int = 0, obstacles: Iterable[str] = ()
) -> Verdict:
    """Judge our replicates against a published number; the first of these rules that holds gives the word.

    With d = ours - published, s their combined standard error, t the quantile of Student's distribution with Welch's
    degrees of freedom and the margin m = rounding + reading error + tolerance:

    1. **diverged**: more than a tenth of the replicates failed.
    2. **by design**: the method or its user fixes the number.
    3. **not comparable**: other data, teacher, hardware, selection rule, or less than half of the published budget.
    4. A claim about every data set (`value.limits`): **worse** or **differs** if one breaks it.
    5. **undecided**: n < 3.
    6. ``|d| > m + t s``: **better** or **worse** in the metric's direction (for a coverage: closer to its nominal level
       or not), and **differs** where it has none, however wide the interval is.
    7. **undecided**: t s above the interesting difference.
    8. **agrees**.

    What was not run has no mean; `compare` says **not run** with the reason.

    Args:
        value: the published number.
        numbers: ours, one for each replicate, in the same unit.
        overlap: ratio of test rows to training rows where replicates are random splits of the same rows, see `spread`.
        failed: replicates that failed, beside those.
        obstacles: what stands between the two numbers beside `value.not_comparable`.
    """
    n, mean = len(numbers), sum(numbers) / len(numbers)
    own = spread(numbers, overlap)
    if own is not None and value.one_draw and value.sd is None:  # theirs is one draw of what ours are draws of
        own = deviation(tuple(numbers)) * math.sqrt(1.0 / n + overlap + 1.0)
    parts = [*value.spreads, *([] if own is None else [(own, n - 1)])]
    error, df = welch(parts)
    difference, times = mean - value.mean, quantile(df)
    found = Verdict(AGREES, "", difference, error if parts else None, times if parts else None, value.margin)
    if reason := survivors(n, failed):
        return replace(found, word=DIVERGED, reason=reason)
    if value.by_design:
        return replace(found, word=BY_DESIGN, reason=value.by_design)
    if reasons := [one for one in (*obstacles, value.not_comparable) if one]:
        return replace(found, word=NOT_COMPARABLE, reason="; ".join(reasons))
    if value.limits and (broken := sum(not value.limits[0] <= number <= value.limits[1] for number in numbers)):
        word = DIFFERS if value.direction == "none" else WORSE
        return replace(found, word=word, reason=f"{broken} of {n} data sets break a claim about all")
    if n < FEW:
        return replace(found, word=UNDECIDED, reason="one run" if n == 1 else f"{n} runs")
    if value.limits:
        return found
    rim = 1e-9 * max(1.0, abs(value.mean))  # decimal limits such as 0.005 are not exact in binary
    half = times * error
    if abs(difference) > value.margin + half + rim:
        if value.direction == "none":
            return replace(found, word=DIFFERS)
        return replace(found, word=BETTER if on_better_side(value, mean) else WORSE)
    if half > value.interesting + rim:
        text = f"t s = {half:.2g}, above the interesting difference of {value.interesting:.2g}"
        return replace(found, word=UNDECIDED, reason=text)
    return found


def survivors(n: int, failed: int) -> str:
    """Why a mean over n replicates speaks of the survivors only, beside so many that failed; "" where it does not."""
    return f"{failed} of {n + failed} replicates failed" if failed > FAILED_SHARE * (n + failed) else ""


def on_better_side(value: PaperValue, mean: float) -> bool:
    """Whether our mean lies beyond the published one in the metric's direction, by however little."""
    if value.direction == "nominal":
        return value.nominal is not None and abs(mean - value.nominal) < abs(value.mean - value.nominal)
    return {"lower": mean < value.mean, "higher": mean > value.mean}.get(value.direction, False)


def beside_error(found: Verdict, name: str, error: Verdict | None) -> Verdict:
    """A size (sparsity, FLOPs) is better only beside an error that agrees or is better; it differs otherwise."""
    if found.word != BETTER or (error and error.word in (AGREES, BETTER)):
        return found
    reason = f"the {name} is {error.word}" if error else "no error is published with it"
    return replace(found, word=DIFFERS, reason=reason)


def budget_obstacle(ours: tuple[float, str] | None, published: float | None) -> str:
    """Why a budget forbids the comparison: less than half of the published one. "" where it does not, or is unknown."""
    if ours is None or published is None or ours[0] >= 0.5 * published:
        return ""
    return f"budget {ours[0]:,g} of {published:,g} {ours[1]}"


def at_what_price(found: Verdict, ours: tuple[float, str] | None, published: float | None, searched: str) -> Verdict:
    """A better number says what it was given more of: the ratio of budgets beyond 1.5, and a search of its own."""
    if found.word != BETTER:
        return found
    price = ""
    if published is None:
        price = "the published budget is not known"
    elif ours is not None and ours[0] > 1.5 * published:
        price = f"at {ours[0] / published:.2g} times the budget"
    return replace(found, reason="; ".join(filter(None, (found.reason, price, searched))))


def word_of(text: str) -> str:
    """The word of a row's verdict, without its reason."""
    return text.partition(":")[0].strip()


def symbol(text: str) -> str:
    """The sign of a verdict, from its word or from the whole text; the word always stands beside it."""
    return SYMBOLS.get(word_of(text), "–")


def distinct(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each published cell (paper, table, cell), however many of ours it is laid beside.

    A claim about every data set is broken where one of the rows breaks it. Of other cells those rows have a say that
    were judged, or tried: worse, diverged, differs, undecided, agrees and better. If all of them say the same, so does
    the cell; otherwise it is the most frequent word with a note that has the others, and of equally frequent words the
    first in that order. Only where none has a say is the cell by design, not comparable or not run, in this order.

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
    if group[0]["universal"] and (broken := set(words) & {WORSE, DIFFERS}):
        votes = Counter(broken)
    word = next((one for one in _SILENT if one in words), "")
    word = max(votes, key=lambda one: (votes[one], -_VOTERS.index(one))) if votes else word
    row = group[words.index(word)]
    said = Counter(words)
    text = ", ".join(f"{said[one]} {one}" for one in WORDS if said[one])
    extra = f"one published cell beside {len(group)} rows of ours: {text}" if len(said) > 1 else ""
    return row | {"rows": len(group), "note": "; ".join(filter(None, (row["note"], extra)))}


def counts(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """How many distinct published cells have which word, apart by whose number it is.

    Returns:
        For each of `book.lab.published.KINDS`: every one of `WORDS`, then "cells", their number, "budget known": those
        that were run and whose published budget is known, and "budget comparable": those of them with at least half.
    """
    cells = distinct(rows)
    return {kind: _count([row for row in cells if row["kind"] == kind]) for kind in KINDS}


def _count(cells: list[dict[str, Any]]) -> dict[str, int]:
    said = Counter(word_of(row["verdict"]) for row in cells)
    run = [row for row in cells if row["n"] and row["published_budget"] is not None and row["budget"] is not None]
    comparable = sum(row["budget"] >= 0.5 * row["published_budget"] for row in run)
    found = {word: said[word] for word in WORDS}
    return found | {"cells": len(cells), "budget known": len(run), "budget comparable": comparable}
