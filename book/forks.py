"""How a process starts that needs what takes seconds to import: forked from a server that has imported it once."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing import resource_tracker
from multiprocessing.context import BaseContext

# Forked from this process they would hold its threads and locks in a bad state; from a fresh interpreter they are late.
METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


def context(*modules: str) -> BaseContext:
    """The way to start processes; a server, if there is none yet in this process, imports the modules first.

    The server keeps the environment and the folder of its start: hand over what has changed since.
    """
    found = multiprocessing.get_context(METHOD)
    if METHOD == "forkserver":
        found.set_forkserver_preload(list(modules))
    return found


def hold_back(*signals: int) -> set | None:
    """Hold back signals from now on; the mask of before, None where there is none, as on a system that is not POSIX."""
    return signal.pthread_sigmask(signal.SIG_BLOCK, signals) if hasattr(signal, "pthread_sigmask") else None


@contextlib.contextmanager
def out_of_reach(*signals: int) -> Iterator[None]:
    """Start processes that do not hear Ctrl-C, which a terminal sends to all, or other signals: the parent answers.

    A process inherits what its parent's thread holds back; a handler it would not. To ignore the signal would not be
    enough: nbclient takes it for itself, and its kernels die noisily.
    """
    if hasattr(signal, "pthread_sigmask"):
        resource_tracker.ensure_running()  # whose first start would let them through again
    before = hold_back(signal.SIGINT, *signals)
    try:
        yield
    finally:
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent() -> None:
    """Let this process end as soon as the one that started it has gone, however that went."""

    def wait() -> None:
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
