"""Download one file from several sources: retry, resume, check, and put it in place in one step.

Only the standard library is used. A file appears under its final name when it is complete and verified, never before;
an interrupted download leaves a `.part` file in `.download/` from which the next attempt resumes.
"""

import http.client
import os
import shutil
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from bnnlib.datasets.errors import DownloadError

TRANSIENT_STATUS = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class Policy:
    """How patient a download is: attempts without progress, first pause and silence allowed (seconds)."""

    attempts: int = 4
    backoff: float = 1.0
    timeout: float = 30.0


POLICY = Policy()


class _SourceError(Exception):
    """This source will not do; go on with the next."""


class _Retry(Exception):
    """Worth another attempt at the same source."""

    def __init__(self, reason: str, *, attempts: int | None = None, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.attempts, self.wait = attempts, wait


def download(
    urls: list[str],
    target: Path,
    *,
    check: Callable[[Path], str | None],
    size: int | None = None,
    progress: bool = True,
    policy: Policy | None = None,
) -> None:
    """Download `target` from the first source that delivers what `check` accepts: it returns None or what is wrong.

    A file that fails is deleted. `size` is in bytes, about: anything over twice as much is refused.
    """
    problems = []
    for url in urls:
        # One part per address: two hosts may compress the same content differently, so bytes must not be mixed.
        part = target.parent / ".download" / f"{target.name}.{sha256(url.encode()).hexdigest()[:8]}.part"
        try:
            _deliver(url, part, check, size, progress, policy or POLICY)
            os.replace(part, target)
            return
        except _SourceError as error:
            problems.append(f"{url}: {error}")
        except OSError as error:
            raise DownloadError(
                f"{target} could not be written: {error.strerror or error}. Free some space or set BNNLIB_DATA to a "
                "folder on another disk; what was already downloaded is kept and will be resumed."
            ) from error
    tried = "\n".join(f"  - {problem}" for problem in problems) or "  (the registry lists none)"
    raise DownloadError(f"{target.name} could not be downloaded. Sources tried:\n{tried}")


def _deliver(url: str, part: Path, check, size: int | None, progress: bool, policy: Policy) -> None:
    part.parent.mkdir(parents=True, exist_ok=True)
    while True:
        resumed = _complete(url, part, size, progress, policy)
        fault = check(part)
        if fault is None:
            return
        with part.open("rb") as stream:
            if stream.read(512).lstrip().lower().startswith((b"<!doctype html", b"<html")):
                fault += " (it is a web page: a proxy or a login page may be answering in place of the server)"
        part.unlink()
        # A part that another version of the file had left behind is no proof against the source: start over once.
        if not resumed:
            raise _SourceError(f"{fault}; the file was deleted")


def _complete(url: str, part: Path, size: int | None, progress: bool, policy: Policy) -> bool:
    """Fill `part` to its end; return whether some of it came from an earlier attempt."""
    resumed, failures, furthest = False, 0, _size(part)
    while True:
        have = _size(part)
        try:
            return _transfer(url, part, have, size, progress, policy.timeout) > 0 or resumed
        except _Retry as error:
            # Attempts count only while nothing new arrives: a slow line that breaks often still gets there.
            bytes_here = _size(part)
            failures = 1 if bytes_here > furthest else failures + 1
            resumed, furthest = bytes_here > 0, max(bytes_here, furthest)
            if failures >= (error.attempts or policy.attempts):
                raise _SourceError(f"{error} ({failures} attempts)") from None
            time.sleep(max(policy.backoff * 2 ** (failures - 1), min(error.wait, 60.0)))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _open(url: str, have: int, timeout: float):
    if urlsplit(url).scheme not in ("http", "https"):
        raise _SourceError("only http and https addresses are allowed")
    headers = {"User-Agent": "bnnlib-datasets", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    # A new opener each time, so that proxies set after the first download are respected.
    opener = urllib.request.build_opener()
    try:
        return opener.open(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code == 416:
            return error
        reason = f"HTTP {error.code} {error.reason}"
        if error.code in TRANSIENT_STATUS:
            after = error.headers.get("Retry-After", "")
            raise _Retry(reason, wait=float(after) if after.isdigit() else 0.0) from None
        raise _SourceError(reason) from None
    except urllib.error.URLError as error:
        cause = error.reason
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise _SourceError(f"its certificate is not trusted: {cause.verify_message}") from None
        # Without a name or a route a long wait rarely helps: the user is most likely offline.
        offline = isinstance(cause, socket.gaierror | ConnectionRefusedError)
        raise _Retry(f"no connection: {cause}", attempts=2 if offline else None) from None
    except (OSError, http.client.HTTPException) as error:
        raise _Retry(f"no answer: {error or type(error).__name__}") from None


def _range_total(response) -> tuple[int | None, int | None]:
    """(first byte, total) of a Content-Range header such as `bytes 5-9/10` or `bytes */10`."""
    span, _, total = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
    first = span.partition("-")[0]
    return int(first) if first.isdigit() else None, int(total) if total.isdigit() else None


def _transfer(url: str, part: Path, have: int, size: int | None, progress: bool, timeout: float) -> int:
    """One request; returns the offset at which it started."""
    with _open(url, have, timeout) as response:
        first, total = _range_total(response)
        if response.status == 416:
            if total == have:
                return have
            part.unlink(missing_ok=True)
            raise _Retry("the partial file did not fit the server's")
        start = have if response.status == 206 else 0
        if response.status == 206 and first != have:
            part.unlink(missing_ok=True)
            raise _Retry("the server resumed at another place than asked")
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdigit() else None
        limit = 2 * size + (1 << 20) if size else None
        if limit and (total or 0) > limit:
            raise _SourceError(f"it offers {total} bytes where about {size} are expected")
        if total and shutil.disk_usage(part.parent).free < total - start:
            raise DownloadError(
                f"{url} needs {total - start} bytes and the disk of {part.parent} has less. "
                "Free some space or set BNNLIB_DATA to a folder on another disk."
            )
        received = start
        with part.open("ab" if start else "wb") as stream, _progress(url, total or size, start, progress) as advance:
            try:
                while chunk := _read(response):
                    stream.write(chunk)
                    received += len(chunk)
                    advance(len(chunk))
                    if limit and received > limit:
                        break
            finally:
                stream.flush()
            os.fsync(stream.fileno())
        if limit and received > limit:
            part.unlink()
            raise _SourceError(f"it sent more than {limit} bytes where about {size} are expected")
        if total is not None and received != total:
            raise _Retry(f"the connection broke after {received} of {total} bytes")
        return start


def _read(response) -> bytes:
    try:
        return response.read1(1 << 18)
    except (OSError, http.client.HTTPException) as error:
        raise _Retry(f"the connection broke: {error or type(error).__name__}") from None


@contextmanager
def _progress(url: str, total: int | None, start: int, enabled: bool) -> Iterator[Callable[[int], object]]:
    if not enabled:
        yield lambda count: None
        return
    name = urlsplit(url).path.rsplit("/", 1)[-1]
    if sys.stderr.isatty():
        try:
            from tqdm import tqdm
        except ImportError:
            pass
        else:
            with tqdm(total=total, initial=start, desc=name, unit="B", unit_scale=True, file=sys.stderr) as bar:
                yield bar.update
            return
    amount = f" ({total / 1e6:.1f} MB)" if total else ""
    resumed = f", resumed at {start / 1e6:.1f} MB" if start else ""
    print(f"downloading {name}{amount} from {urlsplit(url).netloc}{resumed}", file=sys.stderr)
    yield lambda count: None


@contextmanager
def lock(path: Path, what: str) -> Iterator[None]:
    """Hold a lock among processes, waiting for whoever has it; the system releases it if the holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as stream:
        if not _try_lock(stream):
            print(f"another process is downloading {what}; waiting for it", file=sys.stderr)
            while not _try_lock(stream):
                time.sleep(0.1)
        yield


def _try_lock(stream) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if sys.platform != "win32" and not isinstance(error, BlockingIOError):
            raise
        return False
    return True
