"""What the papers claim in words, tables and figures, and what our stored rows say of each claim.

``chapters/STUDY/claims.toml`` names the claims; whether they hold is computed. A claim lists the rows that decide it:

- rows without ``says`` are published cells, which hold where our number agrees or is better;
- rows with ``says`` are measured: a mean over replicates, or a difference or ratio of two methods or settings in pairs,
  above, below or near a number by Student's t, or so in every replicate or in some. Where a published cell of the same
  setting and method knows the published budget, and ours is less than half of it, the row is not comparable; where more
  than a tenth of the replicates diverged, the survivors decide nothing.
"""

from __future__ import annotations

import html
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from bnnlib._files import StoreError
from book.lab import catalog, verdicts
from book.lab.comparison import compare
from book.lab.intervals import FEW, chance, decided, estimate, holm, welch
from book.lab.metrics import check, short
from book.lab.published import ROOT
from book.lab.queries import row_of, unlisted
from book.lab.tables import STYLE, markdown_table
from book.lab.verdicts import budget_obstacle, word_of

REPRODUCED, PARTLY, CONTRADICTED, NOT_TRIED = "reproduced", "partly", "contradicted", "not tried"
WORDS = (REPRODUCED, PARTLY, CONTRADICTED, verdicts.UNDECIDED, NOT_TRIED)
KINDS = ("value", "order", "universal", "contrast")
SAYS = ("above", "below", "near")
# why a claim fails here: a stored run lands on what is claimed, it fails without a run of ours, or nothing explains it
WHYS = ("Cause: ", "In itself: ", "We do not know; ")
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
class Claim:
    """A claim of a paper, in our words or as a short quotation, with its place: table, figure or section."""

    id: str
    paper: str
    place: str
    text: str
    kind: str  # one of `KINDS`: a value, an order of methods, something of all data sets, or the size of a difference
    rows: tuple[Row, ...] = ()
    not_tried: str = ""  # why nothing decides it; "" where `rows` do
    box: str = ""  # the claim in a few words, where it stands in the box on top of the chapter; "" where it does not
    why: str = ""  # where it is contradicted: begins with one of `WHYS`

    @cached_property
    def evidence(self) -> list[Evidence]:
        """What each row says, of all settings that its pattern matches."""
        return [one for row in self.rows for one in row.evidence()]

    def judge(self) -> tuple[str, str]:
        """One of `WORDS`, with its reason.

        A claim is reproduced where it holds in all rows that have a say, and contradicted where it fails in all that
        are decided, or, of a universal claim, in one. Of many rows one fails or holds by chance: a universal claim and
        an order count only those rows that fail, or hold, together by Holm's correction for the number of rows that
        have a say. All rows may hold without it. Where rows fail by it and none holds by it, an order is contradicted
        only if more fail than hold by themselves.
        """
        if self.not_tried:
            return NOT_TRIED, self.not_tried
        every = self.evidence
        said = [one for one in every if not one.why]
        silent = [one.why for one in every if one.why]
        if not said:
            return NOT_TRIED, "; ".join(dict.fromkeys(silent)) or "no row of this name is stored"
        good, bad, alone = self.counts(said)
        outweighed = self.kind == "universal" or bad > sum(one.holds is True for one in said)
        some = f"holds in {good}, fails in {bad}, undecided in {len(said) - good - bad} of {len(said)} rows"
        if alone:
            some += f"; {alone} alone, but not by Holm's correction"
        if silent:
            some += f"; {len(silent)} more have no say ({silent[-1]})"
        if bad and (self.kind == "universal" or not good):
            return (CONTRADICTED if outweighed else verdicts.UNDECIDED), some
        if not good:
            return verdicts.UNDECIDED, some
        return (REPRODUCED if good == len(said) else PARTLY), some

    def counts(self, said: list[Evidence]) -> tuple[int, int, str]:
        """Rows in which it holds, those in which it fails, and what is said of those that do so by themselves only."""
        held, failed = ([one.chance for one in said if one.holds is wanted] for wanted in (True, False))
        if self.kind not in ("universal", "order"):
            return len(held), len(failed), ""
        good, bad = len(held) if len(held) == len(said) else holm(held, len(said)), holm(failed, len(said))
        more = len(held) - good
        alone = [f"{more} hold{'s' * (more == 1)}"] if more else []
        more = len(failed) - bad
        alone += [f"{more} fail{'s' * (more == 1)}"] if more else []
        return good, bad, " and ".join(alone)


