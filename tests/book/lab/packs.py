"""An experiment whose source a test edits, in a package of its own."""

import importlib
import itertools
import os
import sys

from book.lab import fingerprint, runner, validity

JOB = '''"""An experiment."""
from book.lab.cells import Cell, CellResult, Experiment
from probed.maths import slope

RATE = 2.0


def _result(cell, value):
    where = {"setting": cell.setting, "method": cell.method, "metric": "rmse_test"}
    return CellResult([{**where, "replicate": one, "value": value + one} for one in cell.replicates])


def run_cell(cell, device, checkpoint):
    """Compute."""
    return _result(cell, RATE * slope(cell.params["epochs"]))


def other(cell, device, checkpoint):
    return _result(cell, 5.0)


def cells():
    params = {"epochs": 10}
    return [Cell("a", "SVBNN", (0, 1), params), Cell("b", "SVBNN", (0, 1), params), Cell("c", "VD", (0,), params)]


EXPERIMENTS = [
    Experiment(
        name="probed", summary="s", profiles={"smoke": cells, "book": cells}, run_cell=run_cell,
        methods={"VD": other}, tiny={"epochs": 1}, version=1,
    )
]
'''
MATHS = "def slope(x):\n    return 0.5 * x\n"
FILES = {"__init__.py": "", "maths.py": MATHS, "job.py": JOB}


class Pack:
    """The experiment's source, and what today's code says of it."""

    def __init__(self, folder, files: dict[str, str] = FILES) -> None:
        self.folder, self.clock = folder, itertools.count(1_000_000_000)
        folder.mkdir()
        for name, text in files.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text)
        os.utime(path, (0, next(self.clock)))  # two edits within one tick of the file system's clock still differ
        self.forget()

    def edit(self, old: str, new: str, name: str = "job.py") -> None:
        text = (self.folder / name).read_text()
        assert text.count(old) == 1, old
        self.write(name, text.replace(old, new))

    def forget(self) -> None:
        """As in a new process."""
        for name in [one for one in sys.modules if one.split(".")[0] == self.folder.name]:
            del sys.modules[name]
        importlib.invalidate_caches()
        fingerprint._path.cache_clear()

    def run(self, **options):
        return runner.run("probed", "book", **options)

    def words(self, found=None) -> dict[str, str]:
        return {one.method: one.word for one in found or validity.states("probed", "book")}
