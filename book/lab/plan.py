"""What a run has to do: the cells of a profile, what is known of each, and how long the rest will take."""

import contextlib
import functools
import hashlib
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bnnlib._files import StoreError
from book.lab import catalog, keys, store
from book.lab.cells import PROFILES, Cell, Experiment, ExperimentError
from book.lab.fingerprint import code_fingerprint
from book.lab.store import drop_entry, read_entry
from book.lab.worker import Task, whole

Entry = dict[str, Any]


def cells_of(experiment: Experiment, profile: str) -> list[Cell]:
    """The cells of a profile.

    Raises:
        ExperimentError: there is no such profile, or two cells overlap.
    """
    if profile not in experiment.profiles:
        if reason := experiment.unavailable.get(profile):
            raise ExperimentError(f"{experiment.name} has no profile {profile!r}: {reason}")
        raise catalog.unknown("profile", profile, [one for one in PROFILES if one in experiment.profiles])
    cells = experiment.profiles[profile]()
    seen: set[tuple[str, str, int]] = set()
    for cell in cells:
        places = {(cell.setting, cell.method, replicate) for replicate in cell.replicates}
        if places & seen or not places:
            raise ExperimentError(f"cell {cell.label!r} of {experiment.name} is empty or overlaps another cell")
        seen |= places
    return cells


def code_of(experiment: Experiment, cell: Cell) -> str:
    """Hash of the code that computes a cell and what it needs: evidence, no part of its key."""
    return _code(*_functions(experiment, cell))


def _functions(experiment: Experiment, cell: Cell) -> tuple:
    return experiment.function(cell), tuple(_functions(catalog.get(need.experiment), need.cell) for need in cell.needs)


@functools.cache  # many cells are computed by one function
def _code(function, needed: tuple) -> str:
    own, needed = code_fingerprint(function), sorted({_code(*one) for one in needed})
    return (own if not needed else hashlib.sha256(" ".join([own, *needed]).encode()).hexdigest())[:16]


