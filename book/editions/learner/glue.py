"""What `myst_nb.glue` left in the outputs of a chapter, for the roles {glue:text} that still stand in its text."""

from __future__ import annotations

import ast

from book.editions.project import BookError, code_cells

RECORD = "application/papermill.record/text/plain"


def glued(notebook: dict) -> dict[str, str]:
    """{key: text} of all glued values."""
    found = {}
    for cell in code_cells(notebook):
        for output in cell.get("outputs", []):
            key = output.get("metadata", {}).get("scrapbook", {}).get("name")
            data = output.get("data", {})
            if key and (shown := data.get(RECORD, data.get("text/plain"))) is not None:
                shown = shown if isinstance(shown, str) else "".join(shown)
                found[key] = str(ast.literal_eval(shown)) if shown[:1] in "'\"" else shown
    return found


def reader(notebook: dict, page: str):
    """A function key -> text; it raises BookError for a key that nothing was glued under."""
    table = glued(notebook)

    def read(key: str) -> str:
        if key not in table:
            raise BookError(f"{page}: nothing is glued under {key!r}; was the chapter executed?")
        return table[key]

    return read
