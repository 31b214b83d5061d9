"""Which stored results and which tests a change of one place concerns."""

import ast
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from book.lab import catalog, fingerprint, store
from book.lab.cells import PROFILES, Cell, Experiment
from tests.mutation.mutants import Mutant

Statement = tuple[str, int]


class Impact:
    """What reaches what in a tree.

    Args:
        tree: its root; the modules are those of this process.
    """

    def __init__(self, tree: Path) -> None:
        self.tree = tree

    def results(self, mutant: Mutant) -> list[str]:
        """The stored results that the mutant concerns, as "name.profile"."""
        path = Path(mutant.file)
        if path.parent == Path("data/results"):
            return [path.stem]
        if mutant.results:
            return [*mutant.results]
        statement = self._statement(mutant)
        return [one for one, reached in self._results.items() if statement in reached]

    def tests(self, mutant: Mutant) -> list[str]:
        """Files and folders of tests: those that mirror the file, those of equations that reach it, and those named.

        A file without tests of its own name is tested by those of the folder or of the package that it is in.
        """
        found = [*mutant.tests]
        path = Path(mutant.file).with_suffix("")
        while not mutant.tests and len(path.parts) > 1 and not found:
            found = self._named(path)
            path = path.parent
        statement = self._statement(mutant)
        found += [file for file, reached in self._equations.items() if statement in reached]
        return list(dict.fromkeys(found))

    def _named(self, path: Path) -> list[str]:
        found = self._files(f"tests/{path.parent}/test_{path.name.strip('_')}*.py")
        return found or ([f"tests/{path}"] if (self.tree / "tests" / path).is_dir() else [])

    def _files(self, pattern: str) -> list[str]:
        return sorted(str(path.relative_to(self.tree)) for path in self.tree.glob(pattern))

    def _statement(self, mutant: Mutant) -> Statement | None:
        """The top-level statement that changes, None where the file is no module."""
        if not mutant.file.endswith(".py"):
            return None
        text = (self.tree / mutant.file).read_text(encoding="utf-8")
        line = mutant.line(text)
        module = mutant.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return next(((module, begin) for begin, end in _spans(text) if begin <= line <= end), None)

    @cached_property
    def _results(self) -> dict[str, set[Statement]]:
        known: dict[tuple[str, str], set[Statement]] = {}
        found = {}
        for name in catalog.names():
            experiment = catalog.get(name)
            for profile in PROFILES[1:]:
                if profile not in experiment.profiles or not store.result_path(name, profile).exists():
                    continue
                functions = {one for cell in experiment.profiles[profile]() for one in _functions(experiment, cell)}
                for module, function in functions - set(known):
                    known[module, function] = set(fingerprint.walk(module, function).statements)
                found[f"{name}.{profile}"] = set().union(*(known[one] for one in functions))
        return found

    @cached_property
    def _equations(self) -> dict[str, set[Statement]]:
        files = self._files("tests/equations/test_*.py")
        return {
            file: set(fingerprint.walk(file.removesuffix(".py").replace("/", "."), None).statements) for file in files
        }


def _functions(experiment: Experiment, cell: Cell) -> Iterator[tuple[str, str]]:
    """Of a cell and of what it needs, as (module, name)."""
    function = experiment.function(cell)
    yield function.__module__, function.__qualname__
    for need in cell.needs:
        yield from _functions(catalog.get(need.experiment), need.cell)


def _spans(text: str) -> list[tuple[int, int]]:
    """First and last line of each top-level statement of a module."""
    return [(one.lineno, one.end_lineno or one.lineno) for one in ast.parse(text).body]