class Plan:
    """The cells of one profile as tasks, with what the cache and the stored result know of them.

    Raises:
        ExperimentError: no such experiment or profile.
        StoreError: the cache folder cannot be made.
    """

    def __init__(self, name: str, profile: str, device: str, threads: int = 1, devices: int = 1) -> None:
        self.experiment, self.profile = catalog.get(name), profile
        self._where = {"device": device, "threads": threads, "devices": devices}
        self.data: dict[str, str] = {}
        self.tasks = [self.task(self.experiment, cell) for cell in cells_of(self.experiment, profile)]
        self.stamp = store.stamp(store.result_path(name, profile))
        self.stored = stored = stored_entries(name, profile)
        self.entries: dict[str, Entry | None] = {}
        for task in self.tasks:
            known = read_entry(_folder(name), task.key)
            if known is None or known["failed"]:
                known = matching(stored, task) or known
            self.entries[task.key] = known
        needs = {task.key: [self._entry(need) for need in task.needs] for task in self.tasks}
        self._stale = {task.key for task in self.tasks if stale(self.entries[task.key], needs[task.key])}
        self.entries |= dict.fromkeys(self._stale)
        self.renewed: set[str] = set()  # keys of the tasks that are computed again although they are known

    def has_timed(self, entry: Entry) -> bool:
        """Whether its seconds tell about a device of this plan's kind."""
        device = entry.get("device")
        like = device is None or device.startswith("cpu") == (self._where["device"] == "cpu")
        return like and bool(entry["seconds"])

    def _entry(self, need: Task) -> Entry | None:
        """What is known of a needed cell, of this experiment or of another."""
        if need.experiment == self.experiment.name:
            return self.entries.get(need.key)
        return stored_entries(need.experiment, self.profile).get(need.about["id"])

    def task(self, experiment: Experiment, cell: Cell) -> Task:
        """A cell of any experiment as a task, what it needs included."""
        read = keys.fingerprints(keys.data_of(experiment, cell, self.profile))
        self.data |= read
        about = {"id": keys.identity(experiment, cell), "version": experiment.version_of(cell.method)}
        about |= {"code": code_of(experiment, cell), "data": read}
        return Task(
            module=catalog.module_of(experiment.name),
            experiment=experiment.name,
            cell=cell,
            key=keys.cache_key(about["id"], read),
            folder=str(_folder(experiment.name)),
            about=about,
            needs=tuple(self.task(catalog.get(need.experiment), need.cell) for need in cell.needs),
            **self._where,
        )

    def chosen(self, only: str | None) -> list[Task]:
        """The task of that label, else those whose label contains the text.

        Raises:
            ExperimentError: there is none.
        """
        exact = [task for task in self.tasks if task.cell.label == only]
        found = exact or [task for task in self.tasks if only is None or only in task.cell.label]
        if not found:
            labels = "; ".join(task.cell.label for task in self.tasks)
            raise ExperimentError(f"no cell matches --only {only!r}. Cells: {labels}")
        return found

    def renew(self, only: str | None = None) -> None:
        """Compute the chosen tasks again, or those of them that the same choice of today's code, interrupted, has left.

        What is known of a cell, its product too, stays until the new one takes its place.
        """
        chosen = self.chosen(only)
        marks = {task.key: f"{task.about['code']} {only or ''}".strip() for task in chosen}
        left = [task for task in chosen if task.marked == marks[task.key]]
        for task in chosen if not left else ():
            task.mark(marks[task.key])
        self.renewed = {task.key for task in left or chosen}

    def known(self, task: Task) -> bool:
        """Whether nothing is left to do for it."""
        entry = self.entries[task.key]
        return entry is not None and not entry["failed"] and task.key not in self.renewed

    def lacks(self, task: Task) -> set[str]:
        """Data sets behind a task that are not at hand."""
        return set(keys.data_of(catalog.get(task.experiment), task.cell, self.profile)) - set(task.about["data"])

    def missing(self, only: str | None = None, again: bool = False) -> set[str]:
        """Data sets behind the tasks that are left to do, or with `again` behind all, and not at hand."""
        return set().union(*map(self.lacks, self.chosen(only) if again else self.todo(only)))

    def todo(self, only: str | None = None) -> list[Task]:
        """The chosen tasks without a good entry, each behind the tasks that it needs and whose products are missing."""
        found: dict[tuple[str, str], Task] = {}
        ready: dict[tuple[str, str], bool] = {}
        for task in self.chosen(only):
            if task.key in self._stale:
                drop_entry(Path(task.folder), task.key)  # a worker would take it for the work of another run
            if not self.known(task):
                for one in _with_needs(task, ready):
                    found.setdefault(one.name, one)
        return list(found.values())


def _with_needs(task: Task, ready: dict[tuple[str, str], bool]) -> Iterable[Task]:
    for need in task.needs:
        if need.name not in ready:
            entry = read_entry(Path(need.folder), need.key)
            ready[need.name] = entry is not None and not entry["failed"] and whole(need, entry)
        if not ready[need.name]:
            yield from _with_needs(need, ready)
    yield task


def _folder(name: str) -> Path:
    folder = store.home() / "cache" / "runs" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"the cache folder cannot be made: {error.strerror}; set BNNLIB_HOME to one") from error
    return folder


def stored_entries(name: str, profile: str) -> dict[str, Entry]:
    """The cells of the stored result by identity, in the form of cache entries; {} without a result."""
    path = store.result_path(name, profile)
    return entries_of(store.read_result(path)) if path.exists() else {}


def entries_of(result: dict[str, Any]) -> dict[str, Entry]:
    """`stored_entries` of a result at hand."""
    return {about["id"]: about | {"rows": rows} for about, rows in store.by_cell(result)}


