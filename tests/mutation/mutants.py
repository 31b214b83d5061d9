"""Mutants: changes of one place in a file, each of which the tests or the certificates should notice.

The list is ``tests/mutants.toml``.
"""

import json
import tomllib
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
        if absent := [path for path in (one.file, *one.tests) if not (root / path).exists()]:
            raise MutantError(f"mutant {name!r}: there is no file {absent[0]}")
        one.line((root / one.file).read_text(encoding="utf-8"))
        found[name] = one
    return list(found.values())
