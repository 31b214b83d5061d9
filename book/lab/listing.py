"""Answers that are kept until a file that they depend on is touched: of ``python -m book list``, and hashes of code.

To import PyTorch and every experiment takes seconds, to look at the times of all files a few hundredths of one.
"""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bnnlib._files import StoreError, write_atomic
from book.lab.store import home

TREE = Path(__file__).resolve().parents[2]


def touched(folders: Iterable[Path], endings: tuple[str, ...] = (".py",)) -> str:
    """Hash of the paths, times and sizes of the files below the folders."""
    walks = (one for folder in folders for one in os.walk(folder))  # faster than `Path.rglob`
    paths = sorted(os.path.join(place, name) for place, _, names in walks for name in names if name.endswith(endings))
    states = ((path, os.stat(path)) for path in paths)
    text = "\n".join(f"{path} {at.st_mtime_ns} {at.st_size}" for path, at in states)
    return hashlib.sha256(text.encode()).hexdigest()


def state() -> str:
    """What the answer of `list` depends on: the sources, the stored results, and the data sets' place."""
    sources = touched([TREE / name for name in ("bnnlib", "book", "chapters")], (".py", ".toml"))
    return f"{sys.version} {os.environ.get('BNNLIB_DATA', '')} {sources} {touched([home() / 'results'], ('.json',))}"


def read(name: str, state: str) -> Any:
    """What is kept under a name; None when it is of another state, or nothing is."""
    try:
        about = json.loads((home() / "cache" / name).read_text())
        return about["kept"] if about["state"] == state else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(name: str, state: str, kept: Any) -> None:
    """Keep something JSON-able, with the state before it was computed, so that what changes meanwhile is noticed."""
    with contextlib.suppress(StoreError):  # it only saves time
        write_atomic(home() / "cache" / name, json.dumps({"state": state, "kept": kept}).encode())
