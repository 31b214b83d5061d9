"""Whether stored results are still what today's code would compute, and how we know.

The code is no part of a cell's key. Its hash is evidence: while it equals a known one, nothing has changed. When it has
moved, the probes (`book.lab.probes`) run again and are laid beside those that are stored: equal rows certify that the
cells need not run again, and the certificate is appended to the result. Different rows mean that the code computes
something else: the author raises ``Experiment.version`` (the cells are then run again), or accepts with a reason.

On the processor that the stored probe ran on, rows are equal up to 1e-9. Elsewhere they are not comparable: another
order of additions moves a loss by 1e-7, and three steps of training later a test image. There the probe also runs at
the commit of the last certificate, taken from the history, and both runs are of this machine.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from book.lab import catalog, keys, plan, probes, provenance, store
from book.lab.cells import Cell, Experiment, ExperimentError
from book.lab.probes import ProbeRows

CURRENT, CERTIFIED, ACCEPTED = "current", "certified", "accepted"
OUTDATED, MOVED, CHANGED, UNPROBED = "outdated", "moved", "changed since", "no probe"
WORDS = (CURRENT, CERTIFIED, ACCEPTED, OUTDATED, MOVED, UNPROBED, CHANGED)
"""From best to worst: a result is called by its worst method."""
GOOD = (CURRENT, CERTIFIED, ACCEPTED)
TOLERANCE = 1e-9  # relative, between two runs on one machine
TREE = Path(__file__).resolve().parents[2]


@dataclass
class State:
    """What is known of the cells of one method.

    Args:
        method: of the cells.
        word: one of `WORDS`.
        detail: why.
        cells: labels of the stored cells that it is about.
    """

    method: str
    word: str
    detail: str = ""
    cells: list[str] = field(default_factory=list)


def machine() -> dict[str, str]:
    """What decides the last bits: processor, its vector instructions as PyTorch uses them, and PyTorch."""
    return {
        "cpu": provenance.machine()["cpu"],
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__.partition("+")[0],
    }


def states(name: str, profile: str) -> list[State]:
    """What the stored result's hashes and certificates say, method by method; no probe runs.

    Raises:
        StoreError: there is no such result.
    """
    return _states(catalog.get(name), store.load_result(name, profile))


def _states(experiment: Experiment, result: dict[str, Any]) -> list[State]:
    profile = result["profile"]
    if not result.get("cells"):
        return []
    wanted = {keys.identity(experiment, cell): cell for cell in plan.cells_of(experiment, profile)}
    found = []
    for method, abouts in _by_method(result).items():
        cells = [cell_of(about["cell"]) for about in abouts]
        labels = [cell.label for cell in cells]
        old = [cell.label for cell, about in zip(cells, abouts, strict=True) if about["id"] not in wanted]
        if old:
            found.append(State(method, OUTDATED, "their parameters or the declared version have changed since", old))
            continue
        today = plan.code_of(experiment, next(wanted[about["id"]] for about in abouts))
        found.append(State(method, *_word(result, method, today, abouts), labels))
    return found


def _word(result: dict, method: str, today: str, abouts: list[dict]) -> tuple[str, str]:
    if all(about["code"] == today for about in abouts):
        return CURRENT, ""
    for certificate in reversed(result["certificates"]):
        if certificate["codes"].get(method) == today:
            reason = certificate.get("reason", "")
            return (ACCEPTED, reason) if reason else (CERTIFIED, f"at {str(certificate['commit'])[:8]}")
    return MOVED, "the code's hash is another one; `python -m book verify` runs the probe"


def worst(found: Iterable[State]) -> str:
    """The word for a whole result."""
    return max((state.word for state in found), key=WORDS.index, default=CURRENT)


def state_of_rows(experiment: Experiment, result: dict[str, Any]) -> Callable[[dict[str, Any]], str]:
    """A function from a row of `book.lab.compare` to what its reader must know of its validity, "" if it is good."""
    known = {state.method: state for state in _states(experiment, result)}
    dirty = {about["cell"]["method"] for about in result.get("cells", []) if about["dirty"]}
    shown = {name: method for method, name in experiment.renamed.get(result["profile"], {}).items()}

    def text(row: dict[str, Any]) -> str:
        method = shown.get(row["method"], row["method"])
        method = method if method in known else experiment.sources.get(method, method)
        state = known.get(method) or (next(iter(known.values())) if len(known) == 1 else None)
        if state is None:
            return ""
        words = [] if state.word in GOOD else [state.word]
        return "; ".join(words + (["from a tree with uncommitted changes"] if state.method in dirty else []))

    return text


def verify(name: str, profile: str, write: bool = True, accept: str = "") -> list[State]:
    """Settle every method whose code has moved by its probes.

    Args:
        name, profile: of a stored result.
        write: append a certificate where the probes agree, and the rows of new probes.
        accept: a reason; methods whose probes differ are then accepted, with it.

    Returns:
        The states afterwards.

    Raises:
        StoreError: there is no such result, or it cannot be written.
    """
    experiment, result = catalog.get(name), store.load_result(name, profile)
    found = states(name, profile)
    moved = [state for state in found if state.word in (MOVED, CURRENT)]
    cells = {state.method: [] for state in moved}
    for cell in probes.cells(experiment, profile):
        cells.get(cell.method, []).append(cell)
    fresh: list[dict] = []
    codes, difference, changed = {}, 0.0, False
    for state in moved:
        stored = {_kind(probe): probe for probe in result["probes"] if probe["cell"]["method"] == state.method}
        lacking = [cell for cell in cells[state.method] if _kind({"cell": cell.as_json()}) not in stored]
        if state.word == CURRENT:
            fresh += [_probe(experiment, cell) for cell in lacking]
            continue
        if lacking or not cells[state.method]:
            state.word, state.detail = UNPROBED, f"no stored probe of {lacking[0].label if lacking else state.method}"
        else:
            far, where = _compare(experiment, profile, result, cells[state.method], stored)
            state.word, state.detail = (
                (CHANGED, where) if far > TOLERANCE else (CERTIFIED, f"probes differ by {far:.0e}")
            )
            difference = max(difference, far)
        if state.word != CERTIFIED and accept:
            state.word, state.detail = ACCEPTED, accept
        if state.word in GOOD:
            cell = next(one for one in plan.cells_of(experiment, profile) if one.method == state.method)
            codes[state.method] = plan.code_of(experiment, cell)
            changed = True
    if write and (changed or fresh):
        if changed:
            about = {**provenance.commit(), "machine": machine(), "codes": codes, "difference": difference}
            result["certificates"].append(about | ({"reason": accept} if accept else {}))
        result["probes"] += fresh
        store.save_result(result, _arrays(name, profile))
    return found


def _arrays(name: str, profile: str) -> dict[str, Any]:
    return {"|".join(map(str, key)): value for key, value in store.load_arrays(name, profile).items()}


def _probe(experiment: Experiment, cell: Cell) -> dict[str, Any]:
    about = {
        "cell": cell.as_json(),
        "version": experiment.version_of(cell.method),
        "commit": provenance.commit()["commit"],
    }
    return about | {"machine": machine(), "rows": probes.run(experiment, cell)}


def _compare(experiment, profile, result, cells: list[Cell], stored: dict[str, dict]) -> tuple[float, str]:
    """The largest relative difference between today's probe rows and the stored ones, and where it is."""
    before = {kind: probe["rows"] for kind, probe in stored.items()}
    if any(probe.get("machine") != machine() for probe in stored.values()):
        commits = [one["commit"] for one in result["certificates"] if one["commit"] and not one["dirty"]]
        if commits:
            before = _at(commits[-1], experiment.name, profile, cells[0].method)
    far, where = 0.0, ""
    for cell in cells:
        kind = _kind({"cell": cell.as_json()})
        rows = {tuple(row[:4]): row[4] for row in probes.run(experiment, cell)}
        old = {tuple(row[:4]): math.nan if row[4] is None else row[4] for row in before.get(kind, [])}
        if rows.keys() != old.keys():
            return math.inf, f"{cell.label}: other rows"
        for place, value in rows.items():
            apart = _apart(value, old[place])
            if apart > far:
                far, where = apart, f"{cell.label}: {place[3]} is {value:.9g}, was {old[place]:.9g}"
    return far, where


