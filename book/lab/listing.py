"""The answer of ``python -m book list``, kept until a file that it depends on is touched.

To import PyTorch and every experiment takes seconds, to look at the times of all files a few hundredths of one.
"""

import contextlib
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from bnnlib._files import StoreError, write_atomic
from book.lab.store import home

_TREE = Path(__file__).resolve().parents[2]
_SOURCES = (".py", ".toml")


def kept() -> list[dict[str, Any]] | None:
    """The rows that `keep` was given, None when a file has been touched since or they were never kept."""
    try:
        about = json.loads(_path().read_text())
        return about["rows"] if about["state"] == state() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(rows: list[dict[str, Any]], seen: str) -> None:
    """Keep the rows.

    Args:
        rows: JSON-able.
        seen: the `state` before they were computed, so that what changes meanwhile is noticed.
    """
    with contextlib.suppress(StoreError):  # it only saves time
        write_atomic(_path(), json.dumps({"state": seen, "rows": rows}).encode())


def state() -> str:
    """Hash of the paths, times and sizes of the sources and of the stored results, and of the data sets' place."""
    found = hashlib.sha256(f"{sys.version} {_TREE} {os.environ.get('BNNLIB_DATA', '')}\n".encode())
    for folder in (*(_TREE / name for name in ("bnnlib", "book", "chapters")), home() / "results"):
        for path in sorted(_files(folder)):
            about = os.stat(path)
            found.update(f"{path} {about.st_mtime_ns} {about.st_size}\n".encode())
    return found.hexdigest()


def _files(folder: Path) -> list[str]:
    """Sources below the folder, and the results where it holds those."""
    endings = (".json",) if folder.name == "results" else _SOURCES
    return [
        os.path.join(place, name) for place, _, names in os.walk(folder) for name in names if name.endswith(endings)
    ]


def _path() -> Path:
    return home() / "cache" / "list.json"
