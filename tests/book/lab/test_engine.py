"""Rows are the same bits wherever cells run, and nothing is lost or done twice when a worker or the runner dies."""

import os
import platform
import signal
import subprocess
import sys
from collections import Counter

import psutil
import pytest

from book import forks, lab
from book.lab import StoreError, catalog, load_result
from book.lab.all_experiments import run_all
from book.lab.plan import Plan
from tests.patience import outcome, wait_for

distributed = pytest.importorskip("distributed")
from book.lab.cluster import _local, noted_interrupts  # noqa: E402 - needs Dask

pytestmark = pytest.mark.slow


def _fresh(tiny) -> None:
    for path in [*tiny.home.glob("cache/runs/*/*"), *tiny.home.glob("results/*"), tiny.log]:
        path.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def cluster():
    """Two workers that any program may use by their scheduler's address."""
    with _local(2) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture
def address(cluster, tiny, tmp_path_factory) -> str:
    """The scheduler's; its workers know the small experiments, and stand in another folder."""
    cluster.run(_stand, str(tmp_path_factory.mktemp("elsewhere")), dict(os.environ), sys.path)
    return cluster.scheduler.address


def _stand(folder: str, environment: dict[str, str], path: list[str]) -> None:
    os.chdir(folder)
    os.environ.update(environment)
    sys.path[:] = path


def test_there_are_as_many_workers_as_jobs_and_not_as_processors():
    jobs = 3 if os.cpu_count() != 3 else 2
    with _local(jobs) as cluster:
        assert len(cluster.workers) == jobs


def test_one_process_and_two_and_workers_elsewhere_give_the_same_bits(tiny, address, monkeypatch):
    names = ["tiny-arrays", "tiny-good", "tiny-needs"]
    table = catalog.table
    monkeypatch.setattr(catalog, "table", lambda: {name: one for name, one in table().items() if name in names})
    # a folder that exists where the runner stands: workers elsewhere do not see it, entries and products travel
    monkeypatch.chdir(tiny.home)
    monkeypatch.setenv("BNNLIB_HOME", ".")
    run_all("smoke")
    expected, once = {name: tiny.rows_text(name) for name in names}, tiny.started()
    assert tiny.processes() == {os.getpid()}
    for options in ({"jobs": 2}, {"scheduler": address}):
        _fresh(tiny)
        assert {row["state"] for row in run_all("smoke", **options)} == {"done"}
        assert {name: tiny.rows_text(name) for name in names} == expected and tiny.started() == once
        assert os.getpid() not in tiny.processes() and len(tiny.processes()) == 2
        ends, *users = map(tiny.order().index, ("network:ends", "first", "second"))
        assert ends < min(users)
        assert len(lab.load_arrays("tiny-arrays", "smoke")) == 2
        assert len(list(tiny.home.glob("cache/runs/tiny-needs/*.product.pt"))) == 1


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc that gives memory back")
def test_a_worker_keeps_the_memory_that_a_cell_frees(tiny, address):
    lab.run("tiny-hungry", scheduler=address)
    (row,) = load_result("tiny-hungry", "smoke")["rows"]
    assert row["value"] < 500  # of 5,120 pages of 4 kB a round; Dask tells its workers to give all of them back


def test_a_killed_worker_costs_its_cell_only_and_one_that_kills_every_worker_fails(tiny):
    expected = [row for row in lab.run("tiny-good")["rows"] if row["setting"] != "d"]
    tiny.log.unlink()
    result = lab.run("tiny-deadly", jobs=2)
    assert tiny.started() == {"a": 1, "b": 2, "c": 1, "d": 3}
    assert [row for row in result["rows"] if row["setting"] != "d"] == expected
    failed = [row for row in result["rows"] if row["metric"] == "error"]
    assert [row["setting"] for row in failed] == ["d", "d"] and "died 3 times" in failed[0]["note"]
    assert result["provenance"]["cells"] == {"total": 4, "done": 3, "failed": 1}


def test_what_a_worker_cannot_write_is_a_plain_error_and_the_finished_cells_are_kept(tiny, address):
    folder, task = tiny.home / "cache" / "runs" / "tiny-good", Plan("tiny-good", "smoke", "cpu").tasks[2]
    (folder / f"{task.key}.json").mkdir()  # no file can take its place
    with pytest.raises(StoreError, match=r"could not be written .*finished cells are not computed again"):
        lab.run("tiny-good", scheduler=address)
    stored = {one["cell"]["setting"] for one in load_result("tiny-good", "smoke")["cells"]}
    assert stored and stored < {"a", "b", "d"} | {"c"} and "c" not in stored
    (folder / f"{task.key}.json").rmdir()
    assert len(lab.run("tiny-good", scheduler=address)["cells"]) == 4
    assert tiny.started() == {"a": 1, "b": 1, "c": 2, "d": 1}