def _apart(one: float, other: float) -> float:
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    apart = abs(one - other) / max(abs(one), abs(other))
    return math.inf if math.isnan(apart) else apart


def _at(commit: str, name: str, profile: str, method: str) -> dict[str, ProbeRows]:
    """Rows of the probes of one method at another commit, on this machine.

    Raises:
        ExperimentError: the commit is not in the history, or its code does not run here.
    """
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        made = subprocess.run(
            ["git", "-C", str(TREE), "worktree", "add", "--detach", str(tree), commit], capture_output=True, text=True
        )
        try:
            if made.returncode:
                raise ExperimentError(
                    f"the stored probes of {name} ran on another processor, and commit {commit[:8]}, which could tell, "
                    "is not in this clone's history; fetch it (git fetch --unshallow)"
                )
            command = [sys.executable, "-m", "book.lab.validity", name, profile, method]
            environment = {**os.environ, "PYTHONPATH": str(tree)}
            done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
            if done.returncode:
                raise ExperimentError(f"the probes of {name} do not run at {commit[:8]}:\n{done.stderr[-2000:]}")
            return json.loads(done.stdout.splitlines()[-1])
        finally:
            remove = ["git", "-C", str(TREE), "worktree", "remove", "--force", str(tree)]
            subprocess.run(remove, capture_output=True)


def _by_method(result: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for about in result["cells"]:
        found.setdefault(about["cell"]["method"], []).append(about)
    return found


def cell_of(about: dict[str, Any]) -> Cell:
    return Cell(about["setting"], about["method"], tuple(about["replicates"]), about["params"])


def _kind(probe: dict[str, Any]) -> str:
    return json.dumps(probe["cell"], sort_keys=True)


def _main(name: str, profile: str, method: str) -> None:
    experiment = catalog.get(name)
    chosen = [cell for cell in probes.cells(experiment, profile) if cell.method == method]
    print(json.dumps({_kind({"cell": cell.as_json()}): probes.run(experiment, cell) for cell in chosen}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
