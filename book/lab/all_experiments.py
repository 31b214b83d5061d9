"""Every cell of a profile with one command, in order of value, within a budget of time."""

import contextlib
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bnnlib._files import StoreError
from book.lab import catalog
from book.lab.cells import PROFILES, ExperimentError
from book.lab.plan import Plan, minutes, stored_entries
from book.lab.result import Result
from book.lab.runner import check, command_of, compute, device_of, fetch, say, spelled, warn_of_changes
from book.lab.store import read_entry
from book.lab.worker import Task

Row = dict[str, Any]

# Seconds after which the alarm of a spent budget rings again: storing what is finished takes less.
_AGAIN = 60.0


def run_all(
    profile: str = "book",
    budget: float | None = None,
    dry_run: bool = False,
    device: str = "auto",
    jobs: int = 1,
    scheduler: str | None = None,
    threads: int = 1,
) -> list[Row]:
    """Compute every cell of a profile that is not done yet, of all experiments, the most valuable first.

    An interrupted cell goes on from its checkpoint, which is at most a minute old.

    Args:
        profile: book or paper (or smoke).
        budget: seconds after which it stops, whatever is under way; None runs to the end.
        dry_run: only list what would be done; nothing is fetched.
        others: as for `run`.

    Returns:
        Rows {experiment, cell, minutes, state} in the order of work: minutes are an estimate from what ran, None where
        nothing like it did; state is "to do", "done", "failed", "no data", or "damaged" for a stored result that
        cannot be read (its cell is "").

    Raises:
        As `run`.
    """
    started = time.monotonic()
    check(jobs, threads)
    if profile not in PROFILES:
        raise catalog.unknown("profile", profile, PROFILES)
    command = command_of("--all", profile, device, jobs, scheduler, threads, budget=budget)
    device = device_of(device)
    warn_of_changes(profile)
    plans, rows, tried = [], [], set()

    def late() -> bool:
        return budget is not None and time.monotonic() - started >= budget

    work: dict[tuple[str, str], tuple[Task, Row]] = {}
    for name in sorted(catalog.names(), key=lambda one: -catalog.get(one).value):
        if profile not in catalog.get(name).profiles:
            continue
        try:
            plan = Plan(name, profile, device, threads)
            with contextlib.suppress(_BudgetSpent), _deadline(None if dry_run or late() else budget, started):
                if not dry_run and not late() and _fetch_for(plan, tried):
                    plan = Plan(name, profile, device, threads)
            others = {one: stored_entries(name, one) for one in catalog.get(name).profiles if one != profile}
        except StoreError as error:
            say(f"{name}: {error}")
            rows.append({"experiment": name, "cell": "", "minutes": None, "state": "damaged"})
            continue
        plans.append(plan)
        for task in plan.todo():
            if task.name not in work:
                rows.append({"experiment": task.experiment, "cell": task.cell.label})
                state = "no data" if plan.lacks(task) and not late() else "to do"
                rows[-1] |= {"minutes": minutes(plan, task, others), "state": state}
                work[task.name] = task, rows[-1]
    _tell(rows)
    if dry_run:
        return rows

    def heard(task: Task, entry: dict[str, Any]) -> None:
        work[task.name][1]["state"] = "failed" if entry["failed"] else "done"

    spent = late()
    todo = [task for task, row in work.values() if row["state"] == "to do" and not spent]
    with contextlib.suppress(_BudgetSpent), _deadline(None if spent else budget, started):
        results = [Result(plan, command) for plan in plans]
        compute(plans, todo, results, jobs, scheduler, command, heard)
    for task, row in work.values():  # a worker may have finished one after the last that the runner heard of
        if row["state"] == "to do" and (entry := read_entry(Path(task.folder), task.key)) and not entry["failed"]:
            row["state"] = "done"
    count = Counter(row["state"] for row in rows)
    words = {"failed": "failed", "no data": "have no data here", "to do": "are left"}
    say(", ".join([f"{count['done']} cells were computed", *(f"{count[s]} {w}" for s, w in words.items() if count[s])]))
    if spent and count["to do"]:  # else its interruption has said so
        say(f"The same command goes on:\n  {command}")
    return rows


def _fetch_for(plan: Plan, tried: set[str]) -> bool:
    """Fetch what the cells that are left to do read; True when something has come."""
    wanted = plan.missing() - tried
    tried |= wanted
    come = False
    for name in sorted(wanted):
        try:
            fetch(name)
            come = True
        except (OSError, RuntimeError, ValueError) as error:  # of the network: the cells of other data can run
            say(f"data set {name!r} could not be fetched: {error}")
    return come


class _BudgetSpent(KeyboardInterrupt):
    """The time is up."""


@contextlib.contextmanager
def _deadline(seconds: float | None, started: float) -> Iterator[None]:
    """Interrupt what runs inside so many seconds after the start, as Ctrl-C would.

    The alarm wakes the main thread from its work, and reaches a job in the background of a shell, which would ignore
    Ctrl-C. It rings again, since Python drops what is raised inside a destructor.
    """
    if seconds is None:
        yield
        return
    if not hasattr(signal, "setitimer"):
        raise ExperimentError("--budget needs a system with alarms, such as Linux or macOS")

    def up(*_) -> None:
        say(f"the budget of {spelled(seconds)} is spent")
        raise _BudgetSpent

    before, other = signal.signal(signal.SIGALRM, up), signal.getitimer(signal.ITIMER_REAL)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, max(1e-3, started + seconds - time.monotonic()), _AGAIN)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:  # also where the alarm rings just now
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *other)


def _tell(rows: list[Row]) -> None:
    for row in rows:
        guess = "  ? min" if row["minutes"] is None else f"{row['minutes']:5.1f} min"
        say(f"{guess}  {row['experiment']}: {row['cell']}" + (f"  ({row['state']})" if row["state"] != "to do" else ""))
    todo = [row["minutes"] for row in rows if row["state"] == "to do"]
    known = [guess for guess in todo if guess is not None]
    open_ = f" and {len(todo) - len(known)} of unknown length" if len(known) < len(todo) else ""
    say(f"{len(todo)} cells to do, about {sum(known):.0f} minutes{open_}")
