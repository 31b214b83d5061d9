"""Comparison tables as Markdown, and the parts that the tables of lessons and reports share."""

import math
from collections.abc import Sequence
from typing import Any

from book.lab import catalog
from book.lab.cells import ExperimentError
from book.lab.comparison import Row, compare
from book.lab.metrics import metrics
from book.lab.verdicts import symbol

STYLE = (
    "<style>.bnn-table table { border-collapse: collapse; text-align: left; font-variant-numeric: tabular-nums;"
    " font-size: 0.9em }"
    " .bnn-table th, .bnn-table td { padding: 0.15em 0.8em 0.15em 0; text-align: left; vertical-align: top;"
    " font-weight: normal; white-space: nowrap }"
    " .bnn-table thead th { font-weight: 600 }"
    " .jp-OutputArea .bnn-table.bnn-table :is(th, td) { text-align: left }"  # JupyterLab's own rule has two classes
    " .bnn-results :is(th, td), .bnn-pivot thead th { white-space: normal }"
    " .bnn-pivot thead th { vertical-align: bottom }"
    " .bnn-aloud { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);"
    " white-space: nowrap }</style>"
)
_COLUMNS = ("Setting", "Method", "Measure", "Published", "Ours", "Difference", "n", "Budget", "Data")
_COLUMNS += ("Validity", "Verdict")
_OPTIONAL = ("Budget", "Validity")  # left out where no row has anything to say


def table(name: str, profile: str | None = None) -> str:
    """The comparison of an experiment as Markdown, also readable as plain text in a terminal; see `compare`.

    Raises:
        ExperimentError: no such experiment or profile, or it has no row.
    """
    rows = compare(name, profile)
    if not rows:
        where = f" with profile {profile}" if profile else ""
        raise ExperimentError(
            f"{name} has no published number, and nothing is stored{where}. Make it with: python -m book run {name} "
            f"--profile {profile or 'book'}"
        )
    found = [said(row) for row in rows]
    columns = [name for name in _COLUMNS if name not in _OPTIONAL or any(texts[name] for texts in found)]
    cells = [[markdown_cell(texts[one]) for one in columns] for texts in found]
    caption = f"{catalog.get(name).summary}; profile: {rows[0]['profile'] or 'none stored'}"
    return f"{caption}\n\n{markdown_table(columns, cells)}\n"


def said(row: Row) -> dict[str, str]:
    """The text of every column of a table, by its name."""
    known = metrics().get(row["metric"])
    label, digits = (known.label, known.digits) if known else (row["metric"], 3)
    unit = f" ({known.unit})" if known and known.unit else ""
    published = "" if row["published_budget"] is None else f" / {row['published_budget']:,g}"
    texts = (
        row["setting"],
        row["method"],
        label + unit,
        row["printed"] or "–",
        number_text(row["mean"], row["se"], digits, extra=1),
        number_text(row["difference"], row["error"], digits, extra=1, sign="+"),
        str(row["n"]) if row["n"] else "",
        "" if row["budget"] is None else f"{row['budget']:,g}{published} {row['budget_unit']}",
        row["data"],
        row["state"],
        f"{symbol(row['verdict'])} {row['verdict']}",
    )
    return dict(zip(_COLUMNS, texts, strict=True))


def number_text(mean: float | None, spread: float | None, digits: int, extra: int = 0, sign: str = "") -> str:
    """Mean ± spread with that many digits; a dash where there is no number."""
    if mean is None:
        return "–"
    if not math.isfinite(mean):
        return str(mean)
    # one digit more than the paper for our mean when its standard error is that small
    digits += extra if spread is not None and 0 < spread < 0.5 * 10.0**-digits else 0
    return f"{mean:{sign}.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")


def markdown_table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Cells as a Markdown table whose columns stand under each other."""
    widths = [max(map(len, column)) for column in zip(columns, *lines, strict=True)]
    lines = [columns, ["-" * width for width in widths], *lines]
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) + " |" for r in lines)


def markdown_cell(text: Any) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")
