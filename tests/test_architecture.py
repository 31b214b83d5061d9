"""The arrows between modules, read from the sources: chapters -> book -> bnnlib, and inside each only downward.

No module is imported here, so the test also holds for what needs an extra, and it says the line that is at fault.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

# A part of bnnlib imports from its own floor and from those below; no two parts of one floor import each other.
FLOORS = {
    1: {"functional", "posteriors"},
    2: {"nn", "optim", "sampling", "pruning", "models", "metrics", "datasets"},
    3: {"replicates", "train"},
    4: {"contest", "estimators"},
    5: {"__main__"},
}
FLOOR = {part: floor for floor, parts in FLOORS.items() for part in parts}
# What a part of book may import of book; editions and the command line stand above all.
ROOMS = {"studies": set(), "forks": set(), "lab": {"studies", "forks"}, "display": {"studies", "lab"}}
ALONE = {"torch", "numpy", "bnnlib", *sys.stdlib_module_names}
# An extra that a part is made for: nothing else of bnnlib imports that part, or that file of it, as a module.
EXTRAS = {"estimators": {"sklearn", "scipy"}, "_native": {"triton"}}


@dataclass(frozen=True)
class Import:
    """One import: which module asks for which, in which line, and whether only when a function is called."""

    source: str
    target: str
    line: int
    lazy: bool

    def __str__(self) -> str:
        return f"{self.source}, line {self.line}: {self.target}"


class Tree:
    """The modules of bnnlib, book and chapters below ``root`` and what they import."""

    def __init__(self, root: Path) -> None:
        self.files = {}
        for top in ("bnnlib", "book", "chapters"):
            for path in sorted((root / top).rglob("*.py")):
                if "_ext" not in path.parts:  # extensions of Sphinx are no modules of the package
                    name = ".".join(path.relative_to(root).with_suffix("").parts)
                    self.files[name.removesuffix(".__init__")] = path
        self.imports = [one for name in self.files for one in self._of(name)]

    def _of(self, name: str) -> Iterator[Import]:
        path = self.files[name]
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for node, lazy in _statements(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                wanted = [alias.name for alias in node.names]
            else:
                above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                base = ".".join([*above, *filter(None, [node.module])])
                names = [f"{base}.{alias.name}" for alias in node.names]
                wanted = {module if module in self.files else base for module in names}
            yield from (Import(name, target, node.lineno, lazy) for target in sorted(wanted))


def _statements(node: ast.AST, lazy: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """The imports below a node, without those for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, lazy
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from _statements(ast.Module([other], []), lazy)
        else:
            yield from _statements(child, lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def part(module: str) -> str:
    """The second word of a module's name: "nn" of "bnnlib.nn.base"; empty for the package itself."""
    return [*module.split("."), ""][1]


def top(module: str) -> str:
    return module.split(".")[0]


def floor(module: str) -> int:
    """Private modules and the package itself are the ground; a part without a floor is a KeyError."""
    name = part(module)
    return 0 if not name or (name.startswith("_") and not name.startswith("__")) else FLOOR[name]


def upward(tree: Tree) -> Iterator[Import]:
    """Imports against the arrows chapters -> book -> bnnlib and against the floors and rooms inside."""
    for one in tree.imports:
        source, target = top(one.source), top(one.target)
        if source == "bnnlib" and target == "bnnlib":
            wrong = floor(one.target) > floor(one.source)
        elif source == "book" and target == "book":
            room = part(one.source)
            wrong = room in ROOMS and part(one.target) not in {"", room, *ROOMS[room]}
        elif source == "chapters" and target == "chapters":
            wrong = part(one.target) not in {part(one.source), "shared"}
        else:
            wrong = target in {"bnnlib": {"book", "chapters"}, "book": {"chapters"}}.get(source, set())
        if wrong:
            yield one


def strangers(tree: Tree) -> Iterator[Import]:
    """What bnnlib would need to be imported at all, beside PyTorch, NumPy and the standard library."""
    for one in tree.imports:
        allowed = ALONE | EXTRAS.get(part(one.source), set())
        if top(one.source) == "bnnlib" and not one.lazy and top(one.target) not in allowed:
            yield one


def circle(tree: Tree) -> list[str]:
    """Modules that import each other in a circle, directly, through a package's ``__init__``, or in a function.

    Without a circle every module can be the first that a fresh process imports.
    """
    graph: dict[str, set[str]] = {name: set() for name in tree.files}
    for one in tree.imports:
        words = one.target.split(".")
        packages = {".".join(words[:count]) for count in range(1, len(words))}
        packages = {name for name in packages if not f"{one.source}.".startswith(f"{name}.")}
        graph[one.source] |= ({one.target} | packages) & set(tree.files)
    return _first_circle(graph)


def circle_of_parts(tree: Tree) -> list[str]:
    """Parts of bnnlib that need each other: nn and optim, say, by way of different modules."""
    graph: dict[str, set[str]] = {}
    for one in tree.imports:
        if top(one.source) == top(one.target) == "bnnlib" and part(one.source) != part(one.target):
            graph.setdefault(part(one.source), set()).add(part(one.target))
    return _first_circle(graph)


def _first_circle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


RULES = {rule.__name__: rule for rule in (upward, strangers, circle, circle_of_parts)}


@pytest.fixture(scope="module")
def tree(root) -> Tree:
    return Tree(root)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_the_arrows_point_down(tree, rule):
    assert len(tree.files) > 200 and len(tree.imports) > 1000
    assert [str(found) for found in RULES[rule](tree)] == []


@pytest.mark.parametrize(
    ("rule", "file", "text"),
    [
        ("upward", "bnnlib/nn/a.py", "from book import lab"),
        ("upward", "bnnlib/functional/a.py", "def f():\n    from bnnlib import nn"),
        ("upward", "bnnlib/functional/a.py", "from ..nn import base"),
        ("upward", "bnnlib/_checks.py", "import bnnlib.functional.gaussian"),
        ("upward", "bnnlib/nn/a.py", "from bnnlib.train.fit import fit"),
        ("upward", "book/lab/a.py", "import chapters.one.figures"),
        ("upward", "book/lab/a.py", "from book import display"),
        ("upward", "book/display/a.py", "from book.editions import check"),
        ("upward", "chapters/one/a.py", "from chapters.two.figures import axes"),
        ("upward", "chapters/shared/a.py", "from chapters import one"),
        ("strangers", "bnnlib/nn/a.py", "try:\n    import scipy\nexcept ImportError:\n    pass"),
        ("strangers", "bnnlib/nn/a.py", "import sklearn"),
        ("strangers", "bnnlib/estimators/a.py", "import pandas"),
        ("circle", "bnnlib/nn/base.py", "def f():\n    from bnnlib.nn import linear"),
        ("circle", "bnnlib/nn/base.py", "from bnnlib import models"),
        ("circle_of_parts", "bnnlib/nn/base.py", "def f():\n    from bnnlib.models.b import net"),
    ],
)
def test_each_rule_can_fail(tmp_path, rule, file, text):
    sources = {
        "bnnlib/__init__.py": "import math",
        "bnnlib/_checks.py": "import torch",
        "bnnlib/functional/__init__.py": "from bnnlib._checks import positive",
        "bnnlib/nn/__init__.py": "from bnnlib.nn.linear import Linear",
        "bnnlib/nn/base.py": "if TYPE_CHECKING:\n    from bnnlib.train import fit",
        "bnnlib/nn/linear.py": "from .base import Layer",
        "bnnlib/models/__init__.py": "from bnnlib.models.a import net",
        "bnnlib/models/a.py": "from bnnlib.nn import Linear\n\ndef f():\n    import sklearn",
        "bnnlib/models/b.py": "",
        "bnnlib/train/fit.py": "",
        "bnnlib/estimators/base.py": "import sklearn",
        "book/lab/a.py": "from book import studies",
        "book/display/__init__.py": "from bnnlib import nn",
        "book/editions/check.py": "from book import display, lab",
        "chapters/one/__init__.py": "",
        "chapters/one/a.py": "",
        "chapters/one/figures.py": "from chapters.shared import images",
        "chapters/two/figures.py": "from book import display",
        "chapters/shared/images.py": "import bnnlib",
    }
    for name, source in sources.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    assert [list(found(Tree(tmp_path))) for found in RULES.values()] == [[]] * len(RULES)
    (tmp_path / file).write_text(text)
    assert list(RULES[rule](Tree(tmp_path)))
