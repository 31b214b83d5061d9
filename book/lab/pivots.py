"""The small table of a lesson: one row a setting and method, one column a measure, ours above the published number."""

import html
from collections import Counter
from collections.abc import Sequence

from book.lab import catalog
from book.lab.cells import ExperimentError
from book.lab.comparison import Row, compare
from book.lab.metrics import metrics
from book.lab.tables import STYLE, markdown_cell, markdown_table, number_text
from book.lab.verdicts import NOT_RUN, WORDS, symbol, word_of

MOST = 10
"""Rows of a table that a lesson shows; the chapter's report has all."""


class Pivot:
    """Comparison rows that a notebook displays with the measures, its columns, side by side.

    There is one row for each setting, method and measure at most; the caption is its name for a screen reader too.
    """

    def __init__(self, rows: Sequence[Row], measures: Sequence[str], caption: str) -> None:
        self.rows, self.measures, self.caption = rows, list(measures), caption
        self._found = {(row["setting"], row["method"], row["metric"]): row for row in rows}
        self.lines = list(dict.fromkeys(key[:2] for key in self._found))
        self._heads = [  # a column that says the same in every row says nothing
            (name, place)
            for place, name in enumerate(("Setting", "Method"))
            if name == "Method" or len({line[place] for line in self.lines}) > 1
        ]
        known = metrics()
        labels = [known[one].label + (f" ({known[one].unit})" if known[one].unit else "") for one in self.measures]
        self.columns = [name for name, _ in self._heads] + labels

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in self.columns)
        body, spans = "", Counter(setting for setting, _ in self.lines) if len(self._heads) > 1 else {}
        for setting, method in self.lines:
            rows = spans.pop(setting, 0)  # written once for all its methods
            cells = [f'<th scope="rowgroup" rowspan="{rows}">{html.escape(setting)}</th>'] if rows else []
            cells += [f'<th scope="row">{html.escape(method)}</th>']
            cells += [f"<td>{_marked(self._found.get((setting, method, one)))}</td>" for one in self.measures]
            body += f"<tr>{''.join(cells)}</tr>"
        label = html.escape(self.caption, quote=True)
        said = {word_of(row["verdict"]) for row in self.rows if _judged(row)}
        signs = ", ".join(f'<span aria-hidden="true">{symbol(word)}</span> {word}' for word in WORDS if word in said)
        return (
            f"<p>{html.escape(self.caption)}. <small>Ours: mean ± standard error; in parentheses as published, "
            f"± a standard deviation where there is one{html.escape(self._notes())}. {signs}</small></p>"
            f'<div class="bnn-table bnn-pivot" role="region" tabindex="0" aria-label="{label}" '
            f'style="overflow-x: auto">{STYLE}<table aria-label="{label}">'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def _repr_markdown_(self) -> str:
        lines = []
        for line in self.lines:
            rows = [self._found.get((*line, one)) for one in self.measures]
            cells = [line[place] for _, place in self._heads] + [_plain(row) for row in rows]
            lines.append([markdown_cell(text) for text in cells])
        return f"{self.caption}{self._notes()}\n\n{markdown_table(self.columns, lines)}\n"

    def _notes(self) -> str:
        """What a published limit is held against; which means are of one run or two, where the caption is silent."""
        limits = any(row["universal"] and _judged(row) for row in self.rows)
        runs = {line: max(row["n"] for key, row in self._found.items() if key[:2] == line) for line in self.lines}
        names = {line: " on ".join(line[place] for _, place in reversed(self._heads)) for line in runs}
        two = [names[line] for line in self.lines if runs[line] == 2]
        one = any(row["n"] == 1 and _run(row) for row in self.rows) and "one run" not in self.caption
        notes = ["a published limit (≥, ≤) is a claim about every data set, and one of ours can break it"] * limits
        notes += ["where ours has no ±, one run"] * one + [f"two runs: {', '.join(two)}"] * bool(two)
        return "".join(f"; {note}" for note in notes)


def pivot(
    name: str | Sequence[Row],
    measures: Sequence[str],
    settings: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    caption: str | None = None,
) -> Pivot:
    """At most ten rows of an experiment, the measures side by side: ours ± standard error, and the published value.

    Args:
        name: the experiment, or rows of `compare`.
        measures: names of metrics, one column each, in this order.
        settings, methods: show only these, in this order; by default all that have one of the measures.
        caption: text above it; by default the experiment's summary.

    Raises:
        ExperimentError: no such experiment, measure, setting or method, or nothing is left.
        ValueError: more than ten rows.
    """
    rows = compare(name) if isinstance(name, str) else list(name)
    rows = _chosen("metric", measures, rows)
    if settings is not None:
        rows = _chosen("setting", settings, rows)
    if methods is not None:
        rows = _chosen("method", methods, rows)
    if not rows:
        raise ExperimentError("no row has that setting, method and measure together")
    lines = {(row["setting"], row["method"]) for row in rows}
    if len(lines) > MOST:
        raise ValueError(
            f"{len(lines)} rows of setting and method; a lesson shows at most {MOST}. Choose settings= or methods=; "
            "the chapter's report has all rows"
        )
    place = {one: k for k, one in enumerate(dict.fromkeys(row["setting"] for row in rows))} if settings is None else {}
    place |= {one: k for k, one in enumerate(settings or ())}
    order = {one: k for k, one in enumerate(methods if methods else dict.fromkeys(row["method"] for row in rows))}
    rows = sorted(rows, key=lambda row: (place[row["setting"]], order[row["method"]]))
    return Pivot(rows, measures, caption or catalog.get(rows[0]["experiment"]).summary)


def _chosen(field: str, wanted: Sequence[str], rows: list[Row]) -> list[Row]:
    present = dict.fromkeys(row[field] for row in rows)
    for one in wanted:
        if one not in present:
            raise catalog.unknown(field, one, present)
    return [row for row in rows if row[field] in wanted]


def _run(row: Row) -> bool:
    """Whether we have a number to show; the smoke profile's are too small for any claim."""
    return row["mean"] is not None and row["profile"] != "smoke"


def _judged(row: Row) -> bool:
    return _run(row) and row["published"] is not None


def _ours(row: Row) -> str:
    if not _run(row):
        return word_of(row["verdict"]) if row["published"] is not None else NOT_RUN
    return number_text(row["mean"], row["se"], metrics()[row["metric"]].digits, extra=1)


def _plain(row: Row | None) -> str:
    """Our number with the verdict's sign and word, and the published one in parentheses."""
    if row is None:
        return "–"
    said = f" {symbol(row['verdict'])} {word_of(row['verdict'])}" if _judged(row) else ""
    return _ours(row) + said + (f" ({row['printed']})" if row["printed"] else "")


def _marked(row: Row | None) -> str:
    if row is None:
        return "–"
    text = html.escape(_ours(row))
    if _judged(row):
        why = html.escape(row["verdict"], quote=True)
        text += f' <span title="{why}" aria-hidden="true">{symbol(row["verdict"])}</span>'
        text += f'<span class="bnn-aloud"> {html.escape(word_of(row["verdict"]))}</span>'
    return text + (f"<br><small>({html.escape(row['printed'])})</small>" if row["printed"] else "")