@pytest.mark.parametrize(
    ("how", "where"),
    [
        ("SIGKILL", "two processes"),  # which die with their runner
        ("SIGINT", "here"),
        ("SIGINT", "two processes"),  # which hear it, too
        ("SIGALRM", "by address"),  # whose workers are none of the runner's
    ],
)
def test_a_run_that_is_ended_goes_on_where_it_was(tiny, address, monkeypatch, capsys, how, where):
    """By a kill, by Ctrl-C or by its budget's alarm, while a worker is in the middle of a cell."""
    how = signal.Signals[how]
    lab.run("tiny-long")
    expected, once = tiny.rows_text("tiny-long"), tiny.started()
    assert len(once) == sum(once.values()) == 24
    _fresh(tiny)
    monkeypatch.setenv("TINY_ONLY", "tiny-long")
    held = tiny.log.with_suffix(".held")
    held.touch()
    workers = {"here": [], "two processes": ["--jobs", "2"], "by address": ["--scheduler", address]}[where]
    process = tiny.start("run", "--all", "--profile", "smoke", "--budget", "1h", *workers)
    finished = 1 if where == "here" else 2
    wait_for(lambda: tiny.started()["b:5"] and len([*tiny.home.glob("cache/runs/tiny-long/*.json")]) == finished)
    children = psutil.Process(process.pid).children(recursive=True)
    # Ctrl-C and a kill reach the whole process group
    os.kill(process.pid, how) if how == signal.SIGALRM else os.killpg(process.pid, how)
    _, err = outcome(process)
    wait_for(lambda: not any(child.is_running() for child in children))  # workers do not outlive their runner
    held.unlink()
    assert "Traceback" not in err
    if how != signal.SIGKILL:
        assert process.returncode == (130 if how == signal.SIGINT else 0), err
        assert f"interrupted: {finished} of 3 cells are finished and stored; nothing is lost" in err
        assert "python -m book run --all --profile smoke" in err.split("nothing is lost")[1]
        assert ("the budget of 60m is spent" in err) == (how == signal.SIGALRM)
        assert len(load_result("tiny-long", "smoke")["cells"]) == finished
    lab.run("tiny-long", scheduler=address if where == "by address" else None)
    assert tiny.rows_text("tiny-long") == expected
    # the step that was under way is done again, unless its worker, which is none of the runner's, has gone on with it
    assert tiny.started() == once + Counter({} if where == "by address" else {"b:5": 1})
    assert not list(tiny.home.glob("cache/runs/tiny-long/*checkpoint*")) and not list(tiny.home.glob("**/*.tmp"))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGALRM])
def test_an_interrupt_inside_a_destructor_is_heard(kind):
    """Python drops what a signal's handler raises there."""

    class Deaf:
        def __del__(self):
            signal.raise_signal(kind)

    before = signal.signal(kind, signal.default_int_handler)
    try:
        Deaf()  # nothing is raised, whatever the handler does
        with noted_interrupts() as answer:
            Deaf()
            with pytest.raises(KeyboardInterrupt):
                answer()
            answer()  # once is enough
        with pytest.raises(KeyboardInterrupt), noted_interrupts():
            signal.raise_signal(kind)
            signal.raise_signal(kind)  # who asks twice does not want to wait
            raise AssertionError("the second is not raised at once")
        with pytest.raises(KeyboardInterrupt), noted_interrupts():
            signal.raise_signal(kind)  # which nobody asked for until the end
        assert signal.getsignal(kind) is signal.default_int_handler
    finally:
        signal.signal(kind, before)


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="a system that cannot hold signals back")
def test_an_interrupt_at_the_start_is_noted_and_does_not_reach_what_is_started():
    asks = "from signal import *; print({SIGINT, SIGALRM} <= pthread_sigmask(SIG_BLOCK, []))"
    started = []
    with pytest.raises(KeyboardInterrupt), noted_interrupts() as answer:
        with forks.out_of_reach(signal.SIGALRM):
            os.kill(os.getpid(), signal.SIGINT)
            started.append(subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True).stdout)
        answer()
    assert started == ["True\n"]
