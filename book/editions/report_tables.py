"""The tables of a report, as HTML: rows of the comparison by setting and method, and the runs that they came from."""

import html
from collections import Counter
from collections.abc import Mapping

from book.editions.compared import WORDS

ABREAST = 3
"""Measures beside each other in a table."""


def words(said: Mapping[str, int]) -> str:
    """Verdicts with their numbers, those that occur."""
    return ", ".join(f"{word} {said[word]}" for word in WORDS if said[word])


def pivots(rows: list[dict], known: list[str]) -> list[tuple[str, str]]:
    """(summary, table) of rows by `known` measures: a line a setting and method, at most three measures abreast."""
    found = []
    for start in range(0, len(known), ABREAST):
        measures = known[start : start + ABREAST]
        part = [row for row in rows if row["metric"] in measures]
        found.append((_summary(part), _pivot(part, measures)))
    return found


def _summary(rows: list[dict]) -> str:
    measures = dict.fromkeys(row["texts"]["Measure"] for row in rows)
    said = Counter(row["verdict"].partition(":")[0] for row in rows if row["published"] is not None)
    return f"{'; '.join(measures)}: {len(rows):,} rows" + (f" ({words(said)})" if said else "")


def _pivot(rows: list[dict], measures: list[str]) -> str:
    settings: dict[str, dict[str, dict[str, dict]]] = {}
    for row in rows:
        settings.setdefault(row["setting"], {}).setdefault(row["method"], {})[row["metric"]] = row
    every = dict.fromkeys(note for row in rows for note in _notes(row))
    # what is said of all rows is said once, and not with a mark in each of a thousand cells
    shared = [note for note in every if len(rows) > 1 and all(note in _notes(row) for row in rows)]
    notes = {note: k for k, note in enumerate((note for note in every if note not in shared), start=1)}
    labels = {row["metric"]: row["texts"]["Measure"] for row in rows}
    several = len({row["data"] for row in rows if row["data"]}) > 1
    counts = {row["texts"]["n"] for row in rows}
    same = len(rows) > 1 and len(counts) == 1 and "" not in counts  # a column of one number is said once, too
    told = ["n"] * (not same) + ["Budget"] * any(row["texts"]["Budget"] for row in rows) + ["Data"] * several
    head = ["Setting", "Method", *(labels[one] for one in measures), *told]
    body = []
    for setting, methods in settings.items():
        span = f' rowspan="{len(methods)}"' if len(methods) > 1 else ""
        name = f'<th scope="rowgroup"{span}>{html.escape(setting)}</th>'
        for method, cells in methods.items():
            own = [row for row in cells.values() if row["n"]]
            alone = len({row["n"] for row in own}) > 1
            # HTML closes these cells and lines by itself, and a report has thousands of them
            columns = [f'{name}<th scope="row">{html.escape(method)}']
            columns += [f"<td>{_cell(cells[one], notes, alone) if one in cells else ''}" for one in measures]
            columns += [f"<td>{html.escape(_joined(own, fact))}" for fact in told]
            body.append(f"<tr>{''.join(columns)}")
            name = ""
    lines = [f"All rows: {html.escape(note)}" for note in [f"n = {counts.pop()}"] * same + shared]
    below = "<br>".join(lines + [f"<sup>{number}</sup> {html.escape(note)}" for note, number in notes.items()])
    return _framed(_summary(rows), head, body) + (f"<p><small>{below}</small></p>" if below else "")


def _joined(rows: list[dict], column: str) -> str:
    """What rows of a line share; where a published budget is known for some, the budget of those."""
    said = list(dict.fromkeys(row["texts"][column] for row in rows if row["texts"][column]))
    if column == "Budget" and any(" / " in text for text in said):
        said = [text for text in said if " / " in text]
    return ", ".join(said)


def _cell(row: dict, notes: dict[str, int], alone: bool) -> str:
    """One row of the comparison; with `alone` it says its own number of replicates."""
    texts = row["texts"]
    lines = [html.escape(texts["Ours"]) + (f" (n = {row['n']})" if alone else "")] if row["n"] else []
    if row["published"] is not None:
        lines.append(f"({html.escape(row['printed'])})")
    if row["difference"] is not None:
        lines.append(f"d {html.escape(texts['Difference'])}")
    marks = ", ".join(str(notes[note]) for note in _notes(row) if note in notes)
    if row["published"] is None and row["n"]:
        return "<br>".join(lines) + (f" <sup>{marks}</sup>" if marks else "")
    sign, _, verdict = texts["Verdict"].partition(" ")
    said = f'<i aria-hidden="true">{sign}</i> {html.escape(verdict.partition(":")[0])}'
    return "<br>".join([*lines, said + (f" <sup>{marks}</sup>" if marks else "")])


def _notes(row: dict) -> list[str]:
    """The reason of the verdict, and what else there is to say of the row."""
    return [text for text in (row["verdict"].partition(": ")[2], row["note"], row["state"]) if text]


def runs(some: list[dict]) -> str:
    """What each run took and came from, with the line that computes it again."""
    states = [", ".join(filter(None, (r["state"], "dirty" * r["dirty"], "failed" * r["failed"]))) for r in some]
    kept, differ = any(run["commit"] for run in some), len(set(states)) > 1  # what all share stands above the table
    body = []
    for run, state in zip(some, states, strict=True):
        line = html.escape(run["command"], quote=False)
        # the copy button finds a code block of Sphinx by these two elements
        again = f'<div><div class="highlight"><pre>{line}</pre></div></div>' if line else "in today's grid no more"
        columns = [f"{run['minutes']:,.1f}", html.escape(run["device"]), *[run["commit"][:8]] * kept, *[state] * differ]
        cells = "".join(f"<td>{one}" for one in (*columns, again))
        body.append(f'<tr><th scope="row">{html.escape(run["label"])}{cells}')
    head = ["Run", "Minutes", "Device", *["Commit"] * kept, *["Validity"] * differ, "Computes it again"]
    return _framed("Runs", head, body)


def _framed(label: str, head: list[str], body: list[str]) -> str:
    label = html.escape(label, quote=True)
    columns = "".join(f'<th scope="col">{html.escape(one)}</th>' for one in head)
    return (
        f'<div class="bnn-table bnn-report" role="region" tabindex="0" aria-label="{label}">'
        f"<table><thead><tr>{columns}</tr></thead><tbody>\n" + "\n".join(body) + "\n"
        "</tbody></table></div>"
    )


def fold(summary: str, inside: str) -> str:
    """A part of the page that opens on demand."""
    return f'<details class="bnn-fold"><summary>{html.escape(summary)}</summary>\n{inside}\n</details>'
