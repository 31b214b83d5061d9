"""The box on top of a chapter: what its paper claims before all, and what the stored runs say of each claim."""

import html
import re
from collections import Counter

from book.lab.claims import CONTRADICTED, NOT_TRIED, PARTLY, REPRODUCED, WORDS, Claim, claims
from book.lab.tables import markdown_table
from book.lab.verdicts import UNDECIDED

MARKS = {REPRODUCED: "✓", PARTLY: "◐", CONTRADICTED: "✗", UNDECIDED: "?", NOT_TRIED: "–"}
COLUMNS = ("Claim of the paper", "Here")


class ResultsBox:
    """The claims of a study that have a `box`, each with its verdict, and the counts of all.

    Args:
        study: whose ``claims.toml`` is read.
    """

    def __init__(self, study: str) -> None:
        every = [(one, *one.judge()) for one in claims(study)]
        self.lines = [
            (one.box.replace(" %", "\u00a0%"), f"{MARKS[word]}\u00a0{word}", _why(one, word, why))
            for one, word, why in every
            if one.box
        ]
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
            f'style="overflow-x: auto"><table style="text-align: left"><caption style="text-align: left">{self.caption}'
            f"</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def _repr_markdown_(self) -> str:
        lines = [(claim, f"{word}: {why}") for claim, word, why in self.lines]
        return f"{self.caption}\n\n{markdown_table(COLUMNS, lines)}"


def _why(claim: Claim, word: str, reason: str) -> str:
    """The reason in a few words: how many rows say so, or the first that keeps the claim from being tried."""
    if word == NOT_TRIED:
        return re.split("[;:] |, and ", reason.removeprefix("not comparable: ").removeprefix("not run: "))[0]
    said = [one.holds for one in claim.evidence if not one.why]
    good, bad = said.count(True), said.count(False)
    parts = [f"holds in {good}"] if good else []
    parts += [f"fails in {bad}"] if bad else []
    parts += [f"undecided in {len(said) - good - bad}"] if len(said) > good + bad else []
    return f"{', '.join(parts)} of {len(said)} {'comparison' if len(said) == 1 else 'comparisons'}"


def results_box(study: str) -> ResultsBox:
    """The box of a chapter; leave it on a cell's last line."""
    return ResultsBox(study)
