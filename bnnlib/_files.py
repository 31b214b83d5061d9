"""Files that no interruption, crash or full disk can damage."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class StoreError(RuntimeError):
    """A result could not be read or written; the message says what is still intact and what to do."""


def write_atomic(path: Path, content: bytes) -> None:
    """Replace a file by new content, or leave it exactly as it was.

    The content goes to a temporary file in the same folder, is forced to the disk, and only then takes the name.

    Raises:
        StoreError: the disk is full or the folder cannot be written; what was there before is untouched.
    """
    path = Path(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
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
        reason = "the disk is full" if error.errno in _FULL else (error.strerror or str(error))
        raise StoreError(
            f"{path.name} ({len(content):,} bytes) could not be written to the folder '{path.parent.name}': {reason}. "
            "What was stored before is untouched. Free some space (or set BNNLIB_HOME to a folder with space) "
            "and give the same command again: finished cells are not computed again."
        ) from error
