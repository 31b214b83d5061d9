"""Mutants: changes of one place in a file, each of which the tests or the certificates should notice.

The list is ``tests/mutants.toml``. Some are written by hand, the others come from `generate`, which proposes small
changes of lines that experiments reach; what it proposes is put into the list, so that a reason can stand beside it.
"""

from __future__ import annotations

import ast
import json
import random
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from book.lab.store import dump_result

LIST = "tests/mutants.toml"
CHECKSUMS = ("kept", "renewed", "removed")


class MutantError(ValueError):
    """The list of mutants, or one of them, cannot be used; the message names it."""


@dataclass(frozen=True)
class Mutant:
    """A change of one place.

    Args:
        id: unique.
        file: path from the root of the tree.
        old, new: text that stands in the file exactly once, and what takes its place.
        kind: what goes wrong: data, schedule, formula ...
        why: the harm.
        survives: why nothing needs to notice it; "" if something should.
        harmless: nothing goes wrong, and nothing may complain.
        checksum: of a stored result: kept as it was, renewed or removed.
        tests: files or folders of tests that are about it, where their names do not say so.
        results: stored results that `verify` is asked about, as "name.profile"; by default those whose code reaches it.
    """

    id: str
    file: str
    old: str
    new: str
    kind: str
    why: str
    survives: str = ""
    harmless: bool = False
    checksum: str = "kept"
    tests: tuple[str, ...] = ()
    results: tuple[str, ...] = ()

    def line(self, text: str) -> int:
        """The first line of the file's text that changes, from 1.

        Raises:
            MutantError: the old text does not stand there exactly once, or the new one is the same.
        """
        if text.count(self.old) != 1 or self.old == self.new:
            raise MutantError(f"mutant {self.id!r}: its old text occurs {text.count(self.old)} times in {self.file}")
        same = next((at for at, (a, b) in enumerate(zip(self.old, self.new, strict=False)) if a != b), 0)
        return text[: text.index(self.old) + same].count("\n") + 1

    def of(self, text: str) -> str:
        """The file's text with the change.

        Raises:
            MutantError: as `line`.
        """
        self.line(text)
        text = text.replace(self.old, self.new)
        if self.checksum == "kept":
            return text
        result = json.loads(text)
        result.pop("sha256", None)
        text = dump_result(result)
        return text if self.checksum == "renewed" else text[:2] + text[2:].partition("\n")[2]


def read(root: Path) -> list[Mutant]:
    """The list of a tree.

    Raises:
        MutantError: an entry lacks a field or has an unknown one, two have the same id, or one does not apply.
    """
    entries = tomllib.loads((root / LIST).read_text(encoding="utf-8")).get("mutant", [])
    known, found = {field.name for field in fields(Mutant)}, {}
    for entry in entries:
        name = entry.get("id", "without id")
        if unknown := set(entry) - known:
            raise MutantError(f"mutant {name!r} has the unknown field {min(unknown)!r}")
        try:
            one = Mutant(**{key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()})
        except TypeError as error:
            raise MutantError(f"mutant {name!r}: {error}") from None
        if one.id in found or one.checksum not in CHECKSUMS:
            raise MutantError(f"mutant {name!r} stands there twice, or its checksum is none of {', '.join(CHECKSUMS)}")
        if not (root / one.file).is_file():
            raise MutantError(f"mutant {name!r}: there is no file {one.file}")
        one.line((root / one.file).read_text(encoding="utf-8"))
        found[name] = one
    return list(found.values())


Change = tuple[str, int, int, str]
"""What a generated mutant does, from which character to which, and the new text there."""
_COMPARE = {ast.LtE: ast.Lt, ast.GtE: ast.Gt, ast.Lt: ast.GtE, ast.Gt: ast.LtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
_ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add}


def changes(text: str) -> Iterator[tuple[int, Change]]:
    """Every small change that `generate` knows of a module's text, with its line; those of errors raised are left out.

    A comparison turned or made strict, + and - exchanged, a number made larger by a tenth, a ``clamp`` taken out, a
    condition turned into its opposite.
    """
    lines = text.splitlines(keepends=True)

    def place(line: int, column: int) -> int:
        # the parser counts bytes of a line
        return sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())

    def of(node: ast.AST) -> Iterator[tuple[str, ast.expr, str]]:
        match node:
            case ast.Compare(left, [sign], [right]) if type(sign) in _COMPARE:
                yield "comparison", node, ast.unparse(ast.Compare(left, [_COMPARE[type(sign)]()], [right]))
            case ast.BinOp(left, sign, right) if type(sign) in _ARITHMETIC:
                yield "sign", node, ast.unparse(ast.BinOp(left, _ARITHMETIC[type(sign)](), right))
            case ast.Constant(float(value)) if value:
                yield "constant", node, repr(round(1.1 * value, 12))
            case ast.Call(ast.Attribute(inner, name)) if "clamp" in name:
                yield "clamp", node, f"({ast.unparse(inner)})"
            case ast.If(test) | ast.IfExp(test):
                yield "condition", test, f"not ({ast.unparse(test)})"

    def walk(node: ast.AST) -> Iterator[tuple[int, Change]]:
        if isinstance(node, ast.Raise) or (isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise)):
            return
        for kind, old, new in of(node):
            span = place(old.lineno, old.col_offset), place(old.end_lineno, old.end_col_offset)
            yield node.lineno, (kind, *span, new)
        for child in ast.iter_child_nodes(node):
            yield from walk(child)

    yield from walk(ast.parse(text))


def generate(sources: dict[str, str], lines: dict[str, set[int]], count: int, seed: int = 0) -> list[Mutant]:
    """Mutants drawn from all small changes, every kind of change as often as the others, two of a file at most.

    Args:
        sources: file to text.
        lines: file to the lines that may change.
        count: how many.
        seed: of the choice.
    """
    found: dict[str, list[tuple[str, int, Change]]] = {}
    for file, text in sorted(sources.items()):
        for line, change in changes(text):
            if line in lines.get(file, ()):
                found.setdefault(change[0], []).append((file, line, change))
    chance = random.Random(seed)
    for places in found.values():
        chance.shuffle(places)
    drawn: list[Mutant] = []
    while len(drawn) < count and any(found.values()):
        for kind in sorted(found):
            while found[kind]:
                file, line, change = found[kind].pop()
                if sum(one.file == file for one in drawn) < 2:
                    drawn.append(_written(sources[file], file, line, change))
                    break
    return drawn[:count]


def _written(text: str, file: str, line: int, change: Change) -> Mutant:
    """A change as an entry: whole lines, and as many above them as it takes to find the place again."""
    kind, begin, end, new = change
    first, last = text.rfind("\n", 0, begin) + 1, (text + "\n").index("\n", end)
    while text.count(text[first:last]) > 1 and first:
        first = text.rfind("\n", 0, first - 1) + 1
    name = f"{file.removesuffix('.py').replace('/', '-')}-{line}-{kind}"
    changed = text[first:begin] + new + text[end:last]
    return Mutant(name, file, text[first:last], changed, f"generated: {kind}", f"{kind} in line {line}")


def as_toml(mutant: Mutant) -> str:
    """An entry of the list."""
    told = {one.name: word for one in fields(Mutant) if (word := getattr(mutant, one.name)) != one.default}
    # a JSON text is a TOML text
    return "\n".join(
        ["[[mutant]]", *(f"{name} = {json.dumps(word, ensure_ascii=False)}" for name, word in told.items()), ""]
    )
