"""The cache of finished and failed cells: what cannot be read whole counts as absent, and is computed again."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from bnnlib._files import write_atomic
from book.lab.store import decode_rows, pack_arrays, to_json

_PARTS = {"key", "id", "cell", "version", "code", "data", "failed", "seconds", "rows"}


def read_entry(folder: Path, key: str) -> dict[str, Any] | None:
    """A finished cell from the cache with its arrays, else a recorded failure, else None."""
    for suffix in (".json", ".failed.json"):
        try:
            entry = json.loads((folder / f"{key}{suffix}").read_text())
            entry["rows"] = decode_rows(entry["rows"])
            if _PARTS <= set(entry) and entry["key"] == key:
                return entry | {"arrays": _arrays(folder / f"{key}.npz", entry.get("arrays"))}
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
            continue  # absent, or damaged by something else than us: computing it again is always right
    return None


def drop_entry(folder: Path, key: str) -> None:
    """Take a finished or failed cell out of the cache."""
    for path in folder.glob(f"{key}.*"):
        path.unlink(missing_ok=True)


def _arrays(path: Path, names: list[str] | None) -> dict[str, np.ndarray]:
    if not names:
        return {}
    with np.load(path, allow_pickle=False) as found:
        return {name: found[name] for name in names}


def write_entry(folder: Path, entry: dict[str, Any]) -> None:
    """Put a finished or failed cell into the cache, atomically; a success removes an earlier failure."""
    key, arrays = entry["key"], entry.get("arrays")
    if arrays:
        write_atomic(folder / f"{key}.npz", pack_arrays(arrays))
    suffix = ".failed.json" if entry["failed"] else ".json"
    stored = entry | {"arrays": list(arrays or ())}
    write_atomic(folder / f"{key}{suffix}", (to_json(stored) + "\n").encode())
    if not entry["failed"]:
        (folder / f"{key}.failed.json").unlink(missing_ok=True)
