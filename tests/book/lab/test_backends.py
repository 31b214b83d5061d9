"""The backends agree bit for bit, and none loses anything when a worker or the runner dies."""

from __future__ import annotations

import os
import platform
import signal
import threading

import pytest

from book import lab
from book.lab import load_result
from tests.patience import outcome, wait_for

pytestmark = pytest.mark.slow


def _fresh(tiny) -> None:
    for path in [*tiny.home.glob("cache/runs/*/*"), *tiny.home.glob("results/*"), tiny.log]:
        path.unlink(missing_ok=True)


@pytest.fixture
def cluster(tiny):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        yield cluster


def test_dask_scheduler_and_loky_and_serial_give_the_same_bits(tiny, cluster, monkeypatch):
    import tiny_experiments

    # cells that take a while make sure that both worker processes take part
    slow = tiny_experiments._cells("a b c d", seconds=0.5)
    monkeypatch.setitem(lab.get("tiny-good").profiles, "smoke", slow)
    lab.run("tiny-good", jobs=1)
    serial = tiny.rows_text("tiny-good")
    assert tiny.processes() == {os.getpid()}
    for options in ({"jobs": 2}, {"backend": "dask", "scheduler": cluster.scheduler_address}):
        _fresh(tiny)
        lab.run("tiny-good", **options)
        assert tiny.rows_text("tiny-good") == serial, options
        assert sum(tiny.started().values()) == 4
        assert len(tiny.processes()) == 2 and os.getpid() not in tiny.processes()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc that gives memory back")
@pytest.mark.parametrize("options", [{}, {"jobs": 2}, {"backend": "dask"}], ids=["serial", "loky", "dask"])
def test_a_worker_keeps_the_memory_that_a_cell_frees(tiny, options):
    if "backend" in options:
        pytest.importorskip("distributed")
    lab.run("tiny-hungry", **options)
    (row,) = load_result("tiny-hungry", "smoke")["rows"]
    assert row["value"] < 500  # of 5,120 pages of 4 kB a round; Dask tells its workers to give all of them back


@pytest.mark.parametrize("options", [{"backend": "loky"}, {"backend": "dask"}], ids=["loky", "dask"])
def test_a_killed_worker_costs_its_cell_only(tiny, options):
    lab.run("tiny-good")
    expected = tiny.rows_text("tiny-good")
    tiny.log.unlink()
    killed = []

    def kill() -> None:
        mark = tiny.log.with_suffix(".pid")
        wait_for(mark.exists)
        wait_for(lambda: len(tiny.started()) == 4)  # the other worker went through all the others meanwhile
        killed.append(int(mark.read_text()))
        os.kill(killed[0], signal.SIGKILL)

    helper = threading.Thread(target=kill)
    helper.start()
    lab.run("tiny-killed", jobs=2, **options)
    helper.join()
    assert killed and killed[0] != os.getpid()
    assert tiny.started() == {"a": 1, "b": 2, "c": 1, "d": 1}
    assert tiny.rows_text("tiny-killed") == expected


@pytest.mark.parametrize("backend", ["loky", "dask"])
def test_a_cell_that_always_kills_its_worker_fails_after_three_tries(tiny, backend):
    result = lab.run("tiny-dying", jobs=2, backend=backend)
    assert tiny.started() == {"a": 1, "b": 3, "c": 1, "d": 1}
    failed = [row for row in result["rows"] if row["metric"] == "error"]
    assert {row["setting"] for row in failed} == {"b"} and len(failed) == 2
    assert "died 3 times" in failed[0]["note"]
    assert result["provenance"]["cells"] == {"total": 4, "done": 3, "failed": 1}


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_after_kill_9_of_the_runner_only_what_was_not_finished_is_computed(tiny, jobs):
    lab.run("tiny-long")
    expected = tiny.rows_text("tiny-long")
    _fresh(tiny)

    process = tiny.start("run", "tiny-long", "--jobs", jobs)
    wait_for(lambda: (tiny.started()["b:9"] or tiny.started()["c:9"]) and list(tiny.home.glob("cache/runs/*/*.json")))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    workers = tiny.processes() - {process.pid}
    wait_for(lambda: not any(_alive(pid) for pid in workers))  # workers do not outlive their runner
    finished = len(list(tiny.home.glob("cache/runs/tiny-long/*.json")))
    assert 1 <= finished < 3

    code, _, err = tiny.call("run", "tiny-long", "--jobs", jobs)
    assert code == 0, err
    assert f"{finished} of 3 chosen ones are known" in err
    assert tiny.rows_text("tiny-long") == expected
    # 72 steps in all; the step that was being computed when each of the (at most two) workers died is repeated
    assert sum(tiny.started().values()) <= 72 + int(jobs)
    assert len(tiny.started()) == 72
    assert not list(tiny.home.glob("cache/runs/tiny-long/*checkpoint*"))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.mark.parametrize("how", [["--jobs", "1"], ["--jobs", "2"], ["--jobs", "2", "--backend", "dask"]])
def test_control_c_keeps_what_is_finished_and_says_how_to_go_on(tiny, how):
    process = tiny.start("run", "tiny-long", *how)
    wait_for(lambda: list(tiny.home.glob("cache/runs/tiny-long/*.json")))
    wait_for(lambda: sum(tiny.started().values()) > 30)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the runner and all its workers
    _, err = outcome(process)
    assert process.returncode == 130, err
    assert "of 3 cells are finished and stored; nothing is lost" in err
    assert "python -m book run tiny-long --profile smoke" in err.split("nothing is lost")[1]
    assert "Traceback" not in err
    assert '"total": 3' in tiny.result_text("tiny-long")

    lab.run("tiny-long")
    assert len(tiny.started()) == 72
    assert sum(tiny.started().values()) <= 72 + 2  # at most the step that each of two workers was in
    if "dask" not in how:  # a cluster may live on other machines, where the runner cannot tidy up
        assert not list(tiny.home.glob("**/*.tmp"))


def test_a_scheduler_that_does_not_answer_is_a_clear_error(tiny, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("book.lab.pools.CONNECT_SECONDS", 2.0)
    with pytest.raises(lab.ExperimentError, match=r"no Dask scheduler .*dask worker"):
        lab.run("tiny-good", backend="dask", scheduler="tcp://127.0.0.1:9")
