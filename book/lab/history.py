"""The probes of a stored result as an earlier commit computes them, on this machine.

A certificate names the commit that it was made at. Where commits have been squashed on their way, or a clone is
shallow, that one is not at hand; the commit that brought the certificate has the same code, and says so itself: there
the stored cells are good.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from bnnlib.datasets.registry import data_root
from book.lab import store
from book.lab.cells import ExperimentError
from book.lab.probes import ProbeRows
from book.lab.validity import State

TREE = Path(__file__).resolve().parents[2]
# of all methods at once, since to begin costs more than most probes: {method: [is it good there, rows or why not]}
_ASK = """
import json, sys
from book.lab import probes, validity
name, profile, *methods = sys.argv[1:]
try:
    bad = {one.method for one in validity.states(name, profile) if one.word not in validity.GOOD}
except Exception:
    bad = set(methods)
found = {}
for method in methods:
    good = method not in bad
    try:
        found[method] = [good, probes.rows_of(name, profile, method)]
    except Exception as error:
        found[method] = [good, f"{type(error).__name__}: {error}"]
print(json.dumps(found))
"""


def reference_rows(result: dict[str, Any], state: State, stored: dict[str, dict]) -> dict[str, ProbeRows]:
    """Rows of a method's probes at the last commit whose code is known to agree with the cells.

    Args:
        result: stored, with its certificates.
        state: of the cells whose code has moved.
        stored: their probes by kind; rows of each come back, of the last of these commits that has it.

    Raises:
        ExperimentError: no such commit is known or in the history, or its code does not run here.
    """
    name, profile = result["experiment"], result["profile"]
    commits = list(_commits(result, state, stored))
    if not commits:
        raise ExperimentError("the stored probe ran on another processor, and no commit is known that could tell")
    methods = tuple(dict.fromkeys(one["cell"]["method"] for one in result["cells"]))
    why, found = "", {}
    for commit in commits:
        there = _git("cat-file", "-e", f"{commit}^{{commit}}") is not None
        if brought := commit if there else _brought(commit, name, profile):
            good, rows = _answers(brought, name, profile, methods)[state.method]
            if isinstance(rows, str):
                why = why or f"the probes of {name} do not run at {brought[:8]}:\n{rows}"
            elif good or there:
                # an older commit does not know the cells that came after it
                found = {kind: rows[kind] for kind in stored if kind in rows} | found
                if found.keys() == stored.keys():
                    return found
    if why:
        raise ExperimentError(why)
    if found:
        lacking = json.loads(min(stored.keys() - found.keys()))
        raise ExperimentError(f"no commit of the history knows the probe of {lacking['setting']} {lacking['method']}")
    raise ExperimentError(
        f"the stored probes of {name} ran on another processor, and commit {commits[0][:8]}, which could tell, is not "
        "in this clone's history; fetch it (git fetch --unshallow)"
    )


def _commits(result: dict[str, Any], state: State, stored: dict[str, dict]) -> Iterator[str]:
    # of these cells: a certificate of cells that have been computed again since speaks of others
    codes = set(state.before)
    certificates = [one for one in reversed(result["certificates"]) if codes <= set(one["since"].get(state.method, ()))]
    for one in (*certificates, *stored.values()):
        if one.get("commit") and not one.get("dirty"):
            yield one["commit"]


def _brought(commit: str, name: str, profile: str) -> str:
    """The commit of the history that wrote down what another one computed, "" if there is none."""
    path = store.result_path(name, profile).name
    found = _git("log", "--format=%H", f"-S{commit}", "--", f":(glob)**/{path}")
    return found.split()[-1] if found else ""


@cache
def _answers(commit: str, name: str, profile: str, methods: tuple[str, ...]) -> dict[str, tuple[bool, ProbeRows | str]]:
    with _tree_of(commit) as tree:
        # the data of this tree: the other one has none, and must not fetch them again
        environment = {**os.environ, "PYTHONPATH": str(tree), "BNNLIB_DATA": str(data_root())}
        command = [sys.executable, "-c", _ASK, name, profile, *methods]
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode:
        return dict.fromkeys(methods, (False, done.stderr[-2000:]))
    return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def _tree_of(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        if _git("worktree", "add", "--detach", str(tree), commit) is None:
            raise ExperimentError(f"commit {commit[:8]} could not be laid out in a folder of its own")
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> str | None:
    """What git prints; None if it refuses."""
    done = subprocess.run(["git", "-C", str(TREE), *arguments], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None
