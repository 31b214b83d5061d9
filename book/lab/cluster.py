"""The workers of a Dask cluster, started here or found at a scheduler's address."""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import dask
import torch
from distributed import Client, Future, KilledWorker, LocalCluster, WorkerPlugin, as_completed, get_worker
from distributed.utils import get_mp_context

from book import forks
from book.lab.cells import ExperimentError
from book.lab.worker import Task, execute, failure

TRIES = 3
CONNECT_SECONDS = 20.0


class _Shield(WorkerPlugin):
    """Ctrl-C reaches the workers of a local cluster too; only the runner answers it, and it ends them."""

    def setup(self, worker: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class Cluster:
    """Workers that compute a task each; one whose worker died is given to the next, up to `TRIES` times.

    Those of a local cluster live as long as this object and no longer than this process; another scheduler makes tries
    of its own number. A worker that does not see the cache's folder gets the products that a task needs with the task.

    Raises:
        ExperimentError: no scheduler with a worker answers.
    """

    def __init__(self, jobs: int, scheduler: str | None, folder: str) -> None:
        # what Dask's own loops say of connections that end with a run, as tracebacks
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        self._running: dict[Future, Task] = {}
        with ExitStack() as opened:
            self._answer = opened.enter_context(noted_interrupts())
            try:
                alarm = [signal.SIGALRM] if hasattr(signal, "SIGALRM") else []
                with forks.out_of_reach(*alarm) if scheduler is None else nullcontext():
                    address = _reachable(scheduler) if scheduler else opened.enter_context(_local(jobs))
                    self._client = opened.enter_context(Client(address, timeout=CONNECT_SECONDS, set_as_default=False))
                    self._client.wait_for_workers(1, timeout=3 * CONNECT_SECONDS)
            except (OSError, TimeoutError, ValueError) as error:
                raise ExperimentError(
                    f"no Dask scheduler with a worker answers at {scheduler or 'the local cluster'} ({error}). Start "
                    "one with `dask scheduler` and its workers with `dask worker tcp://HOST:8786 --nthreads 1`, "
                    "then give --scheduler tcp://HOST:8786"
                ) from error
            if scheduler is None:
                self._client.register_plugin(_Shield())
            self._sees = scheduler is None or all(self._client.run(os.path.isdir, folder).values())
            self._completed = as_completed(loop=self._client.loop)
            self._opened = opened.pop_all()

    def has_room(self) -> bool:
        """Whether a worker is free."""
        return len(self._running) < max(1, len(self._client.nthreads()))

    def start(self, task: Task) -> None:
        """Hand a task to a worker."""
        sent, key = task if self._sees else task.carrying(), "-".join(task.name)
        future = self._client.submit(_at_worker, sent, pure=False, key=key)
        self._running[future] = task
        self._completed.add(future)

    def finished(self) -> tuple[Task, dict[str, Any]]:
        """The next task that is finished, and its entry; what has interrupted meanwhile is raised here."""
        while not self._completed.has_ready():
            self._answer()
            time.sleep(0.02)
        future = next(self._completed)
        task = self._running.pop(future)
        try:
            return task, future.result()
        except KilledWorker as error:
            times = error.allowed_failures + 1
            return task, failure(
                task,
                f"the worker process died {times} times while it computed this cell; it was probably killed for lack "
                "of memory: use fewer --jobs, or fewer replicates in a cell",
            )
        except CancelledError as error:
            raise ExperimentError(
                "the Dask scheduler has gone; finished cells are kept, and the same command goes on"
            ) from error

    def close(self) -> None:
        """End the workers of a local cluster at once, others when they have finished their cells."""
        self._client.cancel(list(self._running))
        self._opened.close()


def _reachable(address: str) -> str:
    """The address, where something listens; a client that finds nobody there would go on trying behind our back.

    Raises:
        OSError: nobody listens.
        ValueError: it is no address.
    """
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if not parts.hostname or not parts.port:
        raise ValueError("it has no host and port")
    socket.create_connection((parts.hostname, parts.port), CONNECT_SECONDS).close()
    return address


@contextmanager
def noted_interrupts() -> Iterator[Callable[[], None]]:
    """Function that raises what Ctrl-C, a polite kill or an alarm would have raised when it came.

    Raised at once it may meet a destructor, of a future for one, where Python drops it and the run goes on. A second of
    the same kind is raised at once.
    """
    noted: list[int] = []

    def note(number: int, frame: Any) -> None:
        noted.append(number)
        if noted.count(number) > 1:
            before[number](number, frame)

    def answer() -> None:
        if noted:
            number = noted.pop()
            before[number](number, None)

    kinds = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGALRM") if hasattr(signal, name)]
    in_charge = threading.current_thread() is threading.main_thread()
    before: dict[int, Any] = {one: signal.getsignal(one) for one in kinds if in_charge}
    before = {number: handler for number, handler in before.items() if callable(handler)}
    for number in before:
        signal.signal(number, note)
    try:
        yield answer
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    answer()


@contextmanager
def _local(jobs: int) -> Iterator[LocalCluster]:
    method = {"distributed.worker.multiprocessing-method": forks.METHOD}
    with dask.config.set(method | {"distributed.scheduler.allowed-failures": TRIES - 1}):
        get_mp_context()  # which names what its own server imports, first
        forks.context(__name__, "torch._dynamo")  # the second at the first optimizer, else
        # without limits of memory, at which Dask would write rows to the disk, pause and kill workers
        options = {"threads_per_worker": 1, "processes": True, "memory_limit": 0, "silence_logs": 50}
        options["env"] = {**os.environ}
        port = {"dashboard_address": ":0"}  # of its pages: any that is free, in place of one that may not be
        cluster = LocalCluster(n_workers=jobs, dashboard_address=None, scheduler_kwargs=port, **options)
    with cluster:
        try:
            yield cluster
        finally:
            for nanny in cluster.workers.values():  # a polite end would wait for the cells under way
                nanny.auto_restart = False
                with suppress(ProcessLookupError, TypeError):  # it is gone already
                    os.kill(nanny.pid, signal.SIGKILL)


def _at_worker(task: Task) -> dict[str, Any]:
    return execute(replace(task, device=spread(task.device, get_worker().name)))


def spread(device: str, worker: Any) -> str:
    """Several CUDA devices are dealt out in turn to the workers of a local cluster, whose names are numbers."""
    count = torch.cuda.device_count() if device == "cuda" and isinstance(worker, int) else 0
    return f"cuda:{worker % count}" if count > 1 else device
