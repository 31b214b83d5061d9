"""Every published number was typed twice: in chapters/*/published.toml, and in tests/published without sight of it.

The second transcription has what is printed. Where the first has another form of it (a percentage of a share, an error
of an accuracy), `source` says as what it is printed.
"""

import csv
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from book import lab

FOLDER = Path(__file__).resolve().parents[1] / "published"
PAPERS = ("000", "001", "002", "003", "004")
FORMS: dict[str, Callable[[Decimal], Decimal]] = {
    "(printed as share)": lambda printed: 100 * printed,
    "(printed as test accuracy)": lambda printed: 100 - printed,
    "(printed as sparsity, the share removed, not active)": lambda printed: 100 - printed,
}
NOT_IN_ANY_SOURCE = {("002", "Figure 3 (read off the curve)", "last epoch, SVBNN")}
"""Read off a curve of the paper's PDF, which neither its text nor a poster has."""


def second(paper: str) -> dict[tuple[str, str, str], dict[str, str]]:
    with (FOLDER / f"{paper}.tsv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return {(paper, line["table"], line["cell"]): line for line in lines}


def first(paper: str) -> dict[tuple[str, str, str], set[str]]:
    """All that stands for a cell; one text, however many rows of ours are laid beside it."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for name in lab.names():
        for value in lab.paper_values(name)[0]:
            if value.paper == paper:
                found.setdefault((value.paper, value.table, value.cell), set()).add(value.printed)
    return found


def same(line: dict[str, str], printed: str) -> bool:
    """Whether the two say the same number with the same spread, digit by digit but for zeros at the end."""
    text = line["mean"].replace("..", " to ").replace(">", "≥ ").replace("<", "≤ ")
    ours, theirs = ([Decimal(part) for part in _parts(one)] for one in (text, printed))
    form = next((change for said, change in FORMS.items() if said in line["source"]), None)
    spread = [Decimal(line["sd"])] if line["sd"] else []
    signs = [sign for sign in "≥≤" if (sign in text) != (sign in printed)]
    return not signs and [*(map(form, ours) if form else ours), *spread] == theirs


def _parts(text: str) -> list[str]:
    return [part for part in text.replace("±", " ").replace("to", " ").split() if part not in "≥≤"]


@pytest.mark.parametrize("paper", PAPERS)
def test_both_transcriptions_have_the_same_cells(paper):
    assert second(paper).keys() == first(paper).keys()


@pytest.mark.parametrize("paper", PAPERS)
def test_both_transcriptions_say_the_same_numbers(paper):
    known = first(paper)
    different = {}
    for key, line in second(paper).items():
        if line["mean"] and not all(same(line, printed) for printed in known[key]):
            different[key] = (line["mean"], line["sd"], known[key])
        assert bool(line["mean"]) is (key not in NOT_IN_ANY_SOURCE), key
    assert not different


@pytest.mark.parametrize(
    ("line", "printed", "expected"),
    [
        ({"mean": "1.20", "sd": "0.05"}, "1.20 ± 0.05", True),
        ({"mean": "1.20", "sd": ""}, "1.20 ± 0.05", False),
        ({"mean": "1.21", "sd": "0.05"}, "1.20 ± 0.05", False),
        ({"mean": ">80", "sd": ""}, "≥ 80", True),
        ({"mean": ">80", "sd": ""}, "≤ 80", False),
        ({"mean": "0.9..0.95", "sd": ""}, "0.90 to 0.95", True),
        ({"mean": "0.9897", "sd": "", "source": "facts (printed as share)"}, "98.97", True),
        ({"mean": "-0.1", "sd": ""}, "0.1", False),
    ],
)
def test_what_counts_as_the_same(line, printed, expected):
    assert same({"source": "text"} | line, printed) is expected
