"""Ctrl-C in a terminal, and the death of the builder: nothing goes on, and the next build does."""

import contextlib
import os
import subprocess
import sys

import psutil
import pytest

from tests.patience import wait_for

pty = pytest.importorskip("pty")
pytestmark = pytest.mark.slow  # each test starts several kernels

WAIT = ("wait", "import time\ntime.sleep(3600)")
JOBS = 2


class Terminal:
    """A command that runs in a terminal of its own, as its foreground job."""

    def __init__(self, command: list[str], folder):
        import fcntl
        import termios

        self.master, slave = pty.openpty()
        options = dict.fromkeys(("stdin", "stdout", "stderr"), slave) | {"cwd": folder, "start_new_session": True}
        foreground = lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # noqa: E731
        self.process = subprocess.Popen(command, preexec_fn=foreground, **options)
        os.close(slave)
        os.set_blocking(self.master, False)
        self.said = ""

    def press(self, key: str) -> None:
        os.write(self.master, key.encode())

    def ended(self) -> bool:
        """Whether the command has ended; reads what it said, so that it never waits for a reader."""
        over = self.process.poll() is not None
        with contextlib.suppress(OSError):  # nothing to read, or nobody writes any more
            while more := os.read(self.master, 65536):
                self.said += more.decode(errors="replace")
        return over


@pytest.fixture
def building(scratch, make_counting):
    """A build that is done with one chapter, of more than jobs that wait for an hour, and all that it has started."""
    scratch.chapters(c0=make_counting("C0"), **{f"c{k}": make_counting(f"C{k}", WAIT) for k in range(1, 5)})
    terminal = Terminal([sys.executable, "-m", "book", "build", "--jobs", str(JOBS)], scratch.root)

    def under_way() -> bool:
        assert not terminal.ended(), f"the build ended by itself:\n{terminal.said}"
        return len(scratch.runs()) == 1 + JOBS

    wait_for(under_way)
    terminal.started = psutil.Process(terminal.process.pid).children(recursive=True)
    yield terminal
    for one in [terminal.process, *alive(terminal.started)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    terminal.process.wait()
    os.close(terminal.master)


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended; one that nobody has asked for its exit code has."""
    found = []
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if one.is_running() and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
    return found


def test_ctrl_c_ends_the_build_and_all_that_it_has_started(building, scratch, make_counting):
    assert len(alive(building.started)) >= 2 * JOBS  # a process and a kernel for each chapter that runs
    building.press("\x03")
    wait_for(building.ended)
    assert building.process.returncode == 130 and "the same command goes on" in building.said
    after = building.said.split("^C")[-1]
    assert not [line for line in after.splitlines() if "Error" in line or "Traceback" in line], after
    wait_for(lambda: not alive(building.started))
    assert len(scratch.runs()) == 1 + JOBS  # nor was another chapter begun

    scratch.chapters(**{f"c{k}": make_counting(f"C{k}") for k in range(5)})
    assert scratch.build(jobs=JOBS) == 0
    assert len(scratch.runs()) == 1 + JOBS + 4  # what was done is kept


def test_chapters_do_not_outlive_a_build_that_was_killed(building):
    building.process.kill()
    wait_for(lambda: not alive(building.started))
