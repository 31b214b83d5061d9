"""Three ways to run tasks: in this process, in loky workers, through a Dask scheduler.

Each is a generator of ``(task, entry)`` in the order of completion, and each survives the death of a worker:
the cell that ran there is tried again, up to three times, then reported as failed, and the others go on.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any

import torch

from book.lab.cells import ExperimentError
from book.lab.worker import Task, execute, failed_need, failure

TRIES = 3
CONNECT_SECONDS = 20.0
_DIED = (
    f"the worker process died {TRIES} times while it computed this cell; it was probably killed for lack of memory: "
    "use fewer --jobs, or fewer replicates in a cell"
)

Outcome = tuple[Task, dict[str, Any]]


class _Waiting:
    """Tasks in their order, each held back until the tasks of this run that it needs are done."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.line = deque((task, 1) for task in tasks)
        self.open = {task.name for task in tasks}

    def __bool__(self) -> bool:
        return bool(self.line)

    def take(self) -> tuple[Task, int] | None:
        """The next task that can start, with the number of its try; None while all wait for others."""
        for place, (task, _) in enumerate(self.line):
            if not self.open & {need.name for need in task.needs}:
                chosen = self.line[place]
                del self.line[place]
                return chosen
        return None

    def again(self, task: Task, tries: int) -> None:
        """Put a task in front."""
        self.line.appendleft((task, tries))

    def done(self, task: Task, entry: dict[str, Any]) -> list[Outcome]:
        """The task has an entry: whoever needs it may start, or fails with it. All that this settles."""
        self.open.discard(task.name)
        settled = [(task, entry)]
        if entry["failed"]:
            lost = [one for one, _ in self.line if task.name in {need.name for need in one.needs}]
            self.line = deque((one, tries) for one, tries in self.line if one not in lost)
            for one in lost:
                settled += self.done(one, failure(one, failed_need(task, entry)))
        return settled


def serial(tasks: Sequence[Task]) -> Iterator[Outcome]:
    """One task after the other in this process."""
    waiting = _Waiting(tasks)
    while waiting:
        task, _ = waiting.take()
        yield from waiting.done(task, execute(task))


def _start_worker(parent: int) -> None:
    # Ctrl-C reaches the whole process group; only the runner answers it, and it ends the workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def leave_with_parent() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)  # the runner was killed: nobody waits for this cell, and a new run may have started it again

    threading.Thread(target=leave_with_parent, daemon=True).start()


class _Slot:
    """One worker process. A pool of its own for each: when a process dies, loky ends its whole pool."""

    def __init__(self, number: int, threads: int) -> None:
        self.number, self.threads = number, threads
        self.pool = None

    def submit(self, task: Task) -> Future:
        from joblib.externals.loky.process_executor import BrokenProcessPool, ProcessPoolExecutor

        for _ in range(TRIES):
            if self.pool is None:
                environment = {"OMP_NUM_THREADS": str(self.threads)}
                self.pool = ProcessPoolExecutor(
                    1, timeout=60, initializer=_start_worker, initargs=(os.getpid(),), env=environment
                )
            try:
                return self.pool.submit(execute, task)
            except BrokenProcessPool:  # the idle worker died between two cells
                self.stop()
        raise ExperimentError("worker processes die as soon as they start; try --jobs 1 to see the error itself")

    def stop(self) -> None:
        if self.pool is not None:
            self.pool.shutdown(wait=True, kill_workers=True)
            self.pool = None


