"""Run the probes of stored results, and write down what they say.

On the processor that the stored probe ran on, rows are equal up to 1e-9. Elsewhere they are not comparable: another
order of additions moves a loss by 1e-7, and three steps of training later a test image. There the probe also runs at
the commit of the last certificate (or of the probe), taken from the history (`book.lab.history`), and both runs are of
this machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from book.lab import catalog, history, probes, provenance, store
from book.lab.cells import Cell, Experiment, ExperimentError
from book.lab.plan import Codes
from book.lab.probes import kind_of
from book.lab.validity import (
    ACCEPTED,
    CERTIFIED,
    CHANGED,
    GOOD,
    MOVED,
    OUTDATED,
    UNPROBED,
    State,
    cell_of,
    equal_codes,
    states_of,
)

TOLERANCE = 1e-9  # relative, between two runs on one machine


def machine() -> dict[str, str]:
    """What decides the last bits: processor, its vector instructions as PyTorch uses them, and PyTorch."""
    return {
        "cpu": provenance.machine()["cpu"],
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__.partition("+")[0],
    }


def verify(name: str, profile: str, write: bool = True, accept: str = "") -> list[State]:
    """Settle every method whose code has moved by its probes.

    Args:
        name, profile: of a stored result.
        write: append certificates where the probes agree, and the rows of new probes.
        accept: a reason; methods whose probes differ are then accepted, with it.

    Returns:
        The states afterwards.

    Raises:
        StoreError: there is no such result, or it cannot be written.
    """
    one = _Evidence(name, profile)
    for state in one.states:
        if state.word == MOVED:
            one.settle(state, accept)
        elif state.word != OUTDATED and write:
            one.renew(state, one.stale(state))
    if write:
        one.save()
    return one.states


def keep_probes(name: str, profile: str, say: Callable[[str], None]) -> dict[str, Any]:
    """Probe the code that has just computed cells of a result, and say where it has changed since the others.

    Returns:
        The result, as stored.
    """
    one = _Evidence(name, profile)
    computed = {(about["cell"]["method"], about["code"]) for about in one.result["cells"]}
    for state in one.states:
        if state.word == OUTDATED or (state.method, state.code) not in computed:
            continue
        try:
            if state.word != MOVED:
                one.renew(state, one.stale(state))
                continue
            why = one.judge(state)
            one.renew(state, one.lacking(state))
        except Exception as error:  # the cells are stored; a probe that fails must not look as if they were not
            say(f"{name}: the probe of {state.method} failed: {type(error).__name__}: {error}")
            continue
        if why[0] != CERTIFIED:
            say(
                f"{name}: the code of {state.method} has changed since {'; '.join(state.cells)} were computed "
                f"({why[1]}); `python -m book verify {name} --profile {profile}` decides"
            )
    one.save()
    return one.result


class _Evidence:
    """A stored result, and what is found out about it."""

    def __init__(self, name: str, profile: str) -> None:
        self.experiment, self.profile = catalog.get(name), profile
        self.result = store.load_result(name, profile)
        self.states = states_of(self.experiment, self.result)
        self.new: list[dict[str, Any]] = []  # certificates
        self.renewed = False
        codes = Codes()
        self._cells: dict[tuple[str, str], list[Cell]] = {}
        stored = {about["id"] for about in self.result["cells"]}
        for cell in probes.cells(self.experiment, profile, stored):
            self._cells.setdefault((cell.method, codes.of(self.experiment, cell)), []).append(cell)

    def cells(self, state: State) -> list[Cell]:
        """The probes that speak for the state's cells."""
        return self._cells.get((state.method, state.code), [])

    def judged(self, state: State) -> list[Cell]:
        """Those of them that speak for the cells whose code has moved: others of the method may be of today's."""
        labels = set(state.cells)
        ids = {about["id"] for about in self.result["cells"] if cell_of(about["cell"]).label in labels}
        kinds = {kind_of(cell.as_json()) for cell in probes.cells(self.experiment, self.profile, ids)}
        return [cell for cell in self.cells(state) if kind_of(cell.as_json()) in kinds]

    def stored(self, state: State) -> dict[str, dict[str, Any]]:
        """The stored probes of the declared version, by kind."""
        version = self.experiment.version_of(state.method)
        kinds = {kind_of(cell.as_json()) for cell in self.cells(state)}
        found = {kind_of(probe["cell"]): probe for probe in self.result["probes"] if probe["version"] == version}
        return {kind: probe for kind, probe in found.items() if kind in kinds}

    def lacking(self, state: State) -> list[Cell]:
        """Probes that are not stored."""
        stored = self.stored(state)
        return [cell for cell in self.cells(state) if kind_of(cell.as_json()) not in stored]

    def stale(self, state: State) -> list[Cell]:
        """Probes that are not stored, or only those of code that none of the cells comes from."""
        stored, known = self.stored(state), equal_codes(self.result, state.method, state.code, set(state.before))
        kept = {kind for kind, probe in stored.items() if probe.get("code", state.code) in known}
        return [cell for cell in self.cells(state) if kind_of(cell.as_json()) not in kept]

    def renew(self, state: State, cells: list[Cell]) -> None:
        """Run probes with today's code and keep their rows."""
        for cell in cells:
            about = {"cell": cell.as_json(), "version": self.experiment.version_of(cell.method), "code": state.code}
            rows = probes.run(self.experiment, cell)
            probe = {**about, **provenance.commit(), "machine": machine(), "rows": rows}
            others = [one for one in self.result["probes"] if kind_of(one["cell"]) != kind_of(cell.as_json())]
            self.result["probes"] = [*others, probe]
            self.renewed = True

    def judge(self, state: State) -> tuple[str, str, float]:
        """Today's probes beside the stored ones of cells whose code has moved: word, reason, largest difference."""
        cells, every = self.judged(state), self.stored(state)
        kinds = [kind_of(cell.as_json()) for cell in cells]
        if not cells or (lacking := [cell for cell, kind in zip(cells, kinds, strict=True) if kind not in every]):
            return UNPROBED, f"no stored probe of {lacking[0].label if cells else state.method}", 0.0
        stored = {kind: every[kind] for kind in kinds}
        for code in {probe["code"] for probe in stored.values() if "code" in probe}:
            if strange := set(state.before) - equal_codes(self.result, state.method, code, set(state.before)):
                return UNPROBED, f"the stored probe is not of the code that computed them ({min(strange)})", 0.0
        far, where = _compare(self.experiment, self.result, state, cells, stored)
        return (CHANGED, where, far) if far > TOLERANCE else (CERTIFIED, f"probes differ by {far:.0e}", far)

    def settle(self, state: State, accept: str) -> None:
        """Put a certificate for the state where its probes, or a reason, allow it."""
        try:
            state.word, state.detail, far = self.judge(state)
        except ExperimentError as error:  # what decides is not at hand: it stays open
            state.detail = str(error)
            return
        if state.word not in GOOD and accept:
            state.word, state.detail = ACCEPTED, accept
            self.renew(state, self.cells(state))  # what is compared from now on
        if state.word in GOOD:
            self._certify(state, far, accept if state.word == ACCEPTED else "")

    def _certify(self, state: State, far: float, reason: str) -> None:
        for one in self.new:
            if one.get("reason", "") == reason and state.method not in one["codes"]:
                break
        else:
            about = {**provenance.commit(), "machine": machine(), "codes": {}, "since": {}, "difference": 0.0}
            one = about | ({"reason": reason} if reason else {})
            self.new.append(one)
        one["codes"][state.method], one["since"][state.method] = state.code, state.before
        one["difference"] = max(one["difference"], far)

    def save(self) -> None:
        """Write the result if anything has come to it."""
        if self.new or self.renewed:
            name = self.experiment.name
            self.result["certificates"] += self.new
            arrays = {"|".join(map(str, key)): value for key, value in store.load_arrays(name, self.profile).items()}
            store.save_result(self.result, arrays)


def _compare(
    experiment: Experiment, result: dict[str, Any], state: State, cells: list[Cell], stored: dict[str, dict]
) -> tuple[float, str]:
    """The largest relative difference between today's probe rows and the stored ones, and where it is."""
    before = {kind: probe["rows"] for kind, probe in stored.items()}
    if any(probe.get("machine") != machine() for probe in stored.values()):
        before = history.reference_rows(result, state, stored)
    far, where = 0.0, ""
    for cell in cells:
        rows = {tuple(row[:4]): row[4] for row in probes.run(experiment, cell)}
        kept = before.get(kind_of(cell.as_json()), [])
        old = {tuple(row[:4]): math.nan if row[4] is None else float(row[4]) for row in kept}
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
