"""Cells that only serve the page: which of them a learner's notebook needs to run."""

import ast

from book.editions.learner.answers import parsed, used
from book.editions.project import source_of, tags_of


def binds(code: str) -> set[str]:
    """Names that the code gives to something, in whatever scope."""
    found = set()
    for node in ast.walk(parsed(code)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
    return found


def is_bookkeeping(cell: dict) -> bool:
    """Whether the page leaves the cell out; the parameters are for the learner to set."""
    return cell["cell_type"] == "code" and "remove-cell" in tags_of(cell) and "parameters" not in tags_of(cell)


def without_idle(cells: list[dict]) -> list[dict]:
    """The cells without bookkeeping that nothing later uses: claims that are checked, numbers for the text."""
    kept: list[dict] = []
    wanted: set[str] = set()
    for cell in reversed(cells):
        code = source_of(cell) if cell["cell_type"] == "code" else ""
        if is_bookkeeping(cell) and not binds(code) & wanted:
            continue
        kept.append(cell)
        wanted |= used(code)
    return kept[::-1]
