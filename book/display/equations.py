"""The table at the end of a chapter: which function computes which equation, read from the library's docstrings."""

import ast
import html
import re
from collections.abc import Iterator
from pathlib import Path

LEFT = 'style="text-align: left"'  # JupyterLab sets cells to the right
ROOT = Path(__file__).resolve().parents[2]
# where an equation is computed, from the ground floor up; pictures and exercises only use it
_PACKAGES = "functional posteriors nn optim sampling replicates pruning datasets train metrics contest"
FLOORS = [*(f"bnnlib/{one}" for one in _PACKAGES.split()), "chapters"]


def _definitions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(qualified name, docstring) of every public function, class and method."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield prefix + node.name, ast.get_docstring(node) or ""
            if isinstance(node, ast.ClassDef):
                yield from _definitions(node, f"{prefix}{node.name}.")


def equation_sources(prefix: str) -> dict[str, list[tuple[str, str]]]:
    """{equation label: [(importable name, first line of its docstring)]} of all labels that start with `prefix`.

    The order is that of the chapter, as far as its notebook is at hand, and so that of the equations' numbers.

    Args:
        prefix: of the chapter's labels, e.g. "svbnn".

    Raises:
        ValueError: no docstring names such a label.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for floor in FLOORS:
        root = ROOT / floor
        paths = sorted(root.rglob("*.py")) if root.is_dir() else [root] if root.exists() else []
        for path in paths:
            if {"figures", "exercises.py"} & set(path.relative_to(ROOT).parts):
                continue
            content = path.read_text(encoding="utf-8")
            if f"({prefix}-" not in content:  # most have nothing of a chapter, and to parse them all takes a second
                continue
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for name, text in _definitions(ast.parse(content)):
                # a method's docstring is not part of its class's, so no label is counted twice
                for label in dict.fromkeys(re.findall(rf"\(({re.escape(prefix)}-[a-z0-9-]+)\)", text)):
                    found.setdefault(label, []).append((f"{module}.{name}", text.split("\n")[0]))
    if not found:
        raise ValueError(f"no docstring of the library names an equation ({prefix}-...): check the prefix")
    written = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "chapters").glob("*.ipynb")))
    return dict(sorted(found.items(), key=lambda one: (written.find(f":label: {one[0]}\\n"), one[0])))


class EquationTable:
    """Rows of `equation_sources` that a notebook displays; leave it on a cell's last line.

    Args:
        prefix: of the chapter's labels.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix, self.rows = prefix, equation_sources(prefix)

    def _repr_html_(self) -> str:
        body = []
        for label, places in self.rows.items():
            names = "<br>".join(f"<code>{html.escape(name)}</code>" for name, _ in places)
            body.append(
                f'<tr><th scope="row" {LEFT}><a href="#equation-{label}">{label}</a></th><td {LEFT}>{names}</td></tr>'
            )
        caption = "Equations of this chapter and the functions that compute them"
        return (
            f'<div class="bnn-table" role="region" tabindex="0" aria-label="{caption}" style="overflow-x: auto">'
            f'<table style="text-align: left"><caption style="text-align: left">{caption}</caption>'
            f'<thead><tr><th scope="col" {LEFT}>Equation</th><th scope="col" {LEFT}>In the library</th></tr></thead>'
            f"<tbody>{''.join(body)}</tbody></table></div>"
        )

    def _repr_markdown_(self) -> str:
        lines = ["| Equation | In the library |", "|---|---|"]
        for label, places in self.rows.items():
            lines.append(f"| {label} | {', '.join(f'`{name}`' for name, _ in places)} |")
        return "\n".join(lines)


equation_table = EquationTable
