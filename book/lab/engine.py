"""The engine: tasks go to the worker processes of a Dask cluster, on this machine or at a scheduler's address.

A single job on this machine is this process itself: the same loop, without a cluster's seconds of start.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from book.lab.cells import ExperimentError
from book.lab.worker import Task, execute, failure

Outcome = tuple[Task, dict[str, Any]]


class _Here:
    """This process, which computes a task when its entry is asked for."""

    def __init__(self) -> None:
        self._task: Task | None = None

    def has_room(self) -> bool:
        return self._task is None

    def start(self, task: Task) -> None:
        self._task = task

    def finished(self) -> Outcome:
        task, self._task = self._task, None
        return task, execute(task)

    def close(self) -> None:
        pass


def _workers(tasks: Sequence[Task], jobs: int, scheduler: str | None) -> Any:
    jobs = min(jobs, len(tasks))
    if scheduler is None and jobs <= 1:
        return _Here()
    try:
        from book.lab.cluster import Cluster
    except ImportError as error:
        raise ExperimentError("--jobs above 1 and --scheduler need Dask: pip install 'bnnlib[sweep]'") from error
    return Cluster(jobs, scheduler, tasks[0].folder)


def outcomes(tasks: Sequence[Task], jobs: int = 1, scheduler: str | None = None) -> Iterator[Outcome]:
    """Every task with its entry, as they come, the most valuable first; a task whose need failed fails with it.

    They run in `jobs` processes on this machine, or at the workers of a Dask scheduler with an address.

    Raises:
        ExperimentError: Dask is not installed, or the scheduler or its last worker cannot be reached.
        StoreError: a finished cell could not be written.
    """
    if not tasks:
        return
    waiting = {task.name: task for task in tasks}
    left = set(waiting)
    with closing(_workers(tasks, jobs, scheduler)) as workers:
        while left:
            ready = (task for task in list(waiting.values()) if not left & {need.name for need in task.needs})
            # no more than there are workers: what waits at one that dies would be blamed for its death
            while workers.has_room() and (task := next(ready, None)):
                workers.start(waiting.pop(task.name))
            settled = [workers.finished()]
            for task, entry in settled:
                left.discard(task.name)
                yield task, entry
                if entry["failed"]:
                    lost = [one for one in waiting.values() if task.name in {need.name for need in one.needs}]
                    note = next((row["note"] for row in entry["rows"] if row.get("note")), "unknown")
                    why = f"{task.cell.label} of {task.experiment}, which this cell needs, failed: {note}"
                    settled += [(waiting.pop(one.name), failure(one, why) | {"lost": True}) for one in lost]
