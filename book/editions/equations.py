"""Which equations the chapters label, and which of them a test in ``tests/equations`` checks."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from book.editions.project import source_of

# The three ways to label a displayed equation in MyST: the math directive, dollar math with a label, and LaTeX.
LABEL = re.compile(
    r"^(?:`{3,}|:{3,})\{math\}[^\n]*\n(?:\s*:[\w-]+:[^\n]*\n)*?\s*:label:\s*(\S+)"
    r"|\$\$\s*\(([\w:.-]+)\)\s*$"
    r"|\\label\{([\w:.-]+)\}",
    re.MULTILINE,
)


def equation_labels(notebook: dict) -> list[str]:
    """Labels of the displayed equations of a chapter, in order."""
    prose = "\n".join(source_of(cell) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    return [next(filter(None, match.groups())) for match in LABEL.finditer(prose)]


def tests_of(text: str) -> set[str]:
    """What the tests of a module name: whole strings inside them or their decorators, and ``# equation:`` lines.

    The comment stands inside the function or on the line above it and may list several labels.
    """
    named: set[str] = set()
    lines = text.split("\n")
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.FunctionDef) and node.name.startswith("test_")):
            continue
        named |= {
            part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)
        }
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        for line in lines[max(0, first - 2) : node.end_lineno]:
            if comment := re.match(r"\s*# equation:(.+)$", line):
                named.update(re.findall(r"[\w-]+", comment[1]))
    return named


def tested_labels(root: Path, labels: list[str]) -> set[str]:
    """Those of the labels that a test in ``tests/equations`` of the tree at ``root`` names."""
    folder = root / "tests" / "equations"
    named = [tests_of(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("**/*.py"))]
    return set(labels) & set().union(*named)
