"""Numbers in the text: what `{eval}` roles ask of the kernel, and their values in place of the roles.

The roles are evaluated as jupyterlab-myst does it in an open notebook: where their cell stands, as IPython's
`user_expressions`, a text shown without its quotes. Here a hidden cell behind each Markdown cell asks.
"""

import ast
import copy
import re
from collections.abc import Iterator

from book.editions.project import EVAL, BookError, code_cells, expressions_of, source_of, tags_of

ASKED = "asked-by-the-builder"  # tag of the hidden cells
ASK = 'display({{"application/json": get_ipython().user_expressions(dict(enumerate({})))}}, raw=True)'
# jupyterlab-myst shows the bare expression until its cell has been run, unless the cell's metadata hold a result.
BEFORE = "…"
MARKUP = re.compile(r"[\\`*_\[\]<>$~{}|#^]")
ITEM = re.compile(r"^\s*(?:(?:[-*+]|\d+[.)])\s+)*")


def placeholders(cell: dict) -> list[dict]:
    """What a Markdown cell of a source holds as `user_expressions`: so that nobody reads an expression."""
    shown = {"result": {"data": {"text/plain": BEFORE}}}
    return [{"expression": expression} | shown for expression in dict.fromkeys(expressions_of(cell))]


def asking(notebook: dict) -> dict:
    """A copy in which a hidden cell behind each Markdown cell evaluates its expressions."""
    cells = []
    for cell in copy.deepcopy(notebook["cells"]):
        cells.append(cell)
        if asked := expressions_of(cell):
            about = {"tags": [ASKED], "of": cell["id"], "expressions": asked}
            hidden = {"cell_type": "code", "id": f"numbers-{len(cells)}", "execution_count": None, "outputs": []}
            cells.append(hidden | {"metadata": about, "source": ASK.format(asked)})
    return {**notebook, "cells": cells}


def answered(executed: dict) -> list[str | dict[str, str]]:
    """The values of all expressions, in order, from an executed copy with the hidden cells.

    Of a number that knows its stored runs also these: {"text", "experiment", "origin"}, see `book.lab.wording.Said`.
    """
    values, faults = [], []
    for cell in (cell for cell in code_cells(executed) if ASKED in tags_of(cell)):
        results = cell["outputs"][-1]["data"]["application/json"]
        for place, expression in enumerate(cell["metadata"]["expressions"]):
            try:
                values.append(_text(results[str(place)]))
            except ValueError as error:
                faults.append(f"Markdown cell {cell['metadata']['of']}: {{eval}}`{expression}` {error}")
    if faults:
        raise BookError(
            "\n  ".join([*faults, "The text can say what an earlier cell has defined; give it a str or a number."])
        )
    return values


def _text(result: dict) -> str | dict[str, str]:
    """One answer of `user_expressions` as jupyterlab-myst shows it."""
    if result["status"] != "ok":
        raise ValueError(f"raised {result['ename']}: {result['evalue']}")
    plain = result["data"].get("text/plain", "")
    shown = re.sub(r"""^(["'])(.*)\1$""", r"\2", plain)
    try:
        value = ast.literal_eval(plain)
    except (SyntaxError, ValueError):
        value = None
    if set(result["data"]) != {"text/plain"} or str(value) != shown or not isinstance(value, str | int | float):
        raise ValueError(f"is {plain[:60]}")
    about = result.get("metadata", {}).get("text/plain")
    return {"text": shown, **about} if about else shown


def _marked_up(value: str | dict[str, str]) -> str:
    """A value as Markdown: as text, or as a link to its experiment's report that says which runs it is from."""
    if isinstance(value, str):
        return MARKUP.sub(r"\\\g<0>", value)
    origin = re.sub(r'[\\`*_\[\]<>$~{}|#^"]', r"\\\g<0>", value["origin"])
    return f'[{_marked_up(value["text"])}](#report-{value["experiment"]} "{origin}")'


def said(cell: dict, values: Iterator[str | dict[str, str]]) -> dict:
    """A Markdown cell with the next values in place of its roles, and without what JupyterLab keeps of them."""
    lines = []
    for line in source_of(cell).split("\n"):
        told = EVAL.sub(lambda _: _marked_up(next(values)), line)
        start = ITEM.match(line).end()
        if EVAL.match(line, start):  # "3. Of these" would begin a list
            told = told[:start] + re.sub(r"^(\d*)([-+.)])(?=\s|$)", r"\1\\\2", told[start:])
        lines.append(told)
    metadata = {key: value for key, value in cell["metadata"].items() if key != "user_expressions"}
    return {**cell, "metadata": metadata, "source": "\n".join(lines).splitlines(keepends=True)}
