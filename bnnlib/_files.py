"""Files that no interruption, crash or full disk can damage."""

import contextlib
import errno
import hashlib
import os
import platform
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_MACHINE = re.sub("[^0-9A-Za-z]+", "-", platform.node())  # without what parts a temporary file's name
_DIGEST = hashlib.sha256().digest_size
_LONGEST = 3600.0  # seconds: longer than any file takes to write


class StoreError(RuntimeError):
    """A result could not be read or written; the message says what is still intact and what to do."""


def write_atomic(path: Path, content: bytes | Callable[[IO[bytes]], object]) -> None:
    """Replace a file by new content, or by what a function writes to it, or leave it exactly as it was.

    The content goes to a temporary file in the same folder, is forced to the disk, and only then takes the name. Those
    that killed processes left beside it are removed.
    """
    path = Path(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_unfinished(path)
        prefix = f".{path.name}.{_MACHINE}_{os.getpid()}_"
        handle, temporary = tempfile.mkstemp(prefix=prefix, suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content) if isinstance(content, bytes) else content(file)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)  # mkstemp makes 0600, which a committed or shared file should not have
            os.replace(temporary, path)
            temporary = None
        finally:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
    except OSError as error:
        size = f" ({len(content):,} bytes)" if isinstance(content, bytes) else ""
        reason = "the disk is full" if error.errno in _FULL else (error.strerror or str(error))
        raise StoreError(
            f"{path.name}{size} could not be written to the folder '{path.parent.name}': {reason}. "
            "What was stored before is untouched. Free some space (or set BNNLIB_HOME to a folder with space) "
            "and give the same command again: finished cells are not computed again."
        ) from error


class DamagedFileError(ValueError):
    """A file is not what it should be, or not as it was written.

    Example:
        >>> import tempfile
        >>> from bnnlib.estimators import SparseRegressor
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     try:
        ...         SparseRegressor.load(file.name)
        ...     except DamagedFileError:
        ...         print("nothing was read")
        nothing was read
    """


def sealed(head: bytes, body: bytes) -> bytes:
    """A file's content: a line that says what it is, a checksum of the rest, the rest."""
    return head + hashlib.sha256(body).digest() + body


def unsealed(path: Path, head: bytes, what: str, remedy: str) -> bytes:
    """The body of what `sealed` gave; `what` it should be and the `remedy` are for the messages."""
    raw, name = path.read_bytes(), path.name
    if not raw.startswith(head):
        raise DamagedFileError(f"{name} does not begin as {what} that bnnlib has saved. {remedy}")
    digest, body = raw[len(head) :][:_DIGEST], raw[len(head) + _DIGEST :]
    if hashlib.sha256(body).digest() != digest:
        raise DamagedFileError(
            f"{name} is not as it was written: its checksum does not fit its {len(body):,} bytes. {remedy}"
        )
    return body


def remove_unfinished(path: Path) -> None:
    """Remove what processes that are gone left of `write_atomic(path, ...)`.

    A file of a process of this machine goes when the process does not live any more; one whose writer cannot be asked,
    because it ran on another machine that shares the disk, goes after an hour.
    """
    path = Path(path)
    unfinished = re.compile(rf"\.{re.escape(path.name)}\.(?:{_MACHINE}_(\d{{1,9}})_)?[^.]+\.tmp")
    for file in path.parent.glob(".*.tmp"):
        if match := unfinished.fullmatch(file.name):
            with contextlib.suppress(OSError):  # what cannot be removed, or is gone already, harms nobody
                if _abandoned(file, match[1]):
                    file.unlink()


def _abandoned(file: Path, process: str | None) -> bool:
    if process is None or os.name != "posix":  # on Windows signal 0 is Ctrl-C, not a question
        return time.time() - file.stat().st_mtime > _LONGEST
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # it lives, and is another user's
        pass
    return False
