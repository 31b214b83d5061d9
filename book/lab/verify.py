"""Run the probes of stored results, and write down what they say.

On the processor that the stored probe ran on, rows are equal up to rounding (`book.lab.rounding`). Elsewhere they are
not comparable: some steps of training later another order of additions has moved several test images. There the probe
also runs at an earlier commit, taken from the history (`book.lab.history`), and both runs are of this machine.

Beside its rows a probe keeps what the real cells of its kind read, and where their schedules end (`book.lab.inputs`).
Where the data are not at hand, equal rows and schedules certify "without data", and the next run that has them decides.
"""

import math
import os
import signal
from collections.abc import Callable, Container, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children
from typing import Any

import torch

from bnnlib._files import StoreError
from book import forks
from book.lab import catalog, history, inputs, keys, probes, provenance, rounding, store, validity
from book.lab.cells import Cell, ExperimentError
from book.lab.plan import code_of
from book.lab.probes import kind_of
from book.lab.validity import State, equal_codes, states_of


def machine() -> dict[str, str]:
    """What decides the last bits: processor, its vector instructions as PyTorch uses them, PyTorch, and its bfloat16.

    Processors of one name may have tiles for bfloat16 (AMX) or not, and then add in another order.
    """
    capability, version = torch.backends.cpu.get_cpu_capability(), torch.__version__.partition("+")[0]
    has = [one for one in ("amx_tile", "avx512_bf16") if getattr(torch.cpu, f"_is_{one}_supported", lambda: False)()]
    about = {"cpu": provenance.machine()["cpu"], "capability": capability, "torch": version}
    return about | {"bfloat16": has[0] if has else "emulated"}


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
        if state.word in (validity.MOVED, validity.BLIND):
            one.settle(state, accept)
        elif state.word != validity.OUTDATED and write:
            one.renew(state, but=one.fresh(state))
            one.complete(state)
    if write:
        one.save()
    return one.states


def verify_several(
    wanted: list[tuple[str, str]], jobs: int = 1, **options: Any
) -> Iterator[tuple[str, str, list[State] | StoreError]]:
    """`verify` of stored results (name, profile) in some processes, each with what it raises, in their order."""
    if min(jobs, len(wanted)) < 2:
        yield from ((*one, _tried(*one, **options)) for one in wanted)
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the processes share the cores out
    with ProcessPoolExecutor(jobs, forks.context(__name__, "torch._dynamo"), _start_worker, ({**os.environ},)) as pool:
        try:
            # what has the most to read and to run begins first, so that no process waits for the last one
            longest = sorted(wanted, key=lambda one: -store.result_path(*one).stat().st_size)
            asked = {one: pool.submit(_tried, *one, **options) for one in longest}
            yield from ((*one, asked[one].result()) for one in wanted)
        except BaseException:
            for worker in active_children():
                worker.kill()
            raise


def _start_worker(environment: dict[str, str]) -> None:
    os.environ.update(environment)
    # Ctrl-C reaches the whole process group; only the parent answers it, and it ends the workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    forks.end_with_parent()


def _tried(name: str, profile: str, **options: Any) -> list[State] | StoreError:
    try:
        return verify(name, profile, **options)
    except StoreError as error:
        return error


