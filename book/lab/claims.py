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
import re
import tomllib
from collections import Counter
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from bnnlib._files import StoreError
from book.lab import catalog, verdicts
from book.lab.claim_rows import Evidence, Row
from book.lab.intervals import holm
from book.lab.metrics import check, short
from book.lab.published import ROOT
from book.lab.tables import STYLE, markdown_table

REPRODUCED, PARTLY, CONTRADICTED, NOT_TRIED = "reproduced", "partly", "contradicted", "not tried"
WORDS = (REPRODUCED, PARTLY, CONTRADICTED, verdicts.UNDECIDED, NOT_TRIED)
KINDS = ("value", "order", "universal", "contrast")
SAYS = ("above", "below", "near")
# why a claim fails here: a stored run lands on what is claimed, it fails without a run of ours, or nothing explains it
WHYS = ("Cause: ", "In itself: ", "We do not know; ")


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
        catalog.get(row.minus_experiment or row.experiment)
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