@dataclass(frozen=True)
class Row:
    """Rows of one experiment that decide a claim.

    Args:
        setting, method, metric: which; patterns with ``*``. A metric that no table lists is named in full.
        minus, minus_setting, minus_metric: what is subtracted in pairs of replicates; "" for nothing.
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
        listed, others = _rows(self.experiment), self._others(row)
        if len(profiles := {one["profile"] for one in (row, *others) if "profile" in one}) > 1:  # a pair is of one
            listed = _rows(self.experiment, *(profiles - {"paper"}))
            row, *others = (row_of(listed, *(one[key] for key in _KEYS)) for one in (row, *others))
        for one in (row, *others):
            word, why = word_of(one["verdict"]), one["verdict"]
            if word == verdicts.DIVERGED:
                return Evidence(f"{_where(one)}: {why}")
            if one["n"] and word != verdicts.NOT_COMPARABLE:
                why = _short_of_budget(one, listed)
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
        if not (self.minus or self.minus_setting or self.minus_metric or self.plus_metric or self.over):
            return []
        setting = self.minus_setting.replace("{setting}", row["setting"]) or row["setting"]
        method = self.minus or self.over or row["method"]
        metric = self.minus_metric or self.plus_metric or row["metric"]
        rows = (*_rows(self.experiment), *unlisted(self.experiment, metric))
        if (found := row_of(rows, setting, method, metric)) is None:
            raise StoreError(f"{self.experiment} has no row {setting} | {method} | {metric}, which a claim names")
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
        return _where(row) + (said or (f", plus {self.plus_metric}" if self.plus_metric else ""))


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


def claims(study: str) -> list[Claim]:
    """The claims of a study's paper; none without a file.

    Raises:
        StoreError: the file is damaged, or names something unknown.
    """
    path = ROOT / "chapters" / study / "claims.toml"
    if not path.exists():
        return []
    try:
        listed = tomllib.loads(path.read_text(encoding="utf-8")).get("claim", [])
    except tomllib.TOMLDecodeError as error:
        raise StoreError(f"{short(path)} is damaged: {error}; restore it from the repository") from error
    found = [_claim(path, one) for one in listed]
    names = [one.id for one in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise StoreError(f"{short(path)}: two claims are called {min(twice)!r}")
    return found


def _claim(path: Path, given: dict[str, Any]) -> Claim:
    where = f"{short(path)}: {given.get('id', given.get('text', 'a claim'))}"
    about = _checked(where, given, Claim)
    if about["kind"] not in KINDS:
        raise StoreError(f"{where}: kind {about['kind']!r} is none of {', '.join(KINDS)}")
    if bool(about.get("rows")) == bool(about.get("not_tried")):
        raise StoreError(f"{where}: give rows that decide it, or not_tried, the reason why there are none")
    if not about.get("why", WHYS[0]).startswith(WHYS):
        raise StoreError(f"{where}: why begins with one of {', '.join(map(repr, WHYS))}")
    rows = tuple(Row(**_checked(where, row, Row)) for row in about.get("rows", ()))
    for row in rows:
        if row.says not in ("", *SAYS):
            raise StoreError(f"{where}: says {row.says!r} is none of {', '.join(SAYS)}")
        catalog.get(row.experiment)
    return Claim(**about | {"rows": rows})


def _checked(where: str, given: dict[str, Any], kind: Any) -> dict[str, Any]:
    needed = {one.name for one in fields(kind) if one.default is MISSING}
    check(where, given, {one.name for one in fields(kind)}, needed)
    return dict(given)


def judged(study: str) -> list[dict[str, Any]]:
    """The claims as rows {id, paper, place, text, kind, verdict, reason, why, evidence}, as tables and pages show them.

    `why` is that of a contradicted claim, "" for the others.
    """
    rows = []
    for one in claims(study):
        word, reason = one.judge()
        about = {key: getattr(one, key) for key in ("id", "paper", "place", "text", "kind")}
        about["why"] = one.why if word == CONTRADICTED else ""
        rows.append(about | {"verdict": word, "reason": reason, "evidence": [said.text for said in one.evidence]})
    return rows


MARKS = {REPRODUCED: "✓", PARTLY: "◐", CONTRADICTED: "✗", verdicts.UNDECIDED: "?", NOT_TRIED: "–"}
COLUMNS = ("Claim of the paper", "Here")


class ResultsBox:
    """The box on top of a chapter: the claims that have a `box`, each with its verdict, and the counts of all.

    Args:
        study: whose ``claims.toml`` is read.
    """

    def __init__(self, study: str) -> None:
        every = [(one, *one.judge()) for one in claims(study)]
        boxed = [(one, word, _why(one, word, why)) for one, word, why in every if one.box]
        self.lines = [(one.box.replace(" %", "\u00a0%"), f"{MARKS[word]}\u00a0{word}", why) for one, word, why in boxed]
        counted = Counter(word for _, word, _ in every)
        said = ", ".join(f"{counted[word]} {word}" for word in WORDS if counted[word])
        self.caption = f"What the paper claims and what our runs say. Of all {len(every)} claims: {said}"

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{name}</th>' for name in COLUMNS)
        body = "".join(
            f'<tr><th scope="row">{html.escape(claim)}</th><td><b>{word}</b><br>{html.escape(why)}</td></tr>'
            for claim, word, why in self.lines
        )
        return (
            f'<div class="bnn-table bnn-results" role="region" tabindex="0" aria-label="{self.caption}" '
            f'style="overflow-x: auto">{STYLE}<table><caption style="text-align: left">{self.caption}'
            f"</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def _repr_markdown_(self) -> str:
        lines = [(claim, f"{word}: {why}") for claim, word, why in self.lines]
        return f"{self.caption}\n\n{markdown_table(COLUMNS, lines)}"


def _why(claim: Claim, word: str, reason: str) -> str:
    """The reason in a few words: how many rows say so, or the first that keeps the claim from being tried."""
    if word == NOT_TRIED:
        return re.split("[;:] |, and ", reason.removeprefix("not comparable: ").removeprefix("not run: "))[0]
    said = [one for one in claim.evidence if not one.why]
    good, bad, alone = claim.counts(said)
    parts = [f"holds in {good}"] if good else []
    parts += [f"fails in {bad}"] if bad else []
    parts += [f"undecided in {len(said) - good - bad}"] if len(said) > good + bad else []
    parts[-1] += f" ({alone} alone, not by Holm's correction)" if alone else ""
    return f"{', '.join(parts)} of {len(said)} {'comparison' if len(said) == 1 else 'comparisons'}"


if __name__ == "__main__":
    from book import studies
    from book.lab.store import to_json

    print(to_json({study.name: judged(study.name) for study in studies.all()}))