def keep_probes(name: str, profile: str, say: Callable[[str], None]) -> dict[str, Any]:
    """Probe the code that has just computed cells of a result, and say where it has changed since the others.

    Returns:
        The result, as stored.
    """
    one = _Evidence(name, profile)
    computed = {(about["cell"]["method"], about["code"]) for about in one.result["cells"]}
    for state in one.states:
        if state.word == validity.OUTDATED or (state.method, state.code) not in computed:
            continue
        try:
            if state.word != validity.MOVED:
                one.renew(state, but=one.fresh(state))
                one.complete(state)
                continue
            why = one.judge(state)
            one.renew(state, but=one.stored(state))
            one.complete(state)
        except Exception as error:  # the cells are stored; a probe that fails must not look as if they were not
            say(f"{name}: the probe of {state.method} failed: {type(error).__name__}: {error}")
            continue
        if why[0] not in (validity.CERTIFIED, validity.BLIND):
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
        self._before = self._probes()
        self._cells: dict[tuple[str, str], dict[str, Cell]] = {}
        self._real: dict[str, list[Cell]] = {}  # the stored cells behind a probe
        self._codes = {about["id"]: about["code"] for about in self.result["cells"]}
        for cell, behind in probes.kinds(self.experiment, profile, self._codes):
            kind = kind_of(cell.as_json())
            self._cells.setdefault((cell.method, code_of(self.experiment, cell)), {})[kind] = cell
            self._real[kind] = behind

    def cells(self, state: State) -> dict[str, Cell]:
        """The probes that speak for the state's cells, by kind."""
        return self._cells.get((state.method, state.code), {})

    def stored(self, state: State) -> dict[str, dict[str, Any]]:
        """The stored probes of the declared version, by kind."""
        version = self.experiment.version_of(state.method)
        found = {kind_of(probe["cell"]): probe for probe in self.result["probes"] if probe["version"] == version}
        return {kind: probe for kind, probe in found.items() if kind in self.cells(state)}

    def fresh(self, state: State) -> list[str]:
        """Kinds whose stored probes are of code that one of the cells comes from."""
        known = equal_codes(self.result, state.method, state.code, set(state.before))
        return [kind for kind, probe in self.stored(state).items() if probe.get("code", state.code) in known]

    def renew(self, state: State, but: Container[str] = ()) -> None:
        """Run probes with today's code, all but some kinds, and keep their rows."""
        for kind, cell in self.cells(state).items():
            if kind in but:
                continue
            about = {"cell": cell.as_json(), "version": self.experiment.version_of(cell.method), "code": state.code}
            where = {**provenance.commit(), "machine": machine(), "noise": provenance.noise("cpu")}
            probe = {**about, **where, "rows": probes.run(self.experiment, cell), "real": {}}
            others = [one for one in self.result["probes"] if kind_of(one["cell"]) != kind]
            self.result["probes"], self.renewed = [*others, probe], True

    def complete(self, state: State) -> None:
        """Let the stored probes say what the real cells are like that today's code has computed, or is as good as."""
        known = equal_codes(self.result, state.method, state.code, set(state.before))
        known |= {state.code, *(state.before if state.word in validity.GOOD else ())}
        for kind, probe in self.stored(state).items():
            for cell in self._real[kind]:
                if self._codes[keys.identity(self.experiment, cell)] in known:
                    self.renewed |= inputs.keep(probe.setdefault("real", {}), self.experiment, cell, self.profile)

    def judge(self, state: State) -> tuple[str, str, float]:
        """Today's probes beside the stored ones of cells whose code has moved: word, reason, largest difference."""
        # others of the method may be of today's code
        cells = {kind: cell for kind, cell in self.cells(state).items() if self._moved(state, kind)}
        stored = {kind: probe for kind, probe in self.stored(state).items() if kind in cells}
        if not cells or (lacking := cells.keys() - stored.keys()):
            return validity.UNPROBED, f"no stored probe of {cells[min(lacking)].label if cells else state.method}", 0.0
        for kind, probe in stored.items():  # which speaks for the cells of its kind alone
            before = {self._codes[keys.identity(self.experiment, cell)] for cell in self._moved(state, kind)}
            known = equal_codes(self.result, state.method, probe.get("code", state.code), before)
            if "code" in probe and (strange := before - known):
                return validity.UNPROBED, f"the stored probe is of other code than these cells ({min(strange)})", 0.0
        if strange := {probe.get("noise") for probe in stored.values()} - {None, provenance.noise("cpu")}:
            return validity.UNPROBED, f"another noise source: {provenance.noise('cpu')}, was {min(strange)}", 0.0
        moved = [(cell, probe) for kind, probe in stored.items() for cell in self._moved(state, kind)]
        for cell, probe in moved:
            if why := inputs.unlike(probe.get("real", {}), self.experiment, cell, self.profile):
                return (validity.CHANGED if why.known else validity.UNPROBED), f"{cell.label}: {why.text}", math.inf
        same, far, where = self._compare(state, cells, stored)
        if not same:
            return validity.CHANGED, where, far
        here = (inputs.at_hand(self.experiment, one, self.profile) for one, _ in moved)
        blind = self.experiment.reads and not all(here)
        return validity.BLIND if blind else validity.CERTIFIED, f"probes differ by {far:.0e}", far

    def _moved(self, state: State, kind: str) -> list[Cell]:
        """The real cells of a kind that the state is about."""
        return [cell for cell in self._real[kind] if cell.label in state.cells]

    def _compare(self, state: State, cells: dict[str, Cell], stored: dict[str, dict]) -> tuple[bool, float, str]:
        """Whether today's probe rows are the stored ones, the largest relative difference, and where it is."""
        before = {kind: probe["rows"] for kind, probe in stored.items()}
        if elsewhere := [kind for kind, probe in stored.items() if not self._ran_here(probe, cells[kind])]:
            before |= history.reference_rows(self.experiment.name, self.profile, state.method, elsewhere)
        same, far, where = True, 0.0, ""
        for kind, cell in cells.items():
            rows = probes.run(self.experiment, cell)
            good, apart, place = rounding.farthest(rows, before[kind], rounding.share_of(self.experiment, cell))
            if (same and not good) or (same == good and apart > far):
                same, far, where = good, apart, f"{cell.label}: {place}"
        return same, far, where

    def _ran_here(self, probe: dict[str, Any], cell: Cell) -> bool:
        """Whether a stored probe ran on such a processor as this one."""
        known, here = {**probe.get("machine", {})}, machine()
        if rounding.share_of(self.experiment, cell) != rounding.SHARE["bfloat16"]:
            known["bfloat16"] = here["bfloat16"]  # decides nothing
        return known == here

    def settle(self, state: State, accept: str) -> None:
        """Put a certificate for the state where its probes, or a reason, allow it."""
        was = state.word
        try:
            state.word, state.detail, far = self.judge(state)
        except ExperimentError as error:  # what decides is not at hand: it stays open
            state.detail = str(error)
            return
        except Exception as error:  # today's code does not get through what the stored code did
            state.word, state.detail = validity.CHANGED, f"its probe fails: {type(error).__name__}: {error}"
            return
        if state.word not in validity.GOOD and accept:
            state.word, state.detail = validity.ACCEPTED, accept
            self.renew(state)  # what is compared from now on
            self.complete(state)
        if state.word in validity.GOOD and not (was == validity.BLIND == state.word):
            self._certify(state, far, accept if state.word == validity.ACCEPTED else "")

    def _certify(self, state: State, far: float, reason: str) -> None:
        kind = ({"reason": reason} if reason else {}) | ({"data": False} if state.word == validity.BLIND else {})
        alike = (one for one in self.new if {key: one[key] for key in ("reason", "data") if key in one} == kind)
        one = next((one for one in alike if state.method not in one["codes"]), None)
        if one is None:
            about = {**provenance.commit(), "machine": machine(), "codes": {}, "since": {}, "difference": 0.0}
            self.new.append(one := about | kind)
        one["codes"][state.method], one["since"][state.method] = state.code, state.before
        one["difference"] = max(one["difference"], far)

    def _probes(self) -> dict[str, str]:
        """The text of every probe, by kind."""
        return {kind_of(probe["cell"]): store.to_json(probe) for probe in self.result["probes"]}

    def save(self) -> None:
        """Write what has come to the result, into what stands there by now: a run may have stored cells meanwhile."""
        if not (self.new or self.renewed):
            return
        name = self.experiment.name
        changed = {kind for kind, text in self._probes().items() if self._before.get(kind) != text}
        own = [probe for probe in self.result["probes"] if kind_of(probe["cell"]) in changed]
        with store.locked(name, self.profile):
            self.result = store.load_result(name, self.profile)
            others = [probe for probe in self.result["probes"] if kind_of(probe["cell"]) not in changed]
            self.result["probes"] = [*others, *own]
            self.result["certificates"] += self.new
            arrays = {"|".join(map(str, key)): value for key, value in store.load_arrays(name, self.profile).items()}
            store.save_result(self.result, arrays)
