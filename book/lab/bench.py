"""A copy of the tree, in which one change at a time is tried out."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bnnlib.datasets.registry import data_root
from book.lab import store, validity
from book.lab.answers import LATE, NOTHING, NOTICED, SILENT, Answer, Kept
from book.lab.mutants import Mutant
from book.lab.stem import Stem
from book.lab.verify import machine

TREE = Path(__file__).resolve().parents[2]
AT_MOST = 3  # results that verify is asked about
DEAR = 120.0  # seconds: a result whose probes take longer is not asked
_OWN = tuple(f"book/lab/{name}.py" for name in ("answers", "bench", "mutants", "mutate", "reach", "stem"))
# What has moved must be settled by a probe of this machine: with none stored, all run and are kept.
_PREPARE = """
import json, sys
from book.lab import store, validity
from book.lab.verify import verify
name, profile = sys.argv[1:]
result = store.load_result(name, profile)
result["probes"] = []
arrays = store.load_arrays(name, profile)
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
# that the code has moved is no alarm: every change of a line moves it, also one without effect
_CANNOT_TELL = (validity.MOVED, validity.UNPROBED)


class Bench:
    """A copy of the tree as it is now, files that git does not know included.

    Args:
        kept: shared by all benches.
        tree: what is copied.
    """

    def __init__(self, kept: Kept, tree: Path = TREE) -> None:
        self.kept, self.root = kept, Path(tempfile.mkdtemp(prefix="mutate"))
        self.seen: dict[str, str] = {}
        command = ["git", "-C", str(tree), "ls-files", "-co", "--exclude-standard"]
        listed = subprocess.check_output(command, text=True).splitlines()
        self.files = [file for file in listed if (tree / file).is_file() and not (tree / file).is_symlink()]
        for file in self.files:
            (self.root / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / file, self.root / file)
        own = {"PYTHONDONTWRITEBYTECODE": "1", "BNNLIB_DATA": str(data_root()), "OMP_NUM_THREADS": "1"}
        self.stem = Stem(self.root, {**own, "BNNLIB_HOME": str(self.root / "data")})

    def close(self) -> None:
        """Remove the copy."""
        self.stem.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def ask_verify(self, mutant: Mutant, results: list[str], limit: float) -> Answer:
        """Whether `verify` certifies the results in spite of the mutant; the cheapest of them are asked.

        Args:
            mutant: to try out.
            results: whose code reaches it, as "name.profile".
            limit: in seconds.
        """
        if not results:
            return Answer(NOTHING)

        def evidence(asked: tuple[str, ...]) -> str:
            return _hash(_text_of(mutant), *map(self._evidence, asked))

        return self.kept.answer(f"verify {mutant.id}", evidence, lambda: self._verify(mutant, results, limit))

    def _verify(self, mutant: Mutant, results: list[str], limit: float) -> Answer:
        stored = mutant.file.startswith("data/results/")
        asked = results if stored else self._cheapest(results)
        if not asked:
            return Answer(NOTHING)
        home = self.root / "data" if stored else self.kept.home
        begin = time.monotonic()
        with self._mutated(mutant):
            code, out = self.stem.call(limit, _VERIFY, *asked, BNNLIB_HOME=str(home))
        said = [json.loads(line) for line in out.splitlines() if line.startswith('["')]
        bad = [(name, word, why) for name, word, why in said if word not in (*validity.GOOD, *_CANNOT_TELL)]
        if bad:
            word, detail = NOTICED, f"{bad[0][0]} {bad[0][1]}: {bad[0][2]}"
        elif code is None:
            word, detail = LATE, f"verify after {len(said)} of {len(asked)} results"
        elif code:
            word, detail = NOTICED, f"verify does not run: {out.strip().splitlines()[-1][:200]}"
        else:
            word, detail = SILENT, ", ".join(f"{name} {word}" for name, word, _ in said)
        return Answer(word, detail, tuple(asked), round(time.monotonic() - begin, 1))

    def _cheapest(self, results: list[str]) -> list[str]:
        """Those whose probes take the least time, as far as it is known, of different studies first.

        What one result does not run of the code that it reaches, the others of its study may not run either.
        """

        def seconds(result: str) -> float:
            return self.kept.get(f"seconds {result}").get("seconds", 2.0 * len(_load(result)["probes"]))

        before: Counter[str] = Counter()
        turn = {}
        for result in sorted(results, key=seconds):
            study = result.partition("-")[0]
            turn[result] = before[study]
            before[study] += 1
        found: list[str] = []
        for result in sorted(turn, key=turn.__getitem__):  # of each study the cheapest, then of each the next
            if self._prepared(result):
                found.append(result)
            if len(found) == AT_MOST:
                break
        return found

    def _prepared(self, result: str) -> bool:
        """Whether the result can be asked: its probes run without a mutant, on this machine, in a minute or two."""
        with self.kept.lock:
            evidence, name = self._evidence(result), f"seconds {result}"
            if self.kept.get(name).get("evidence") != evidence:
                folder = self.kept.home / "results"
                folder.mkdir(parents=True, exist_ok=True)
                for path in (self.root / "data" / "results").iterdir():  # those that it starts from, too
                    if not (folder / path.name).exists() or path.stem == result:
                        shutil.copy2(path, folder / path.name)
                begin = time.monotonic()
                code, out = self.stem.call(DEAR, _PREPARE, *result.split("."), BNNLIB_HOME=str(self.kept.home))
                good, seconds = code == 0 and out.split()[-1] in validity.GOOD, round(time.monotonic() - begin, 1)
                self.kept.keep(name, {"evidence": evidence, "seconds": seconds, "good": good})
            return self.kept.get(name)["good"]

    def _evidence(self, result: str) -> str:
        """Hash of what decides what `verify` says of a result."""
        with self.kept.lock:
            if result not in self.seen:
                codes = sorted({state.code for state in validity.states(*result.split("."))})
                lab = self._digest(r"book/lab/.*\.(py|toml)$|data/results/" + re.escape(result))
                self.seen[result] = _hash(lab, json.dumps(machine()), *codes)
            return self.seen[result]

    def ask_tests(self, mutant: Mutant, tests: list[str], limit: float) -> Answer:
        """Whether one of the tests fails that passes without the mutant."""
        if not tests:
            return Answer(NOTHING)
        alone = all(one.startswith("tests/bnnlib/") for one in tests)
        within = "bnnlib" if alone else "bnnlib|chapters|book|data/results"
        files = "|".join([rf"({within})/.*\.(py|toml|json)$", r".*conftest\.py$", *map(re.escape, tests)])

        def evidence(asked: tuple[str, ...]) -> str:
            return _hash(_text_of(mutant), self._digest(files), *tests)

        return self.kept.answer(f"tests {mutant.id}", evidence, lambda: self._tests(mutant, tests, limit))

    def _tests(self, mutant: Mutant, tests: list[str], limit: float) -> Answer:
        command = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not browser"]
        begin = time.monotonic()
        with self._mutated(mutant):
            code, out = self.stem.call(limit, "", *command, *tests)
        failed = re.search(r"^(?:FAILED|ERROR) (tests/\S+?\.py(?:::\w+)*)", out, re.MULTILINE)
        if code is None:
            word, detail = LATE, "tests"
        elif code in (0, 5):  # 5: all of them are slow
            word, detail = SILENT, ""
        elif failed and self.stem.call(limit, "", *command, failed[1])[0] in (0, 5):
            word, detail = NOTICED, failed[1]
        else:
            word, detail = NOTHING, f"tests fail without it, too: {failed[1] if failed else out[-300:]}"
        return Answer(word, detail, tuple(tests), round(time.monotonic() - begin, 1))

    @contextmanager
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
        """Hash of the files that match; this tool is none of them."""
        wanted = [file for file in self.files if re.match(pattern, file) and file not in _OWN]
        return _hash(*(f"{file} {hashlib.sha256((self.root / file).read_bytes()).hexdigest()}" for file in wanted))


def _load(result: str) -> dict[str, Any]:
    return store.load_result(*result.split("."))


def _text_of(mutant: Mutant) -> str:
    return json.dumps([mutant.file, mutant.old, mutant.new, mutant.checksum, *mutant.results])


def _hash(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:20]
