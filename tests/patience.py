"""Waiting by progress: on a loaded machine a test takes longer, and only one that stands still is given up."""

import subprocess
import time
from collections.abc import Callable

import psutil

# Polls of 50 ms in which no child got a tick of processor time: one that may run gets several, even at a load of 30.
_STILL = 6000


def wait_for(condition: Callable[[], object]) -> None:
    """Return when the condition holds; fail when the children of this process have stopped working without it."""
    still, before = 0, -1.0
    while not condition():
        now = _work()
        still = 0 if now != before else still + 1
        before = now
        assert still < _STILL, "gave up waiting: no child process works any more"
        time.sleep(0.05)


def outcome(process: subprocess.Popen) -> tuple[str, str]:
    """What `process.communicate()` returns, killed first if it and all other children stand still."""
    output: list[tuple[str, str]] = []

    def ended() -> bool:
        try:
            output.append(process.communicate(timeout=0.05))
        except subprocess.TimeoutExpired:
            return False
        return True

    try:
        wait_for(ended)
    except AssertionError:
        process.kill()
        raise
    return output[0]


def _work() -> float:
    """Processor time of all descendants so far, in seconds."""
    total = 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total
