"""The download against a local server that breaks, lies and refuses."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bnnlib.datasets import DownloadError, fetch, registry
from bnnlib.datasets.download import Policy, download, lock
from tests.bnnlib.datasets.files import HEAD, digest
from tests.patience import wait_for

BODY = bytes(range(256)) * 4000  # 1 MB, no two neighboring bytes alike, so that a wrong offset shows


def check(path: Path) -> str | None:
    return None if path.read_bytes() == BODY else "the content is wrong"


def get(site, target, *paths, **options):
    download([site.url + path for path in paths], target, check=check, size=len(BODY), progress=False, **options)


RESUMED = [("/a", None), *(("/a", f"bytes={start}-") for start in range(100_000, 1_000_001, 100_000))]


@pytest.mark.parametrize(
    ("server", "requests"),
    [
        ({}, [("/a", None)]),
        ({"break_after": {"/a": [300_000, 200_000]}}, [("/a", None), ("/a", "bytes=300000-"), ("/a", "bytes=500000-")]),
        # more breaks than attempts are allowed, but each attempt makes progress
        ({"break_after": {"/a": [100_000] * 10}}, RESUMED),
        ({"break_after": {"/a": [500_000]}, "ignore_range": True}, [("/a", None), ("/a", "bytes=500000-")]),
        ({"status": {"/a": [503, 429]}}, [("/a", None)] * 3),
        ({"pages": {"/b": BODY}}, [("/a", None), ("/b", None)]),  # 404 is not tried again
        ({"pages": {"/a": BODY[::-1], "/b": BODY}}, [("/a", None), ("/b", None)]),
    ],
    ids=["whole", "broken", "keeps breaking", "without ranges", "busy", "missing", "wrong content"],
)
def test_file_appears_complete_and_without_leftovers(site, tmp_path, server, requests):
    for name, value in ({"pages": {"/a": BODY}} | server).items():
        setattr(site, name, value)
    get(site, tmp_path / "a", "/a", "/b")
    assert (tmp_path / "a").read_bytes() == BODY and site.requests == requests
    assert list((tmp_path / ".download").iterdir()) == []


@pytest.mark.parametrize(
    ("left", "requests"),
    [(BODY, ["bytes=1024000-"]), (BODY[:400_000], ["bytes=400000-"]), (b"x" * 1000, ["bytes=1000-", None])],
    ids=["complete", "a part", "stale"],
)
def test_a_part_that_was_left_is_used_or_thrown_away(site, tmp_path, left, requests):
    site.pages["/a"] = BODY
    part = tmp_path / ".download" / f"a.{digest((site.url + '/a').encode())[:8]}.part"
    part.parent.mkdir()
    part.write_bytes(left)
    get(site, tmp_path / "a", "/a")
    assert (tmp_path / "a").read_bytes() == BODY
    assert site.requests == [("/a", span) for span in requests]


def test_truncated_every_time_without_resume_is_an_error(site, tmp_path):
    site.pages["/a"], site.ignore_range = BODY, True
    site.break_after["/a"] = [1000] * 10
    with pytest.raises(DownloadError, match="broke after 1000 of 1024000 bytes"):
        get(site, tmp_path / "a", "/a")
    assert not (tmp_path / "a").exists()
    # The first attempt brings something new, the next two only the same bytes: three in a row is where it stops.
    assert len(site.requests) == 3


def test_every_source_wrong_lists_each_and_leaves_nothing(site, tmp_path):
    site.pages |= {"/bad": BODY[::-1], "/page": b"<!DOCTYPE html><title>Sign in</title>"}
    with pytest.raises(DownloadError) as caught:
        get(site, tmp_path / "a", "/bad", "/page", "/gone")
    message = str(caught.value)
    assert f"{site.url}/bad: the content is wrong; the file was deleted" in message
    assert "web page" in message and "HTTP 404" in message
    assert not (tmp_path / "a").exists() and list((tmp_path / ".download").iterdir()) == []


def test_far_too_large_file_is_refused_before_it_is_read(site, tmp_path):
    site.pages["/a"] = BODY * 4
    with pytest.raises(DownloadError, match="offers 4096000 bytes where about 1024000"):
        get(site, tmp_path / "a", "/a")


def test_no_network_fails_soon_and_says_so(site, tmp_path, monkeypatch):
    # The reserved domain .invalid never resolves, and port 9 of this machine refuses.
    pauses = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    with pytest.raises(DownloadError) as caught:
        download(["http://data.invalid/a", "http://127.0.0.1:9/a"], tmp_path / "a", check=check, progress=False)
    assert str(caught.value).count("no connection") == 2
    assert sum(pauses) < 5


def test_silent_server_times_out(site, tmp_path):
    site.pages["/a"], site.silent = BODY, True
    with pytest.raises(DownloadError, match="timed out"):
        get(site, tmp_path / "a", "/a", policy=Policy(attempts=1, backoff=0.01, timeout=0.1))


def test_only_http_addresses(tmp_path):
    (tmp_path / "secret").write_bytes(BODY)
    with pytest.raises(DownloadError, match="only http and https"):
        download([(tmp_path / "secret").as_uri()], tmp_path / "a", check=check, progress=False)


def test_full_disk_is_named_and_keeps_the_part(site, tmp_path, monkeypatch):
    site.pages["/a"] = BODY

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DownloadError, match=r"No space left on device.*BNNLIB_DATA"):
        get(site, tmp_path / "a", "/a")
    assert not (tmp_path / "a").exists() and len(list((tmp_path / ".download").iterdir())) == 1


def test_interrupt_keeps_what_has_arrived(site, tmp_path, monkeypatch):
    site.pages["/a"] = BODY
    read, calls = sys.modules["bnnlib.datasets.download"]._read, []

    def interrupted(response):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return read(response)

    monkeypatch.setattr("bnnlib.datasets.download._read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        get(site, tmp_path / "a", "/a")
    monkeypatch.undo()
    [part] = (tmp_path / ".download").iterdir()
    assert 0 < part.stat().st_size < len(BODY) and BODY.startswith(part.read_bytes())
    assert not (tmp_path / "a").exists()


def test_progress_goes_to_stderr(site, tmp_path, capsys):
    site.pages["/a"] = BODY
    download([f"{site.url}/a"], tmp_path / "a", check=check)
    captured = capsys.readouterr()
    assert captured.out == "" and "downloading a (1.0 MB) from 127.0.0.1" in captured.err


PROJECT = Path(__file__).resolve().parents[3]
OTHER = """
import sys
from pathlib import Path
from bnnlib.datasets import fetch, registry
print([name for name in ("sklearn", "PIL", "matplotlib") if name in sys.modules], flush=True)
sys.stdin.readline()
registry.REGISTRY = Path(sys.argv[1])
fetch("tiny", sys.argv[2])
"""


@pytest.mark.slow
def test_two_processes_download_once(site, use_registry, capsys, monkeypatch):
    # The server keeps the first process, which has the lock, waiting until the second one has found it taken.
    site.pages["/data.npy"], site.silent = BODY, True
    root = use_registry(
        f'[tiny]\n{HEAD}reader = "logistic"\ntask = "classification"\nfolder = "tiny"\n'
        f'sources = ["{site.url}/{{file}}"]\n'
        f'files = [{{ path = "data.npy", size = {len(BODY)}, sha256 = "{digest(BODY)}" }}]\n'
    )
    command = [sys.executable, "-c", OTHER, str(registry.REGISTRY), str(root)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=PROJECT) as other:
        # It has imported and is ready. The extras are imported by the functions that need them only.
        assert other.stdout.readline() == "[]\n"
        other.stdin.write("\n")
        other.stdin.flush()
        wait_for(lambda: site.requests)
        sleep = time.sleep
        monkeypatch.setattr(time, "sleep", lambda seconds: (site.closing.set(), sleep(seconds)))
        # Who waits for the lock asks the server for nothing, so that this limit is for a lock that does not hold.
        monkeypatch.setattr("bnnlib.datasets.download.POLICY", Policy(attempts=1, timeout=5.0))
        try:
            fetch("tiny")
        finally:
            site.closing.set()
        errors = other.communicate()[1] + capsys.readouterr().err
    assert other.returncode == 0, errors
    assert [path for path, _ in site.requests] == ["/data.npy"]
    assert (root / "tiny" / "data.npy").read_bytes() == BODY
    assert errors.count("another process is downloading Small") == 1


def test_lock_of_a_dead_process_is_free(tmp_path, capsys):
    # The package is put together by hand, so that the child need not wait for torch.
    code = """
import os, sys, types
from pathlib import Path
package = types.ModuleType("bnnlib.datasets")
package.__path__ = [str(Path("bnnlib", "datasets"))]
sys.modules["bnnlib.datasets"] = package
from bnnlib.datasets.download import lock
with lock(Path(sys.argv[1]), "it"):
    os._exit(9)
"""
    path = tmp_path / ".download" / "it.lock"
    assert subprocess.run([sys.executable, "-c", code, str(path)], cwd=PROJECT).returncode == 9
    with lock(path, "it"):
        pass
    assert "waiting" not in capsys.readouterr().err