def loky(tasks: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    """Tasks in ``jobs`` worker processes on this machine; several CUDA devices are dealt out in turn."""
    try:
        from joblib.externals.loky.process_executor import BrokenProcessPool
    except ImportError as error:
        raise ExperimentError("--jobs above 1 needs joblib: pip install 'bnnlib[sweep]'") from error
    waiting = _Waiting(tasks)
    free = [_Slot(number, tasks[0].threads) for number in range(min(jobs, len(tasks)))] if tasks else []
    slots = list(free)
    running: dict[Future, tuple[_Slot, Task, int]] = {}
    try:
        while waiting or running:
            while free and (ready := waiting.take()):
                slot, (task, tries) = free.pop(), ready
                running[slot.submit(task.on(_spread(task.device, slot.number)))] = (slot, task, tries)
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                slot, task, tries = running.pop(future)
                free.append(slot)
                try:
                    entry = future.result()
                except BrokenProcessPool:
                    slot.stop()
                    if tries < TRIES:
                        waiting.again(task, tries + 1)
                        continue
                    entry = failure(task, _DIED)
                yield from waiting.done(task, entry)
    finally:
        for slot in slots:
            slot.stop()


def _spread(device: str, number: int) -> str:
    return f"cuda:{number % torch.cuda.device_count()}" if device == "cuda" else device


def _sees(folder: str) -> bool:
    return Path(folder).is_dir()


def dask(tasks: Sequence[Task], jobs: int, scheduler: str | None) -> Iterator[Outcome]:
    """Tasks through a Dask scheduler: the one at this address, or a local one with ``jobs`` worker processes.

    Raises:
        ExperimentError: dask is not installed, the scheduler does not answer or has no workers.
    """
    try:
        import dask as settings
        from distributed import Client, KilledWorker, LocalCluster, WorkerPlugin, as_completed
    except ImportError as error:
        raise ExperimentError("--backend dask needs dask and distributed: pip install 'bnnlib[dist]'") from error

    class Shield(WorkerPlugin):
        """Ctrl-C reaches the workers of a local cluster too; only the runner answers it."""

        def setup(self, worker):
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    cluster = client = None
    running: dict[Any, tuple[Task, int]] = {}
    try:
        if scheduler is None:
            local = {
                "distributed.scheduler.allowed-failures": 0,  # the tries are counted here
                # Dask's own value hands memory back after every operation: a quarter of the time of small networks
                "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**30,
            }
            with settings.config.set(local):
                cluster = LocalCluster(
                    n_workers=jobs, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
                )
        try:
            address = cluster if cluster is not None else scheduler
            client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
            client.wait_for_workers(1, timeout=3 * CONNECT_SECONDS)
        except (OSError, TimeoutError, ValueError) as error:
            raise ExperimentError(
                f"no Dask scheduler with a worker answers at {scheduler or 'the local cluster'} ({error}). Start one "
                "with `dask scheduler` and its workers with `dask worker tcp://HOST:8786 --nthreads 1`, "
                "then give --scheduler tcp://HOST:8786"
            ) from error
        if cluster is not None:
            client.register_plugin(Shield())
        # a cluster on other machines may see no folder of ours: products then travel with the cells
        blind = scheduler is not None and not all(client.run(_sees, tasks[0].folder).values())
        waiting, suspects = _Waiting(tasks), deque()
        last = TRIES if scheduler is None else 2  # a scheduler of your own makes several tries before it gives up
        finished = as_completed(loop=client.loop)
        while waiting or suspects or running:
            # Dask blames a death on every cell that waits at that worker too. So no more cells are handed out than
            # there are workers, and the cells that were blamed are tried again one by one: only the guilty one fails
            while True:
                ready = waiting.take() if len(running) < max(1, len(client.nthreads())) else None
                if ready is None and suspects and not running:
                    ready = suspects.popleft()
                if ready is None:
                    break
                task, tries = ready
                key = f"{task.experiment}-{task.key}-{tries}"
                future = client.submit(execute, task.carrying() if blind else task, pure=False, key=key)
                running[future] = (task, tries)
                finished.add(future)
            future = next(finished)
            task, tries = running.pop(future)
            error = future.exception() if future.status == "error" else None
            if isinstance(error, KilledWorker) and tries < last:
                suspects.append((task, tries + 1))
            else:
                entry = failure(task, _DIED) if isinstance(error, KilledWorker) else future.result()
                yield from waiting.done(task, entry)
            future.release()  # the scheduler need not keep rows that are stored
    finally:
        if client is not None:
            client.cancel(list(running))
            client.close()
        if cluster is not None:
            cluster.close()
