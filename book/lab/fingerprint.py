"""A hash of the code that computes a cell, blind to everything that cannot change its numbers.

The hash covers the function itself and, transitively, every definition that it names inside the package:
functions, classes, constants, and top-level statements with side effects. Docstrings, comments, layout, type hints
and definitions that are never reached do not count, nor does the module that a definition stands in: better prose, a
new method beside the old ones, or a file moved elsewhere leaves the hash as it was. The machinery that stores, runs and
draws (the package ``book``) does not count either.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from book.lab.listing import TREE, keep, read, touched

_REFLECTION = {"globals", "vars", "locals", "importlib", "__import__", "eval", "exec"}


def code_fingerprint(function: Callable) -> str:
    """The sha256 (hex) of the code reachable from a top-level function.

    Kept in ``data/cache/code.json`` as long as no file of the library and of the studies is touched.

    Raises:
        ValueError: the function is a lambda, a partial, nested or has no source file, so its code cannot be found.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<unnamed>")
    source = _source(module) if module else None
    if source is None or name not in source.definitions:
        raise ValueError(
            f"the code of {name!r} in module {module!r} cannot be found; give a function defined at the top level "
            "of a module file, not a lambda, a partial or a nested function"
        )
    if module.split(".")[0] not in ("bnnlib", "chapters"):
        return walk(module, name).digest()
    # of this tree's functions: to read all that one reaches takes a second, to look at times does not
    tree = touched([TREE / "bnnlib", TREE / "chapters", Path(__file__).parent])
    where = f"{module}:{name}"
    if (tree, where) not in _MADE:  # which also serves where nothing is kept in this home yet
        kept = read("code.json", tree) or {}
        _MADE[tree, where] = kept.get(where) or walk(module, name).digest()
        if where not in kept:
            keep("code.json", tree, kept | {where: _MADE[tree, where]})
    return _MADE[tree, where]


_MADE: dict[tuple[str, str], str] = {}


def walk(module: str, name: str | None) -> _Walk:
    """The top-level statements that the hash of a definition covers; those of the whole module with name None."""
    found = _Walk(packages={"bnnlib", "chapters", module.split(".")[0]})
    found.reach(module, name)
    return found


class _Strip(ast.NodeTransformer):
    """Remove docstrings and type hints, which cannot change a number."""

    def _body(self, node):
        self.generic_visit(node)
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            node.body = node.body[1:] or [ast.Pass()]
        if hasattr(node, "returns"):
            node.returns = None
        return node

    visit_Module = visit_ClassDef = visit_FunctionDef = visit_AsyncFunctionDef = _body

    def visit_arg(self, node):
        node.annotation = None
        return node


def _canonical(node: object) -> str:
    # ast.dump changes between Python versions (new empty fields); leaving empty fields out keeps the hash
    if isinstance(node, ast.AST):
        fields = [(name, value) for name, value in ast.iter_fields(node) if value not in (None, [])]
        return f"{type(node).__name__}({','.join(f'{name}={_canonical(value)}' for name, value in fields)})"
    if isinstance(node, list):
        return f"[{','.join(map(_canonical, node))}]"
    return repr(node)


_text = cache(_canonical)  # of a statement, which many functions reach


class _Source:
    """One parsed module: its top-level definitions, its imports anywhere, and its statements with side effects."""

    def __init__(self, module: str, path: Path) -> None:
        self.module, self.is_package = module, path.name == "__init__.py"
        self.tree = _Strip().visit(ast.parse(path.read_text(encoding="utf-8")))
        self.definitions: dict[str, list[ast.stmt]] = {}
        self.imports: dict[str, set[tuple[str, str | None]]] = {}
        self.effects: list[ast.stmt] = []
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self._add_import(node)
        for statement in self.tree.body:
            names = set(_bound_names(statement))
            for name in names:
                self.definitions.setdefault(name, []).append(statement)
            plain = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
            simple_assignment = isinstance(statement, (ast.Assign, ast.AnnAssign)) and names
            if self._registers(statement) or not (isinstance(statement, plain) or simple_assignment):
                self.effects.append(statement)

    def _add_import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                target = alias.name if alias.asname else alias.name.split(".")[0]
                self.imports.setdefault(alias.asname or target, set()).add((target, None))
            return
        base = node.module or ""
        if node.level:
            parts = self.module.split(".")
            parts = parts[: len(parts) - node.level + (1 if self.is_package else 0)]
            base = ".".join(parts + ([node.module] if node.module else []))
        for alias in node.names:
            self.imports.setdefault(alias.asname or alias.name, set()).add((base, alias.name))

    def _registers(self, statement: ast.stmt) -> bool:
        # a decorator written in the package may put the function into a table that is read by another name
        for decorator in getattr(statement, "decorator_list", []):
            first = next((node for node in ast.walk(decorator) if isinstance(node, ast.Name)), None)
            if first is None:
                continue
            targets = self.imports.get(first.id, set())
            if first.id in self.definitions or any(one.split(".")[0] in {"bnnlib", "chapters"} for one, _ in targets):
                return True
        return False


