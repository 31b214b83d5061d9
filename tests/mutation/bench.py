"""A copy of the tree, in which one change at a time is tried out, and the answers that were found there."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from bnnlib._files import write_atomic
from bnnlib.datasets.registry import data_root
from book.lab import store, validity
from book.lab.verify import machine
from tests.mutation.mutants import Mutant

TREE = Path(__file__).resolve().parents[2]
AT_MOST = 3  # results that verify is asked about
DEAR = 120.0  # seconds: a result whose probes take longer is not asked
NOTICED, SILENT, NOTHING, LATE = "noticed", "silent", "nothing to ask", "timed out"
# What has moved must be settled by a probe of this machine: with none stored, all run and are kept.
_PREPARE = """
import sys
from book.lab import store, validity
from book.lab.verify import verify
name, profile = sys.argv[1:]
arrays = store.load_arrays(name, profile)
result = store.load_result(name, profile) | {"probes": []}
store.save_result(result, {"|".join(map(str, key)): value for key, value in arrays.items()})
# the tree without a mutant is right, whether its certificates are up to date or not
print(validity.worst(verify(name, profile, accept="the tree without a mutant")))
"""
_VERIFY = """
import json, sys
from book.lab import validity
from book.lab.verify import verify
for result in sys.argv[1:]:
    name, profile = result.split(".")
    states = verify(name, profile, write=False)
    word = validity.worst(states)
    why = next((f"{one.method}: {one.detail}" for one in states if one.word == word), "")
    print(json.dumps([name, word, why]), flush=True)
    if word not in validity.GOOD:
        break
