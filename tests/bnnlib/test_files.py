"""Files that killed processes leave half-written, and who may remove them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bnnlib._files import _MACHINE, remove_unfinished, write_atomic
from bnnlib.train import Checkpoint

WRITER = """
import os, sys, time
from bnnlib._files import write_atomic

def hang(handle):
    print("writing", flush=True)
    time.sleep(600)

os.fsync = hang
write_atomic(sys.argv[1], b"half")
"""


@pytest.fixture
def writer(tmp_path, root):
    """A process that is in the middle of writing `run.pt`."""
    command = [sys.executable, "-c", WRITER, str(tmp_path / "run.pt")]
    environment = os.environ | {"PYTHONPATH": str(root)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as one:
        assert one.stdout.readline() == "writing\n"
        yield one
        one.kill()


def unfinished(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob(".*"))


@pytest.mark.skipif(os.name != "posix", reason="nothing can be killed as with kill -9 here")
def test_what_kill_9_leaves_is_removed_by_the_next_start_and_nothing_of_a_living_writer(writer, tmp_path):
    path, others = tmp_path / "run.pt", tmp_path / "other"
    (left,) = unfinished(tmp_path)
    write_atomic(path, b"whole")
    Checkpoint(path)
    assert unfinished(tmp_path) == [left]  # its writer lives
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    write_atomic(others, b"whole")
    assert unfinished(tmp_path) == [left]  # another target's
    Checkpoint(path)
    assert unfinished(tmp_path) == [] and path.read_bytes() == b"whole"


def test_writing_removes_it_too(writer, tmp_path):
    writer.kill()
    writer.wait()
    assert unfinished(tmp_path)
    write_atomic(tmp_path / "run.pt", b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.pt"]


def test_a_file_of_another_machine_goes_when_it_is_an_hour_old(tmp_path):
    process = os.getpid()
    names = [f".run.pt.elsewhere_{process}_ab_c.tmp", f".run.pt.{_MACHINE}-2_{process}_abc.tmp", ".run.pt.abc.tmp"]
    kept = [f".run.pt.{_MACHINE}_{process}_abc.tmp", ".run.pt.best.abc.tmp", ".my.run.pt.abc.tmp", ".run.pt.tmp"]
    for name in names + kept:
        (tmp_path / name).write_bytes(b"half")
    remove_unfinished(tmp_path / "run.pt")
    assert unfinished(tmp_path) == sorted(names + kept)
    for name in names + kept:
        os.utime(tmp_path / name, (0, 0))
    remove_unfinished(tmp_path / "run.pt")
    assert unfinished(tmp_path) == sorted(kept)  # a living writer's, and other targets'


def test_names_are_taken_literally_and_folders_may_be_missing(tmp_path):
    old = tmp_path / ".a.b.tmp"
    old.write_bytes(b"half")
    os.utime(old, (0, 0))
    remove_unfinished(tmp_path / "[a]")
    remove_unfinished(tmp_path / "missing" / "run.pt")
    assert old.exists()
    write_atomic(tmp_path / "[a]", b"whole")
    assert (tmp_path / "[a]").read_bytes() == b"whole"
