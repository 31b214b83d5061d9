"""How a process starts that needs what takes seconds to import: forked from a server that has imported it once."""

import multiprocessing
import os
import threading
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


def end_with_parent() -> None:
    """Let this process end as soon as the one that started it has gone, however that went."""

    def wait() -> None:
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
