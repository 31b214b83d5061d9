"""Answer cells, stubs that the learner completes; and which cells that only serve the page a notebook needs."""

import ast
import re

from book.editions.project import source_of, tags_of

OWN = re.compile(r"\s*[%!]")  # begins a line of IPython's own: a magic or a command of the shell
# What a stub may use; the cell imports what the chapter does not.
IMPORTS = {"math": "import math", "np": "import numpy as np", "torch": "import torch"}
IMPORTS["exercises"] = "from book.display import exercises"
OPEN = "# Your answer: work here. There is no check, but a solution at the end.\n"


def checked(code: str) -> list[str]:
    """Ids of the exercises that a solution's code checks, in order."""
    calls = [node for node in ast.walk(parsed(code)) if isinstance(node, ast.Call)]
    found = [
        call.args[0].value
        for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset))
        if getattr(call.func, "attr", getattr(call.func, "id", "")) == "check"
        and call.args
        and isinstance(call.args[0], ast.Constant)
    ]
    return list(dict.fromkeys(found))


def imported(code: str) -> set[str]:
    """Names that the code's import lines bind."""
    nodes = (node for node in ast.walk(parsed(code)) if isinstance(node, ast.Import | ast.ImportFrom))
    return {(one.asname or one.name).partition(".")[0] for node in nodes for one in node.names}


def used(code: str) -> set[str]:
    """All names in the code, and all words in lines of IPython's own."""
    words = {word for line in code.split("\n") if OWN.match(line) for word in re.findall(r"\w+", line)}
    return words | {node.id for node in ast.walk(parsed(code)) if isinstance(node, ast.Name)}


def answer_cell(exercise_id: str, known: set[str]) -> str:
    """Source of an answer cell, with the imports that it needs beyond the names that the chapter imports."""
    from book.display import exercises  # here, since it imports torch, without which pages can be rendered

    body = exercises.get(exercise_id).answer_cell
    needed = [line for name, line in IMPORTS.items() if name in used(body) - known]
    return "\n".join([*needed, "", body] if needed else [body])


def parsed(code: str) -> ast.Module:
    """The code's tree without lines of IPython's own."""
    return ast.parse("\n".join("" if OWN.match(line) else line for line in code.split("\n")))


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
