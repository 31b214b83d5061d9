"""Where the code of an experiment hands over something that changes on the way, and what it names there."""

import ast
from collections.abc import Callable, Iterator

from book.lab import fingerprint
from book.lab.fingerprint import _source, _Walk

KEYWORDS = {"schedule", "kl_scale", "lr_schedule", "temperature_schedule", "step_size"}
GROUP = {"lr", "temperature"}  # entries of an optimizer's groups
PRUNERS = ("AGPPruner", "MagnitudePruner")


def walk(function: Callable) -> _Walk:
    """Everything that a top-level function reaches in the library and the chapters."""
    return fingerprint.walk(function.__module__, function.__qualname__)


def sites(function: Callable) -> Iterator[tuple[str, set[tuple[str, str]], bool]]:
    """Place, the definitions named there, and whether a formula stands there that has no name."""
    for (module, line), statement in walk(function).statements.items():
        if not module.startswith("chapters."):
            continue
        for value in _values(statement):
            names, unnamed = _resolved(module, statement, value)
            if names or unnamed:
                yield f"{module}:{getattr(value, 'lineno', line)}", names, unnamed and not names


def _values(statement: ast.stmt) -> Iterator[ast.expr]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            yield from (word.value for word in node.keywords if word.arg in KEYWORDS)
            if name in PRUNERS:
                yield from (*node.args[1:], *(word.value for word in node.keywords if word.arg is None))
        elif isinstance(node, ast.Assign) and any(map(_is_group, node.targets)):
            yield node.value
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield from (value for key, value in pairs if isinstance(key, ast.Constant) and key.value in KEYWORDS)


def _is_group(target: ast.expr) -> bool:
    key = getattr(target, "slice", None)
    return isinstance(target, ast.Subscript) and isinstance(key, ast.Constant) and key.value in GROUP


def _resolved(module: str, statement: ast.stmt, value: ast.expr) -> tuple[set[tuple[str, str]], bool]:
    """Functions and schedules behind an expression, its local names looked up; whether it computes something itself."""
    source, names, seen, waiting, formula = _source(module), set(), set(), [value], False
    while waiting:
        node = waiting.pop()
        formula |= isinstance(node, (ast.Lambda, ast.BinOp)) and any(
            isinstance(part, ast.Name) and part.id in ("epoch", "step", "k") for part in ast.walk(node)
        )
        if not isinstance(node, ast.Name):
            # what a named function is called with are numbers; what it computes is its own
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id != "partial"
            waiting += [node.func] if called else ast.iter_child_nodes(node)
        elif node.id not in seen:
            seen.add(node.id)
            for base, attribute in source.imports.get(node.id, ()):
                # a check of the library, such as that a factor is not negative, changes no value
                if base.startswith(("chapters.", "bnnlib.")) and attribute and base != "bnnlib._checks":
                    names.add((base, attribute))
            if any(_computes(one) for one in source.definitions.get(node.id, ())):
                names.add((module, node.id))
            waiting += _assigned(statement, node.id)
    return names, formula


def _computes(statement: ast.stmt) -> bool:
    plain = (ast.Constant, ast.Dict, ast.List, ast.Tuple)
    return not (isinstance(statement, ast.Assign) and isinstance(statement.value, plain)) or any(
        isinstance(node, ast.Call) for node in ast.walk(statement)
    )


def _assigned(statement: ast.stmt, name: str) -> Iterator[ast.expr]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id == name:
                    yield node.value
