"""All that is stored of the experiments, for the pages that a build writes: rows, runs, validity, provenance.

The builder asks for it as ``python -m book.lab.evidence``, in a process of its own, so that a library that is broken
cannot break it.
"""

import shlex
from collections.abc import Iterable
from functools import cache
from typing import Any

from book.lab import catalog, plan, validity
from book.lab.cells import Cell
from book.lab.comparison import compare
from book.lab.metrics import metrics
from book.lab.plan import stored_parts
from book.lab.store import NotStoredError, by_cell, load_result, to_json
from book.lab.tables import said
from book.lab.verdicts import counts, distinct

Run = dict[str, Any]
DERIVED = ""  # in the place of a metric: of every run, which measures that follow from its arrays come from


def evidence(name: str) -> dict[str, Any]:
    """What there is of one experiment.

    Returns:
        summary, paper, overlap (of its splits), profile ("" without a result); counts and cells, see
        `book.lab.verdicts`; measures, the names of its metrics in the order of tables; state, a word for the whole
        result; provenance; runs, the stored cells with profile, label, minutes, device, commit, dirty, failed, state
        and command; rows of `compare` with texts, as tables show them, runs, the places of those that they come from,
        minutes of these, and the command that computes them again.
    """
    experiment = catalog.get(name)
    rows = compare(name)
    about: dict[str, Any] = {
        "summary": experiment.summary,
        "paper": catalog.paper_of(name),
        "overlap": experiment.overlap,
    }
    about |= {"counts": counts(rows), "cells": distinct(rows)}
    about["measures"] = [one for one in metrics() if any(row["metric"] == one for row in rows)]
    try:
        parts = [_Part(name, load_result(name, part["profile"])) for part in stored_parts(name)]
    except NotStoredError:
        parts = [_Part(name, {"profile": "", "provenance": {}, "cells": [], "rows": []})]
    for row in rows:
        own = (row["setting"], row["method"])
        part = next((one for one in parts if one.profile == row["profile"]), parts[0])
        some = sorted(part.where.get((*own, row["metric"])) or part.where.get((*own, DERIVED), ()))
        first = 0 if part is parts[0] else len(parts[0].runs)
        row["texts"], row["runs"] = said(row), [first + k for k in some]
        row["minutes"] = round(sum(part.runs[k]["minutes"] for k in some), 3) if some else None
        row["command"] = part.again(*some)
    runs = [run for part in parts for run in part.runs]
    dirty = ", dirty" if any(run["dirty"] for run in runs) else ""
    state = validity.worst([one for part in parts for one in part.known]) + dirty if runs else ""
    about |= {"profile": parts[0].profile, "state": state, "provenance": parts[0].provenance}
    return about | {"runs": runs, "rows": rows}


class _Part:
    """One stored result: its runs, and which of them a row comes from."""

    def __init__(self, name: str, result: dict[str, Any]) -> None:
        experiment = catalog.get(name)
        self.profile, self.provenance = result["profile"], result["provenance"]
        self.known = validity.states_of(experiment, result)
        self.cells = [validity.cell_of(one["cell"]) for one in result["cells"]]
        self.where = _runs_of(result)
        planned = plan.cells_of(experiment, self.profile) if self.cells else []
        self.again = cache(lambda *places: command(name, self.profile, [self.cells[k] for k in places], planned))
        self.runs = [
            _run(cell, one, self.known) | {"profile": self.profile, "command": self.again(k)}
            for k, (cell, one) in enumerate(zip(self.cells, result["cells"], strict=True))
        ]


def command(name: str, profile: str, cells: list[Cell], planned: list[Cell]) -> str:
    """The line that computes the cells again, and no other that is planned; "" where one is in today's grid no more."""
    labels, every = [one.label for one in cells], [one.label for one in planned]
    if not cells or not set(labels) <= set(every):
        return ""
    begin = f"python -m book run {name} --profile {profile} --again"
    if len(labels) == len(every):
        return begin
    shared = f"{cells[0].setting} {cells[0].method} ["
    if len(labels) > 1 and sorted(one for one in every if shared in one) == sorted(labels):
        return f"{begin} --only {_quoted(shared)}"
    return " && ".join(f"{begin} --only {_quoted(one)}" for one in labels)


def _quoted(text: str) -> str:
    # double quotes are understood by every shell, unless the text has something that they leave active
    return shlex.quote(text) if set(text) & set('"$`\\!%') else f'"{text}"'


def _run(cell: Cell, about: dict[str, Any], known: list[validity.State]) -> Run:
    states = [one for one in known if one.method == cell.method]
    word = next((one.word for one in states if cell.label in one.cells), states[0].word if states else "")
    return {
        "label": cell.label,
        "minutes": round(about["seconds"] / 60, 3),
        "device": about.get("device", ""),
        "commit": about.get("commit") or "",
        "dirty": bool(about.get("dirty")),
        "failed": about["failed"],
        "state": word,
    }


def _runs_of(result: dict[str, Any]) -> dict[tuple[str, str, str], set[int]]:
    """The places of the cells behind each setting, method and metric, or all of its metrics."""
    found: dict[tuple[str, str, str], set[int]] = {}
    for place, (_, rows) in enumerate(by_cell(result)):
        for row in rows:
            for metric in (row["metric"], DERIVED):
                found.setdefault((row["setting"], row["method"], metric), set()).add(place)
    return found


def main(names: Iterable[str]) -> None:
    """Print the evidence of the experiments, all of them unless some are named."""
    print(to_json({name: evidence(name) for name in names or catalog.names()}))


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
