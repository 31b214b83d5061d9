"""Stored results as earlier commits have them, and their probes as these compute them, on this machine.

A result comes into the history with its certificates and with the code that they are about. So it is the last commit
with a change of the file that can tell, if its own hashes and certificates call the cells good; else one before it.
"""

import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from bnnlib.datasets.registry import data_root
from book.lab import store
from book.lab.cells import ExperimentError
from book.lab.probes import ProbeRows

TREE = Path(__file__).resolve().parents[2]
AT_MOST = 5  # commits that are asked
# of all methods at once, since to begin costs more than most probes: {method: {kind: rows}} of the good ones
_ASK = """
import json, sys
from book.lab import probes, validity
name, profile = sys.argv[1:]
states = validity.states(name, profile)
good = {one.method for one in states} - {one.method for one in states if one.word not in validity.GOOD}
print(json.dumps({method: probes.rows_of(name, profile, method) for method in good}))
"""


def reference_rows(name: str, profile: str, method: str, kinds: Iterable[str]) -> dict[str, ProbeRows]:
    """Rows of some of a method's probes, at the last commit whose code is known to agree with the stored cells.

    Raises:
        ExperimentError: there is no such commit in the history, or its code does not run here.
    """
    path = store.result_path(name, profile).name
    commits = _git("log", "--format=%H", f"-{AT_MOST}", "--", f":(glob)**/{path}").decode().split()
    failed = ""
    for commit in commits:
        rows, why = _answers(commit, name, profile)
        if set(kinds) <= rows.get(method, {}).keys():
            return {kind: rows[method][kind] for kind in kinds}
        failed = failed or (why and f"the probes of {name} do not run at {commit[:8]}:\n{why}")
    raise ExperimentError(
        failed
        or f"the stored probes of {name} ran on another processor, and no commit of this clone's history has "
        "code that agrees with the cells; fetch it (git fetch --unshallow)"
    )


def versions(name: str, profile: str) -> Iterator[dict[str, Any]]:
    """A stored result as each commit of this history has it, oldest first; nothing where there is no history."""
    path = store.result_path(name, profile).name
    told = _git("log", "--reverse", "--diff-filter=d", "--format=%H", "--name-only", "--", f":(glob)**/{path}")
    lines = told.decode().split()
    for commit, place in zip(lines[::2], lines[1::2], strict=True):
        yield json.loads(_git("show", f"{commit}:{place}"))


@cache
def _answers(commit: str, name: str, profile: str) -> tuple[dict[str, dict[str, ProbeRows]], str]:
    """Rows by method and kind, and what is wrong where there are none."""
    with tempfile.TemporaryDirectory() as tree:
        zipfile.ZipFile(io.BytesIO(_git("archive", "--format=zip", "-0", commit))).extractall(tree)
        # the data of this tree: the other one has none, and must not fetch them again
        environment = {name: value for name, value in os.environ.items() if name != "BNNLIB_HOME"}
        environment |= {"PYTHONPATH": tree, "BNNLIB_DATA": str(data_root())}
        command = [sys.executable, "-c", _ASK, name, profile]
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    return ({}, done.stderr[-2000:]) if done.returncode else (json.loads(done.stdout.splitlines()[-1]), "")


def _git(*arguments: str) -> bytes:
    """What git prints; nothing if it refuses."""
    return subprocess.run(["git", "-C", str(TREE), *arguments], capture_output=True).stdout