def stored_parts(name: str, profile: str | None = None) -> list[dict[str, Any]]:
    """Stored results, no two of which have rows of one setting and method.

    Without a profile these are `load_result`'s and, of the paper's profile where that is not complete, the settings and
    methods all of whose replicates are finished, in the other's place.
    """
    result, path = store.load_result(name, profile), store.result_path(name, "paper")
    if profile is not None or result["profile"] == "paper" or not path.exists():
        return [result]
    better = store.read_result(path)
    pairs = _finished(name, better)
    return [
        part | {"rows": [row for row in part["rows"] if ((row["setting"], row["method"]) in pairs) is inside]}
        for part, inside in ((result, False), (better, True))
    ]


def _finished(name: str, result: dict[str, Any]) -> set[tuple[str, str]]:
    """Setting and method of the rows whose cells are finished for all replicates; a cell can have rows of others."""
    planned, done, places = Counter[tuple](), Counter[tuple](), {}
    for cell in cells_of(catalog.get(name), result["profile"]):
        planned[cell.setting, cell.method] += len(cell.replicates)
    for about, rows in store.by_cell(result):
        own = about["cell"]["setting"], about["cell"]["method"]
        done[own] += len(about["cell"]["replicates"])
        places.setdefault(own, set()).update((row["setting"], row["method"]) for row in rows)
    return set().union(*(found for own, found in places.items() if done[own] >= planned[own]))


def stale(entry: Entry | None, needs: Sequence[Entry | None]) -> bool:
    """Whether a cell has started from another product than the one that a needed cell, run again, has left since."""
    starts = (entry or {}).get("starts", ())
    left = [(need or {}).get("product", {}).get("sha256") for need in needs]
    return any(now and now != then for then, now in zip(starts, left, strict=False))


def matching(stored: dict[str, Entry], task: Task) -> Entry | None:
    """The stored entry of a task, if it read the same data, as far as they are at hand to compare."""
    entry = stored.get(task.about["id"])
    if entry is None or any(task.about["data"].get(name, print_) != print_ for name, print_ in entry["data"].items()):
        return None
    return entry | {"key": task.key}


def minutes(plan: Plan, task: Task, others: dict[str, dict[str, Entry]]) -> float | None:
    """Estimated minutes of a cell, learned from what ran; None while nothing like it did.

    `others` are the stored entries of the same experiment by profile, for a guess by the ratio of budgets.
    """
    if task.experiment != plan.experiment.name:  # a needed cell: what its own experiment took tells
        timed = [one for one in stored_entries(task.experiment, plan.profile).values() if plan.has_timed(one)]
        return minutes_by_budget(catalog.get(task.experiment), task.cell, timed)
    done = [entry for entry in plan.entries.values() if entry and not entry["failed"] and plan.has_timed(entry)]
    size = len(task.cell.replicates)
    for like in (lambda one: one["cell"]["method"] == task.cell.method, lambda one: True):
        found = [one["seconds"] / len(one["cell"]["replicates"]) for one in done if like(one)]
        if found:
            return statistics.median(found) * size / 60
    for entries in others.values():
        timed = [entry for entry in entries.values() if plan.has_timed(entry)]
        if (found := minutes_by_budget(plan.experiment, task.cell, timed)) is not None:
            return found
    return None


def minutes_by_budget(experiment: Experiment, cell: Cell, entries: Iterable[Entry]) -> float | None:
    """Minutes of a cell at the rate of stored `entries`: of its method, for each replicate and unit of budget.

    None where the experiment counts no budget, or no entry is of the method.
    """
    budget, rates = experiment.budget, []
    if budget is None:
        return None
    for one in entries:
        own = one["cell"]
        if own["method"] != cell.method:
            continue
        with contextlib.suppress(KeyError, TypeError, ZeroDivisionError):  # its parameters had other names then
            spent, _ = budget(Cell(own["setting"], own["method"], tuple(own["replicates"]), own["params"]))
            rates.append(one["seconds"] / len(own["replicates"]) / spent)
    return statistics.median(rates) * len(cell.replicates) * budget(cell)[0] / 60 if rates else None