def _bound_names(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name
    elif not isinstance(statement, (ast.Import, ast.ImportFrom)):
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                yield node.name


@cache
def _path(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, AttributeError, ValueError):
        return None
    origin = spec.origin if spec else None
    return Path(origin) if origin and origin.endswith(".py") else None


def _source(module: str) -> _Source | None:
    path = _path(module)
    return _parse(module, path, path.stat().st_mtime_ns) if path else None


@cache
def _parse(module: str, path: Path, _changed: int) -> _Source:
    return _Source(module, path)


class _Walk:
    """Collect the statements that a definition reaches."""

    def __init__(self, packages: set[str]) -> None:
        self.packages = packages
        self.seen: set[tuple[str, str | None]] = set()
        self.statements: dict[tuple[str, int], ast.stmt] = {}

    def digest(self) -> str:
        text = sorted(map(_text, self.statements.values()))
        return hashlib.sha256("\n".join(text).encode()).hexdigest()

    def reach(self, module: str, name: str | None) -> None:
        """Add a definition of a module, or with name None (or "*") the whole module."""
        name = None if name == "*" else name
        inside = module.split(".")[0] in self.packages
        if not inside or (module, name) in self.seen:
            return
        self.seen.add((module, name))
        source = _source(module)
        if source is None:
            return
        if name is None:
            self._add(source, source.tree.body)
            for targets in source.imports.values():
                for base, attribute in targets:
                    self._follow(base, [attribute] if attribute else [])
            return
        if name in source.definitions:
            self._add(source, source.definitions[name] + source.effects)
        for base, attribute in source.imports.get(name, ()):
            self._follow(base, [attribute] if attribute else [])
        for base, attribute in source.imports.get("*", ()):
            self.reach(base, attribute)
        if name not in source.definitions and name not in source.imports and _path(f"{module}.{name}"):
            self.reach(f"{module}.{name}", None)

    def _add(self, source: _Source, statements: list[ast.stmt]) -> None:
        for statement in statements:
            key = (source.module, statement.lineno)
            if key not in self.statements:
                self.statements[key] = statement
                self._references(source, statement)

    def _references(self, source: _Source, statement: ast.AST) -> None:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            return  # an import counts by the names that are used
        for node, chain in _names(statement):
            if node.id in _REFLECTION:
                self.reach(source.module, None)
            if node.id in source.definitions:
                self.reach(source.module, node.id)
            for base, attribute in source.imports.get(node.id, ()):
                self._follow(base, ([attribute] if attribute else []) + chain)

    def _follow(self, module: str, attributes: list[str]) -> None:
        # walk down sub-modules as long as the attribute is one, then take the definition named next
        while attributes and _is_submodule(module, attributes[0], self.packages):
            module, attributes = f"{module}.{attributes[0]}", attributes[1:]
        self.reach(module, attributes[0] if attributes else None)


def _is_submodule(module: str, name: str, packages: set[str]) -> bool:
    if module.split(".")[0] not in packages or name == "*":
        return False
    source = _source(module)
    if source and (name in source.definitions or (source.imports.get(name, set()) - {(module, name)})):
        return False
    return importlib.util.find_spec(f"{module}.{name}") is not None if source is None or source.is_package else False


@cache
def _names(statement: ast.stmt) -> tuple[tuple[ast.Name, list[str]], ...]:
    return tuple(_chains(statement))


def _chains(node: ast.AST) -> Iterator[tuple[ast.Name, list[str]]]:
    """Every name that is read, with the attributes taken from it: ``nn.init.zeros_`` gives (nn, [init, zeros_])."""
    if isinstance(node, ast.Attribute):
        attributes, inner = [node.attr], node.value
        while isinstance(inner, ast.Attribute):
            attributes.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            yield inner, attributes
            return
        yield from _chains(inner)
        return
    if isinstance(node, ast.Name):
        yield node, []
        return
    for child in ast.iter_child_nodes(node):
        yield from _chains(child)
