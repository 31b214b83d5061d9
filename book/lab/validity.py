"""Whether stored results are still what today's code would compute, and how we know.

The code is no part of a cell's key. Its hash is evidence: while it equals a known one, nothing has changed. When it has
moved, the probes run again and are laid beside those that are stored (`book.lab.verify`): equal rows certify that the
cells need not run again, and the certificate is appended to the result. Different rows mean that the code computes
something else: the author raises ``Experiment.version`` (the cells are then run again), or accepts with a reason.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from book.lab import catalog, keys, plan, store
from book.lab.cells import Cell, Experiment

CURRENT, CERTIFIED, BLIND, ACCEPTED = "current", "certified", "certified without data", "accepted"
OUTDATED, MOVED, CHANGED, UNPROBED = "outdated", "moved", "changed since", "no probe"
WORDS = (CURRENT, CERTIFIED, BLIND, ACCEPTED, OUTDATED, MOVED, UNPROBED, CHANGED)
"""From best to worst: a result is called by its worst method."""
GOOD = (CURRENT, CERTIFIED, BLIND, ACCEPTED)


@dataclass
class State:
    """What is known of the stored cells, by label, of one method: one of `WORDS`, and why.

    `code` is the hash of today's code of these cells, `before` are those of the code that computed them.
    """

    method: str
    word: str
    detail: str = ""
    cells: list[str] = field(default_factory=list)
    code: str = ""
    before: list[str] = field(default_factory=list)


def states(name: str, profile: str) -> list[State]:
    """What the stored result's hashes and certificates say, method by method; no probe runs.

    A method has several states where only some of its cells are outdated, or where they start from cells of different
    code.

    Raises:
        StoreError: there is no such result.
    """
    return states_of(catalog.get(name), store.load_result(name, profile))


def states_of(experiment: Experiment, result: dict[str, Any]) -> list[State]:
    """`states` of a result at hand."""
    if not result.get("cells"):
        return []
    wanted = {keys.identity(experiment, cell): cell for cell in plan.cells_of(experiment, result["profile"])}
    old, groups, stale = {}, {}, {}
    stored = {about["id"]: about for about in result["cells"]}
    for about in result["cells"]:
        method = about["cell"]["method"]
        if about["id"] in wanted and _stale(about, wanted[about["id"]], stored, result["profile"]):
            stale.setdefault(method, []).append(cell_of(about["cell"]).label)
        elif about["id"] in wanted:
            groups.setdefault((method, plan.code_of(experiment, wanted[about["id"]])), []).append(about)
        else:
            old.setdefault(method, []).append(cell_of(about["cell"]).label)
    why = "their parameters or the declared version have changed since"
    outdated = [State(method, OUTDATED, why, labels) for method, labels in old.items()]
    why = "the network that they started from has been computed again and is another one"
    outdated += [State(method, OUTDATED, why, labels) for method, labels in stale.items()]
    return outdated + [_state(result, method, today, abouts) for (method, today), abouts in groups.items()]


def _stale(about: dict[str, Any], cell: Cell, stored: dict[str, dict], profile: str) -> bool:
    if not about.get("starts"):
        return False
    needs = []
    for need in cell.needs:
        experiment = catalog.get(need.experiment)
        name = keys.identity(experiment, need.cell)
        needs.append(stored.get(name) or plan.stored_entries(need.experiment, profile).get(name))
    return plan.stale(about, needs)


def _state(result: dict[str, Any], method: str, today: str, abouts: list[dict]) -> State:
    before = {about["code"] for about in abouts}
    moved = before - equal_codes(result, method, today, before)
    labels = [cell_of(one["cell"]).label for one in abouts if not moved or one["code"] in moved]
    if moved:
        why = "the code's hash is another one; `python -m book verify` runs the probe"
        return State(method, MOVED, why, labels, today, sorted(moved))
    if before == {today}:
        return State(method, CURRENT, "", labels, today, [today])
    last = next(one for one in reversed(result["certificates"]) if method in one["codes"])
    word, why = (ACCEPTED, last["reason"]) if last.get("reason") else (CERTIFIED, f"at {str(last['commit'])[:8]}")
    if word == CERTIFIED and not last.get("data", True):
        word = BLIND
    return State(method, word, why, labels, today, sorted(before))


def equal_codes(result: dict[str, Any], method: str, code: str, stored: set[str]) -> set[str]:
    """The hashes of a method's code that certificates connect with one; those that name none are about `stored`."""
    own = [one for one in result["certificates"] if method in one["codes"]]
    groups = [{one["codes"][method], *one.get("since", {}).get(method, stored)} for one in own]
    known = {code}
    while more := set().union(*(group for group in groups if group & known)) - known:
        known |= more
    return known


def worst(found: Iterable[State]) -> str:
    """The word for a whole result."""
    return max((state.word for state in found), key=WORDS.index, default=CURRENT)


def state_of_rows(experiment: Experiment, result: dict[str, Any]) -> Callable[[dict[str, Any]], str]:
    """A function from a row of `book.lab.compare` to what its reader must know of its validity, "" if it is good."""
    known: dict[str, State] = {}
    for state in states_of(experiment, result):
        known[state.method] = max(known.get(state.method, state), state, key=lambda one: WORDS.index(one.word))
    dirty = {about["cell"]["method"] for about in result.get("cells", []) if about.get("dirty")}

    def text(row: dict[str, Any]) -> str:
        method = row["method"]
        method = method if method in known else experiment.sources.get(method, method)
        state = known.get(method) or (next(iter(known.values())) if len(known) == 1 else None)
        if state is None:
            return ""
        words = [] if state.word in GOOD else [state.word]
        return "; ".join(words + (["from a tree with uncommitted changes"] if state.method in dirty else []))

    return text


def cell_of(about: dict[str, Any]) -> Cell:
    """A cell from what a result keeps of it."""
    return Cell(about["setting"], about["method"], tuple(about["replicates"]), about["params"])
