"""Which equations the chapters label, and which of them a test in ``tests/equations`` checks."""

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


def equation_tests(root: Path) -> tuple[set[str], dict[str, str]]:
    """(what tests name, {label: reason why it has none}) from the files in ``tests/equations`` of the tree at `root`.

    A label is named when it stands as a whole string inside a function ``test_...`` or its decorators, or behind
    ``# equation:`` inside the function or on the line above it. A module's dictionary UNTESTED excuses labels.
    """
    named: set[str] = set()
    excused: dict[str, str] = {}
    for path in sorted((root / "tests" / "equations").glob("**/*.py")):
        text = path.read_text(encoding="utf-8")
        lines, module = text.split("\n"), ast.parse(text)
        for node in module.body:
            if isinstance(node, ast.Assign) and [getattr(t, "id", "") for t in node.targets] == ["UNTESTED"]:
                excused.update(ast.literal_eval(node.value))
        for node in ast.walk(module):
            if not (isinstance(node, ast.FunctionDef) and node.name.startswith("test_")):
                continue
            constants = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
            named.update(value for value in constants if isinstance(value, str))
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            for line in lines[max(0, first - 2) : node.end_lineno]:
                if comment := re.match(r"\s*# equation:(.+)$", line):
                    named.update(re.findall(r"[\w-]+", comment[1]))
    return named, excused
