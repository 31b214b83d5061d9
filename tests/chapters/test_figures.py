"""What a package of figures hands its chapter: the names that the cells take, and no other."""

import ast
import re

import pytest

from book import studies
from book.editions.project import read_notebook, source_of
from book.editions.source import ROOT


@pytest.mark.parametrize("study", studies.all(ROOT / "chapters"), ids=lambda study: study.name)
def test_a_chapter_takes_every_name_of_its_figures_and_no_other(study):
    names = set()
    for node in ast.parse((study.folder / "figures" / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module.startswith(f"{study.package}.figures"):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef):  # a chapter that is begun has all pictures in the one file
            names.add(node.name)
    cells = read_notebook(ROOT / "chapters" / study.notebook)["cells"]
    taken = {name for cell in cells for name in re.findall(r"(?<![\w.])figures\.(\w+)", source_of(cell))}
    assert names == taken
