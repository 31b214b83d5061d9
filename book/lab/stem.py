"""A process that has imported what is slow to import, and of which every command is a fork.

To import PyTorch takes longer than most tests of one module. The stem imports nothing of the tree that it stands in, so
that each fork reads its modules as they are then.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

SLOW = ("numpy", "torch", "scipy.stats", "sklearn.datasets")
_STEM = """
import contextlib, importlib, json, os, sys, traceback
import pytest
for name in sys.argv[1:]:
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
for line in sys.stdin:
    path, environment, code, arguments = json.loads(line)
    child = os.fork()
    if not child:
        status = 1
        try:
            os.setsid()
            file = os.open(path, os.O_WRONLY | os.O_CREAT)
            for number in (1, 2):
                os.dup2(file, number)
            os.environ |= environment
            sys.argv = ["-c", *arguments]
            if code:
                exec(compile(code, "<command>", "exec"), {"__name__": "__main__"})
                status = 0
            else:
                status = int(pytest.main(arguments))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Stem:
    """The process, in a folder.

    Args:
        root: where it works; modules are found there first.
        environment: of the process, beside this one's.
    """

    def __init__(self, root: Path, environment: dict[str, str]) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        command = [sys.executable, "-c", _STEM, *SLOW]
        environment = {**os.environ, "PYTHONPATH": str(root), **environment}
        self.process = subprocess.Popen(command, cwd=root, env=environment, bufsize=0, **pipes)

    def close(self) -> None:
        """End it."""
        self.process.communicate()

    def call(self, limit: float, code: str, *arguments: str, **environment: str) -> tuple[int | None, str]:
        """Run a program, or pytest where there is none, in a fork.

        Args:
            limit: in seconds.
            code: of the program, "" for pytest.
            arguments: of the command.
            environment: of the fork.

        Returns:
            Exit code, None after the limit, and what was printed.
        """
        with tempfile.NamedTemporaryFile() as file:
            line = json.dumps([file.name, environment, code, arguments]) + "\n"
            self.process.stdin.write(line.encode())
            child = int(self.process.stdout.readline())
            late = not select.select([self.process.stdout], [], [], limit)[0]
            if late:
                os.killpg(child, signal.SIGKILL)
            status = int(self.process.stdout.readline())
            return (None if late else status), Path(file.name).read_text(errors="replace")