"""
_PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m")
# that the code has moved is no alarm: every change of a line moves it, also one without effect
_NO_ALARM = (*validity.GOOD, validity.MOVED, validity.UNPROBED)


@dataclass(frozen=True)
class Answer:
    """What verify or the tests say of a mutant.

    Args:
        word: "noticed", "silent", "nothing to ask" or "timed out".
        detail: what notices it.
        seconds: that it took.
    """

    word: str
    detail: str = ""
    seconds: float = 0.0


class Bench:
    """A copy of the tree as it is now, files that git does not know included.

    Answers, and results whose probes ran on this machine, are kept in ``data/cache/mutants/``.

    Args:
        tree: what is copied.
        again: ask although the answer is kept.
        limit: seconds for a question.
    """

    def __init__(self, tree: Path = TREE, again: bool = False, limit: float = 300.0) -> None:
        self.again, self.limit, self.home = again, limit, store.home() / "cache" / "mutants"
        self.known: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            self.known = json.loads((self.home / "answers.json").read_text())
        self.root, self.seen = Path(tempfile.mkdtemp(prefix="mutate")), {}
        command = ["git", "-C", str(tree), "ls-files", "-co", "--exclude-standard"]
        listed = subprocess.check_output(command, text=True).splitlines()
        self.files = [file for file in listed if (tree / file).is_file() and not (tree / file).is_symlink()]
        for file in self.files:
            (self.root / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / file, self.root / file)

    def close(self) -> None:
        """Remove the copy."""
        shutil.rmtree(self.root, ignore_errors=True)

    def _kept(self, name: str, evidence: str, ask: Callable[[], Answer], again: bool) -> Answer:
        """The kept answer while the hash of what it depends on is as it was, else a new one, kept at once."""
        found = self.known.get(name, {})
        if found.get("evidence") == evidence and not again:
            return Answer(**found["answer"])
        begin = time.monotonic()
        new = replace(ask(), seconds=round(time.monotonic() - begin, 1))
        self.known[name] = {"evidence": evidence, "answer": asdict(new)}
        write_atomic(self.home / "answers.json", json.dumps(self.known, indent=0).encode())
        return new

    def ask_verify(self, mutant: Mutant, results: list[str]) -> Answer:
        """Whether `verify` certifies the results, as "name.profile", in spite of the mutant; the cheapest are asked."""
        if not results:
            return Answer(NOTHING)
        evidence = _hash(_text_of(mutant), *map(self._evidence, results))
        return self._kept(f"verify {mutant.id}", evidence, lambda: self._verify(mutant, results), self.again)

    def _verify(self, mutant: Mutant, results: list[str]) -> Answer:
        stored = mutant.file.startswith("data/results/")
        asked = results if stored else self._cheapest(results)
        if not asked:
            return Answer(NOTHING)
        home = self.root / "data" if stored else self.home
        with self._mutated(mutant):
            code, out = self._call(home, self.limit, "-c", _VERIFY, *asked)
        said = [json.loads(line) for line in out.splitlines() if line.startswith('["')]
        if bad := [(name, word, why) for name, word, why in said if word not in _NO_ALARM]:
            return Answer(NOTICED, f"{bad[0][0]} {bad[0][1]}: {bad[0][2]}")
        if code is None:
            return Answer(LATE, f"verify after {len(said)} of {len(asked)} results")
        if code:
            return Answer(NOTICED, f"verify does not run: {out.strip().splitlines()[-1][:200]}")
        return Answer(SILENT, ", ".join(f"{name} {word}" for name, word, _ in said))

    def _cheapest(self, results: list[str]) -> list[str]:
        """Those whose probes take the least time, as far as it is known, of different studies first.

        What one result does not run of the code that it reaches, the others of its study may not run either.
        """

        def seconds(result: str) -> float:
            known = self.known.get(f"prepared {result}")
            return known["answer"]["seconds"] if known else 2.0 * self._probes(result)

        before: Counter[str] = Counter()
        turn = {}
        for result in sorted(results, key=seconds):
            study = result.partition("-")[0]
            turn[result] = before[study]
            before[study] += 1
        # of each study the cheapest, then of each the next
        return list(islice(filter(self._prepared, sorted(turn, key=turn.__getitem__)), AT_MOST))

    def _probes(self, result: str) -> int:
        return len(store.load_result(*result.split("."))["probes"])

    def _prepared(self, result: str) -> bool:
        """Whether the result can be asked: its probes run without a mutant, on this machine, in a minute or two."""

        def prepare() -> Answer:
            folder = self.home / "results"
            folder.mkdir(parents=True, exist_ok=True)
            for path in (self.root / "data" / "results").iterdir():  # those that it starts from, too
                if not (folder / path.name).exists() or path.stem == result:
                    shutil.copy2(path, folder / path.name)
            code, out = self._call(self.home, DEAR, "-c", _PREPARE, *result.split("."))
            good = code == 0 and out.splitlines()[-1] in validity.GOOD
            return Answer(SILENT if good else NOTHING, out[-200:])

        return self._kept(f"prepared {result}", self._evidence(result), prepare, False).word == SILENT

    def _evidence(self, result: str) -> str:
        """Hash of what decides what `verify` says of a result."""
        if result not in self.seen:
            codes = sorted({state.code for state in validity.states(*result.split("."))})
            lab = self._digest(r"book/lab/.*\.(py|toml)$|data/results/" + re.escape(result))
            self.seen[result] = _hash(lab, json.dumps(machine()), *codes)
        return self.seen[result]

    def ask_tests(self, mutant: Mutant, tests: list[str]) -> Answer:
        """Whether one of the tests fails that passes without the mutant."""
        if not tests:
            return Answer(NOTHING)
        alone = all(one.startswith("tests/bnnlib/") for one in tests)
        within = "bnnlib" if alone else "bnnlib|chapters|book|data/results"
        files = "|".join([rf"({within})/.*\.(py|toml|json)$", r".*conftest\.py$", *map(re.escape, tests)])
        evidence = _hash(_text_of(mutant), self._digest(files), *tests)
        return self._kept(f"tests {mutant.id}", evidence, lambda: self._tests(mutant, tests), self.again)

    def _tests(self, mutant: Mutant, tests: list[str]) -> Answer:
        for chosen in ("not slow and not browser", "slow and not browser"):  # the quick ones may answer
            answer = self._asked(mutant, [*_PYTEST, chosen], tests)
            if answer.word != SILENT:
                break
        return answer

    def _asked(self, mutant: Mutant, command: list[str], tests: list[str]) -> Answer:
        home = self.root / "data"
        with self._mutated(mutant):
            code, out = self._call(home, self.limit, *command, *tests)
        failed = re.search(r"^(?:FAILED|ERROR) (tests/\S+?\.py(?:::\w+)*)", out, re.MULTILINE)
        if code is None:
            return Answer(LATE, "tests")
        if code in (0, 5):  # 5: none is chosen
            return Answer(SILENT)
        if failed and self._call(home, self.limit, *command, failed[1])[0] in (0, 5):
            return Answer(NOTICED, failed[1])
        return Answer(NOTHING, f"tests fail without it, too: {failed[1] if failed else out[-300:]}")

    def _call(self, home: Path, limit: float, *arguments: str) -> tuple[int | None, str]:
        """Exit code of Python in the copy, None after the limit, and what was printed; nothing that it began stays."""
        own = {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        environment = {**os.environ, **own, "BNNLIB_DATA": str(data_root()), "BNNLIB_HOME": str(home)}
        with tempfile.TemporaryFile("w+") as out:
            pipes = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": out, "start_new_session": True}
            process = subprocess.Popen([sys.executable, *arguments], cwd=self.root, env=environment, **pipes)
            code = None
            try:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(limit)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            out.seek(0)
            return code, out.read()

    @contextlib.contextmanager
    def _mutated(self, mutant: Mutant) -> Iterator[None]:
        path = self.root / mutant.file
        state, text = path.stat(), path.read_text(encoding="utf-8")
        path.write_text(mutant.of(text), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")
            os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))  # compiled modules are known by it

    def _digest(self, pattern: str) -> str:
        """Hash of the files that match."""
        wanted = [file for file in self.files if re.match(pattern, file)]
        return _hash(*(f"{file} {hashlib.sha256((self.root / file).read_bytes()).hexdigest()}" for file in wanted))


def _text_of(mutant: Mutant) -> str:
    return json.dumps([mutant.file, mutant.old, mutant.new, mutant.checksum, *mutant.results])


def _hash(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:20]
