"""Every cell of a profile with one command, in order of value, within a budget of time."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

from book.lab import catalog, keys
from book.lab.plan import Plan, minutes, stored_entries
from book.lab.result import Result
from book.lab.runner import check, compute, device_of, fetch, say
from book.lab.worker import Task


def run_all(
    profile: str = "book",
    budget: float | None = None,
    dry_run: bool = False,
    device: str = "auto",
    jobs: int = 1,
    backend: str = "loky",
    scheduler: str | None = None,
    threads: int = 1,
) -> list[dict[str, Any]]:
    """Compute every cell of a profile that is not done yet, of all experiments, the most valuable first.

    Low priority on this machine. An interrupted cell goes on from its checkpoint, which is at most a minute old.

    Args:
        profile: book or paper (or smoke).
        budget: seconds after which it stops, whatever is under way; None runs to the end.
        dry_run: only list what would be done.
        others: as for `run`.

    Returns:
        Rows {experiment, cell, minutes, state} in the order of work: minutes are an estimate from what ran, None where
        nothing like it did; state is "to do", "done", "failed" or "no data".

    Raises:
        As `run`.
    """
    check(backend, jobs, threads)
    device = device_of(device)
    command = f"python -m book run --all --profile {profile}"
    names = sorted(catalog.names(), key=lambda one: -catalog.get(one).value)
    plans, rows, todo, without = [], [], [], []
    for name in names:
        experiment = catalog.get(name)
        if profile not in experiment.profiles:
            continue
        try:
            if not dry_run:
                fetch(experiment.data_sets(profile))
        except (OSError, RuntimeError, ValueError) as error:
            say(f"{name}: {error}")
        plan = Plan(name, profile, device, threads)
        plans.append(plan)
        others = {one: stored_entries(name, one) for one in experiment.profiles if one != profile}
        for task in plan.todo():
            lacks = [one for one in experiment.data_sets(profile) if one not in plan.data and _reads(task, one)]
            row = {"experiment": task.experiment, "cell": task.cell.label, "key": task.key}
            rows.append(row | {"minutes": minutes(plan, task, others), "state": "no data" if lacks else "to do"})
            (without if lacks else todo).append(task)
    _tell(rows)
    if dry_run or not todo:
        return _public(rows)
    if backend == "loky":
        os.nice(10)  # worker processes inherit it
    results = [Result(plan, command) for plan in plans]
    todo = list({task.key: task for task in todo}.values())
    with contextlib.suppress(_BudgetSpent), _deadline(budget):
        compute(plans, todo, results, jobs, backend, scheduler, command)
    states = {key: entry for plan in plans for key, entry in plan.entries.items()}
    for row in rows:
        entry = states.get(row["key"])
        if entry is not None:
            row["state"] = "failed" if entry["failed"] else "done"
    say(f"{sum(row['state'] == 'done' for row in rows)} of {len(rows)} cells were computed")
    return _public(rows)


def _public(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "key"} for row in rows]


def _reads(task: Task, data: str) -> bool:
    return data in keys.data_of(catalog.get(task.experiment), task.cell, "")


class _BudgetSpent(KeyboardInterrupt):
    """The time is up."""


@contextlib.contextmanager
def _deadline(seconds: float | None) -> Iterator[None]:
    """Interrupt what runs inside after so many seconds, as Ctrl-C would."""
    if seconds is None:
        yield
        return
    spent = threading.Event()

    def up(*_) -> None:
        spent.set()
        signal.raise_signal(signal.SIGINT)

    timer = threading.Timer(seconds, up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except KeyboardInterrupt:
        if spent.is_set():
            say(f"the budget of {seconds / 60:.0f} minutes is spent")
            raise _BudgetSpent from None
        raise
    finally:
        timer.cancel()


def _tell(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        guess = "  ? min" if row["minutes"] is None else f"{row['minutes']:5.1f} min"
        say(f"{guess}  {row['experiment']}: {row['cell']}" + ("  (no data)" if row["state"] == "no data" else ""))
    known = [row["minutes"] for row in rows if row["minutes"] is not None]
    open_ = len(rows) - len(known)
    say(
        f"{len(rows)} cells to do, about {sum(known):.0f} minutes"
        + (f" and {open_} of unknown length" if open_ else "")
    )
