"""What one row of a claim says: published cells beside our numbers, or what replicates measured."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from bnnlib._files import StoreError
from book.lab import catalog, verdicts
from book.lab.comparison import compare
from book.lab.intervals import FEW, chance, decided, estimate, welch
from book.lab.queries import row_of, unlisted
from book.lab.verdicts import budget_obstacle, word_of

TIED = 5
"""Fewer replicates than this that are all equal decide nothing: so few differences of percentages are often equal."""
HOLDS, FAILS = {verdicts.AGREES, verdicts.BETTER}, {verdicts.WORSE, verdicts.DIFFERS, verdicts.DIVERGED}
Rows = list[dict[str, Any]]
_KEYS = ("setting", "method", "metric")


@dataclass(frozen=True)
class Evidence:
    """What one row says: whether the claim `holds` there, None where nothing is decided.

    `why` is the reason why it has no say (not run, not comparable). `chance` is how often a mean fails, or holds, so
    clearly by chance alone; 0 of what is no mean, and of published cells that agree or are better, which no correction
    for the number of rows can take away.
    """

    text: str
    holds: bool | None = None
    why: str = ""
    chance: float = 0.0


@dataclass(frozen=True)
class Row:
    """Rows of one experiment that decide a claim.

    Args:
        setting, method, metric: which; patterns with ``*``. A metric that no table lists is named in full.
        minus, minus_setting, minus_metric: what is subtracted in pairs of replicates; "" for nothing.
        minus_experiment: the experiment of what is subtracted, divides or is added; "" for the same.
        plus_metric: a metric that is added to the first of the same replicate, for what both must be; "" for none.
        every, some: every replicate must, or one of them, not their mean.
    """

    experiment: str  # its name
    setting: str = "*"
    method: str = "*"
    metric: str = "*"
    minus: str = ""
    minus_setting: str = ""
    minus_metric: str = ""
    minus_experiment: str = ""
    plus_metric: str = ""
    over: str = ""  # a method that divides, in pairs
    says: str = ""  # one of `SAYS`; "" for published cells
    than: float = 0.0  # the number beside which it stands
    tolerance: float = 0.0  # of "near": within it the whole interval must lie
    every: bool = False
    some: bool = False
    comparable: str = ""  # why a row that is called not comparable decides the claim all the same

    def evidence(self) -> Iterator[Evidence]:
        """What the stored rows say."""
        for row in (*_rows(self.experiment), *unlisted(self.experiment, self.metric)):
            if all(fnmatchcase(row[key], getattr(self, key)) for key in _KEYS):
                if self.says:
                    yield self._measured(row)
                elif row["published"] is not None:
                    yield self._published(row)

    def _published(self, row: dict[str, Any]) -> Evidence:
        word = word_of(row["verdict"])
        mean = "" if row["mean"] is None else f", ours {row['mean']:.4g}"
        text = f"{_where(row)}: published {row['printed']}{mean}, {word}"
        if word in (verdicts.NOT_RUN, verdicts.BY_DESIGN, verdicts.NOT_COMPARABLE):
            return Evidence(text, why="" if word == verdicts.NOT_COMPARABLE and self.comparable else row["verdict"])
        if word not in (verdicts.WORSE, verdicts.DIFFERS) or row["universal"] or not row["error"]:
            return Evidence(text, True if word in HOLDS else False if word in FAILS else None)
        df = welch(((row["published_se"] or 0.0, row["published_df"]), (row["se"] or 0.0, row["n"] - 1)))[1]
        return Evidence(text, False, chance=chance(abs(row["difference"]) - row["margin"], row["error"], df))

    def _measured(self, row: dict[str, Any]) -> Evidence:
        compared, profile = (row, *self._others(row)), None
        # a pair is of one; what is not run at all has none
        if len(profiles := {one["profile"] for one in compared if one.get("profile")}) > 1:
            profile = min(profiles - {"paper"})
            there = [row_of(_rows(one["experiment"], profile), *(one[key] for key in _KEYS)) for one in compared]
            compared = tuple(one for one in there if one is not None)
            if len(compared) < len(there):
                return Evidence(self._name(row), why=f"no pairs of replicates at the {profile} profile")
        row, *others = compared
        for one in compared:
            word, why = word_of(one["verdict"]), one["verdict"]
            if word == verdicts.DIVERGED:
                return Evidence(f"{_where(one)}: {why}")
            if one["n"] and word != verdicts.NOT_COMPARABLE:
                why = _short_of_budget(one, _rows(one["experiment"], profile))
            if not one["n"] or (why and not self.comparable):
                return Evidence(_where(one), why=why)
        numbers = self._numbers(row, others)
        return self._told(self._name(row), numbers, bool(others))

    def _told(self, name: str, numbers: list[float], paired: bool) -> Evidence:
        """What the numbers of the replicates say."""
        n = len(numbers)
        if not n or not all(map(math.isfinite, numbers)):
            return Evidence(name, why="no pairs of replicates" if not n else "infinite")
        if self.every or self.some:
            good = sum(self._towards(number) >= 0.0 for number in numbers)
            holds = good >= (n if self.every else 1)
            return Evidence(f"{name}: {self.says} {self.than:g} in {good} of {n}", holds if n >= FEW else None)
        mean, error, _ = estimate(numbers, catalog.get(self.experiment).overlap)
        text = f"{name}: {mean:.4g}" + ("" if n < 2 else f" ± {error:.2g}") + f" (n = {n})"
        text += f", {self.says} {self.than:g}" if self.than or not paired else ""
        towards = self._towards(mean)
        alike = n < TIED and max(numbers) - min(numbers) <= 1e-9 * abs(mean)  # but for rounding
        if alike or not decided(towards, error, n):
            return Evidence(text)
        return Evidence(text, towards > 0.0, chance=chance(abs(towards), error, n - 1))

    def _towards(self, number: float) -> float:
        """How far a number is on the claim's side of where it begins to hold; below zero where it fails."""
        gap = number - self.than
        return {"above": gap, "below": -gap, "near": self.tolerance - abs(gap)}[self.says]

    def _others(self, row: dict[str, Any]) -> Rows:
        subtracted = self.minus or self.minus_setting or self.minus_metric or self.minus_experiment
        if not (subtracted or self.plus_metric or self.over):
            return []
        setting = self.minus_setting.replace("{setting}", row["setting"]) or row["setting"]
        method = self.minus or self.over or row["method"]
        metric = self.minus_metric or self.plus_metric or row["metric"]
        where = self.minus_experiment or self.experiment
        rows = (*_rows(where), *unlisted(where, metric))
        if (found := row_of(rows, setting, method, metric)) is None:
            raise StoreError(f"{where} has no row {setting} | {method} | {metric}, which a claim names")
        return [found]

    def _numbers(self, row: dict[str, Any], others: Rows) -> list[float]:
        if not others:
            return list(row["values"])
        ours, theirs = (dict(zip(one["replicates"], one["values"], strict=True)) for one in (row, others[0]))
        pairs = [(ours[k], theirs[k]) for k in sorted(ours.keys() & theirs.keys())]
        return [a / b if self.over else a + b if self.plus_metric else a - b for a, b in pairs]

    def _name(self, row: dict[str, Any]) -> str:
        other = self.minus or self.minus_setting.replace("{setting}", row["setting"]) or self.minus_metric
        said = f", less {other}" if other else f", over {self.over}" if self.over else ""
        said = said or (f", plus {self.plus_metric}" if self.plus_metric else "")
        if self.minus_experiment:
            said = f"{said or ', less the same'} of {self.minus_experiment}"
        return _where(row) + said


def _where(row: dict[str, Any]) -> str:
    return f"{row['experiment']}, {row['setting']}, {row['method']}, {row['metric']}"


@cache
def _rows(experiment: str, profile: str | None = None) -> Rows:
    return compare(experiment, profile)


def _short_of_budget(row: dict[str, Any], rows: Rows) -> str:
    """Why the budget of a row forbids to judge it, by the published cells of its setting and method; or ""."""
    where = row["setting"], row["method"]
    for one in rows:
        if (one["setting"], one["method"]) == where and None not in (one["budget"], one["published_budget"]):
            if why := budget_obstacle((one["budget"], one["budget_unit"]), one["published_budget"]):
                return f"{verdicts.NOT_COMPARABLE}: {why}"
    return ""
