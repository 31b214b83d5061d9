"""The small experiments that the tests of the runner and of the command line share."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from book.lab import catalog, claim_rows, keys, provenance, runner
from tests.book.lab.packs import Pack
from tests.patience import outcome

_HERE = Path(__file__).parent
_TREE = _HERE.parents[2]


class Tiny:
    """The experiments of tiny_experiments.py, in a home of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.log = home / "tiny.log"

    def started(self) -> Counter:
        """How often each cell (or each step of a long cell) was started."""
        return Counter(self.order())

    def order(self) -> list[str]:
        """What was started, one after another."""
        return [line.split()[0] for line in self._lines()]

    def processes(self) -> set[int]:
        """The processes that computed something."""
        return {int(line.split()[1]) for line in self._lines()}

    def _lines(self) -> list[str]:
        # a line without its end is still being written
        text = self.log.read_text() if self.log.exists() else ""
        return text[: text.rfind("\n") + 1].splitlines()

    def result_text(self, name: str, profile: str = "smoke") -> str:
        return (self.home / "results" / f"{name}.{profile}.json").read_text()

    def rows_text(self, name: str, profile: str = "smoke") -> str:
        """The rows as they stand in the file: equal text is equal bits."""
        return self.result_text(name, profile).split('\n "rows": ')[1]

    def forget(self, name: str, results: bool = True) -> None:
        """Empty the cache of an experiment, as in a fresh clone, and by default remove its results too."""
        folders = ["cache/runs", "results"] if results else ["cache/runs"]
        for folder in folders:
            for path in (self.home / folder).glob(f"{name}/*" if folder == "cache/runs" else f"{name}.*"):
                path.unlink()

    def start(self, *arguments: str) -> subprocess.Popen:
        """The command line in a process (and a process group) of its own."""
        command = [sys.executable, str(_HERE / "tiny_experiments.py"), *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, start_new_session=True, **pipes)

    def call(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of one command."""
        process = self.start(*arguments)
        out, err = outcome(process)
        return process.returncode, out, err


@pytest.fixture
def tiny(tmp_path, monkeypatch) -> Tiny:
    """The small experiments in place of the book's, importable by worker processes too."""
    path = os.pathsep.join(filter(None, [str(_TREE), str(_HERE), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    monkeypatch.setenv("TINY_LOG", str(tmp_path / "tiny.log"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.syspath_prepend(str(_HERE))
    keys._fingerprint.cache_clear()
    monkeypatch.setattr(catalog, "modules", lambda: ["tiny_experiments"])
    return Tiny(tmp_path)


@pytest.fixture
def interrupting(monkeypatch):
    """A function that lets the next run be interrupted after its first cell."""
    progress = runner._progress

    def first(outcomes, total):
        for one in progress(outcomes, total):
            yield one
            monkeypatch.setattr(runner, "_progress", progress)
            raise KeyboardInterrupt

    return lambda: monkeypatch.setattr(runner, "_progress", first)


@pytest.fixture
def pack(tiny, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(catalog, "modules", lambda: ["probed.job"])
    monkeypatch.setattr(provenance, "commit", lambda: {"commit": "c0ffee00", "dirty": False})
    pack = Pack(tmp_path / "probed")
    yield pack
    pack.forget()


@pytest.fixture
def stored(monkeypatch):
    """A function that stores rows in place of all others."""

    def store(*rows, overlap=0.0):
        rows = [{"replicates": list(range(one["n"]))} | one for one in rows]

        def found(name, profile=None):
            at = (profile, None)  # rows without a profile are of any
            return [one for one in rows if one["experiment"] == name and (not profile or one.get("profile") in at)]

        monkeypatch.setattr(claim_rows, "_rows", found)
        monkeypatch.setattr(claim_rows, "unlisted", lambda name, metric: [])
        monkeypatch.setattr(catalog, "get", lambda name: SimpleNamespace(overlap=overlap))

    return store
