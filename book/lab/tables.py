"""Comparison tables for the notebooks: HTML that reads well aloud, on a phone and in the dark, and Markdown."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

from book.lab import catalog
from book.lab.cells import ExperimentError
from book.lab.comparison import Row, compare
from book.lab.published import metrics
from book.lab.verdicts import symbol

STYLE = (
    "<style>.bnn-table table { border-collapse: collapse; text-align: left; font-variant-numeric: tabular-nums;"
    " font-size: 0.9em }"
    " .bnn-table th, .bnn-table td { padding: 0.15em 0.8em 0.15em 0; text-align: left; vertical-align: top;"
    " font-weight: normal; white-space: nowrap }"
    " .bnn-table thead th { font-weight: 600 } .bnn-table sup { line-height: 0 }"
    " .bnn-table .group th { border-top: 1px solid currentColor; padding-top: 0.5em; white-space: normal }"
    " .bnn-pivot thead th { white-space: normal; vertical-align: bottom }"
    " .bnn-aloud { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);"
    " white-space: nowrap }</style>"
)
_COLUMNS = ("Setting", "Method", "Measure", "Published", "Ours", "Difference", "n", "Budget", "Data")
_COLUMNS += ("Validity", "Verdict")
_OPTIONAL = ("Budget", "Validity")  # left out where no row has anything to say
_SHOWN = ("Measure", "Published", "Ours", "Difference", "Verdict")  # on a page; the rest heads a group of rows


class Table:
    """Comparison rows that a notebook displays.

    Args:
        rows: as `compare` returns them.
        caption: plain text above the table; also its name for a screen reader.
    """

    def __init__(self, rows: list[Row], caption: str) -> None:
        self.rows, self.caption = rows, caption

    def _repr_html_(self) -> str:
        return table_html(self.rows, self.caption)

    def _repr_markdown_(self) -> str:
        return self.markdown()

    def markdown(self) -> str:
        """The table as Markdown, also readable as plain text in a terminal."""
        columns = _columns(self.rows)
        cells = [[markdown_cell(texts[one]) for one in columns] for texts in map(said, self.rows)]
        return f"{self.caption}\n\n{markdown_table(columns, cells)}\n"


def table(
    name: str,
    profile: str | None = None,
    *,
    caption: str | None = None,
    settings: list[str] | None = None,
    methods: list[str] | None = None,
    measures: list[str] | None = None,
) -> Table:
    """The comparison of an experiment as a table.

    Args:
        name: the experiment.
        profile: smoke, book or paper; None takes the best one that is stored.
        caption: text above it; by default the experiment's summary and the profile.
        settings, methods, measures: show only these, in the rows' own order; measures are metric names.

    Raises:
        ExperimentError: no such experiment or profile, or the filters leave no row.
    """
    rows = compare(name, profile)
    for field, wanted in (("setting", settings), ("method", methods), ("metric", measures)):
        present = dict.fromkeys(row[field] for row in rows)
        for one in wanted or ():
            if one not in present:
                raise catalog.unknown(field, one, present)
        rows = [row for row in rows if wanted is None or row[field] in wanted]
    if not rows:
        raise ExperimentError(f"no row of {name} has that setting, method and measure together")
    used = rows[0]["profile"]
    return Table(rows, caption or f"{catalog.get(name).summary}; profile: {used or 'none stored'}")


def table_html(rows: list[Row], caption: str = "Published values and ours") -> str:
    """Rows of `compare` as an HTML table, one group a setting and method, headed by what its rows share.

    No color is set, so light and dark themes both apply; the container scrolls sideways on a narrow screen and can be
    reached by the keyboard; every verdict is a word, with a sign that screen readers skip. Reasons and notes stand once
    below the table, under a letter, since most of them hold for many rows.
    """
    head = "".join(f'<th scope="col">{name}</th>' for name in _SHOWN)
    letters = {note: _letter(k) for k, note in enumerate(dict.fromkeys(note for row in rows for note in _notes(row)))}
    data = {row["data"] for row in rows if row["data"]}
    body = []
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["setting"], row["method"]), []).append(row)
    for group in groups.values():
        shared = _heading(group, with_data=len(data) > 1)
        lines = "".join(_line(row, letters, alone=len({one["n"] for one in group if one["n"]}) > 1) for row in group)
        body.append(
            f'<tbody><tr class="group"><th scope="rowgroup" colspan="{len(_SHOWN)}">{shared}</th></tr>{lines}</tbody>'
        )
    label = html.escape(caption, quote=True)
    notes = "<br>".join(f"<sup>{letter}</sup> {html.escape(note)}" for note, letter in letters.items())
    about = f" Data: {html.escape(data.pop())}." if len(data) == 1 else ""
    return (
        f"<p>{html.escape(caption)}.{about} <small>Published: as printed, ± a standard deviation unless a note says "
        "otherwise; ours: mean ± standard error of n replicates; difference: ours - published ± their combined "
        "standard error; budget: ours / published.</small></p>"
        f'<div class="bnn-table" role="region" tabindex="0" aria-label="{label}" style="overflow-x: auto">'
        f'{STYLE}<table aria-label="{label}"><thead><tr>{head}</tr></thead>{"".join(body)}</table>'
        + (f"<p><small>{notes}</small></p>" if notes else "")
        + "</div>"
    )


def _notes(row: Row) -> list[str]:
    """The reason of the verdict, and what else there is to say of the row."""
    return [text for text in (row["verdict"].partition(": ")[2], row["note"]) if text]


def _heading(group: list[Row], with_data: bool) -> str:
    """What the rows of a group share: method, setting, replicates, budget, data, validity."""
    first = said(group[0])
    numbers = {row["n"] for row in group if row["n"]}
    facts = [f"n = {numbers.pop()}"] if len(numbers) == 1 else []
    facts += [*dict.fromkeys(budget_text(row) for row in group if budget_text(row))]
    facts += [group[0]["data"]] if with_data and group[0]["data"] else []
    facts += [*dict.fromkeys(row["state"] for row in group if row["state"])]
    told = f" <small>{html.escape('; '.join(facts))}</small>" if facts else ""
    return f"<b>{html.escape(first['Method'])}</b>, {html.escape(first['Setting'])}{told}"


def _line(row: Row, letters: dict[str, str], alone: bool) -> str:
    """A row; with `alone` it says its own number of replicates."""
    texts = {name: html.escape(text) for name, text in said(row).items()}
    marks = ", ".join(letters[note] for note in _notes(row))
    word = row["verdict"].partition(": ")[0]
    texts["Verdict"] = f'<span aria-hidden="true">{symbol(row["verdict"])}</span> {html.escape(word)}'
    texts["Verdict"] += f" <sup>{marks}</sup>" if marks else ""
    if alone and row["n"]:
        texts["Ours"] += f" (n = {row['n']})"
    where = f' title="{html.escape(row["cell"], quote=True)}"' if row["cell"] else ""
    cells = [f'<th scope="row">{texts["Measure"]}</th>']
    cells += [f"<td{where if name == 'Published' else ''}>{texts[name]}</td>" for name in _SHOWN[1:]]
    return f"<tr>{''.join(cells)}</tr>"


def _letter(number: int) -> str:
    """a, b, ..., z, aa, ab, ... for 0, 1, ..."""
    rest, last = divmod(number, 26)
    return (_letter(rest - 1) if rest else "") + chr(ord("a") + last)


def _columns(rows: list[Row]) -> tuple[str, ...]:
    found = [said(row) for row in rows]
    return tuple(name for name in _COLUMNS if name not in _OPTIONAL or any(texts[name] for texts in found))


def said(row: Row) -> dict[str, str]:
    """The text of every column of a table, by its name."""
    known = metrics().get(row["metric"])
    label, digits = (known.label, known.digits) if known else (row["metric"], 3)
    unit = f" ({known.unit})" if known and known.unit else ""
    texts = (
        row["setting"],
        row["method"],
        label + unit,
        row["printed"] or "–",
        number_text(row["mean"], row["se"], digits, extra=1),
        number_text(row["difference"], row["error"], digits, extra=1, sign="+"),
        str(row["n"]) if row["n"] else "",
        budget_text(row),
        row["data"],
        row["state"],
        f"{symbol(row['verdict'])} {row['verdict']}",
    )
    return dict(zip(_COLUMNS, texts, strict=True))


def budget_text(row: Row) -> str:
    """Ours / published with the unit; "" where neither is known."""
    if row["budget"] is None:
        return ""
    published = "" if row["published_budget"] is None else f" / {row['published_budget']:,g}"
    return f"{row['budget']:,g}{published} {row['budget_unit']}"


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
