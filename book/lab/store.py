"""Reading and writing results, and the cache of cells, so that no interruption, crash or full disk damages one."""

import functools
import hashlib
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from bnnlib._files import StoreError, write_atomic


class NotStoredError(StoreError):
    """There is no result, as opposed to one that cannot be read."""


_BEST_FIRST = ("paper", "book", "smoke")
ARRAYS_LIMIT = 200_000
"""Largest .npz beside a result, in bytes: results are committed, so they stay small."""


_TREE = Path(__file__).resolve().parents[2]


def _restore(path: Path) -> str:
    """What to do with a damaged file: version control has those of the source tree, and of these this one alone."""
    path = path.resolve()
    if not (path.is_relative_to(_TREE) and (_TREE / ".git").exists()):
        return "Remove"
    return f"Restore it with `git checkout -- {path.relative_to(_TREE)}`, or remove"


def home() -> Path:
    """The folder that holds ``results/`` and ``cache/runs/``.

    It is ``$BNNLIB_HOME`` when set, else ``data/`` of the source tree, else ``./data`` for an installed package.
    """
    if given := os.environ.get("BNNLIB_HOME"):
        return Path(given)
    tree = _TREE / "data"
    return tree if tree.is_dir() else Path("data").resolve()


def result_path(name: str, profile: str) -> Path:
    """Where the result of one experiment and profile lies."""
    return home() / "results" / f"{name}.{profile}.json"


@contextmanager
def locked(name: str, profile: str) -> Iterator[None]:
    """Be the only one who reads and writes this result.

    Raises:
        StoreError: the cache, which holds the lock, cannot be written.
    """
    path = home() / "cache" / "runs" / name / f"{profile}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        lock.acquire()
    except OSError as error:
        raise StoreError(f"{path} cannot be locked ({error.strerror}); set BNNLIB_HOME to a folder of yours") from error
    try:
        yield
    finally:
        lock.release()


def stamp(path: Path) -> tuple[int, int, int] | None:
    """What is another one when the file has been written again; None where there is none."""
    about = path.stat() if path.exists() else None
    return about and (about.st_ino, about.st_mtime_ns, about.st_size)


def _encode(value: Any) -> Any:
    # strict JSON has no NaN or infinity, and other programs read these files
    if isinstance(value, dict):
        return {str(key): _encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encode(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def to_json(value: Any) -> str:
    """Strict JSON; NaN becomes null and the infinities become the strings "inf" and "-inf"."""
    return json.dumps(_encode(value), ensure_ascii=False, allow_nan=False)


def decode_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Undo `to_json` on the ``value`` of each row: null is NaN, "inf" and "-inf" are the infinities."""
    return [{**row, "value": float("nan") if row["value"] is None else float(row["value"])} for row in rows]


_LISTS = ("cells", "probes", "certificates", "rows")


def dump_result(result: dict[str, Any]) -> str:
    """The text of a result file: one line a fact, a cell, a probe and a row, so that a diff shows what changed."""
    about = ",\n".join(f"  {to_json(key)}: {to_json(value)}" for key, value in result["provenance"].items())
    name, profile = to_json(result["experiment"]), to_json(result["profile"])
    lists = []
    for part in _LISTS:
        lines = ",\n".join("  " + to_json(one) for one in result[part])
        lists.append(f' "{part}": [\n{lines}\n ]' if lines else f' "{part}": []')
    text = (
        f'{{\n "experiment": {name},\n "profile": {profile},\n "provenance": {{\n{about}\n }},\n'
        + ",\n".join(lists)
        + "\n}\n"
    )
    return text[:2] + _DIGEST.format(_digest(text)) + text[2:]


_DIGEST = ' "sha256": "{}",\n'  # of the file without this line, the second
_PARTS = {"sha256", "experiment", "profile", "provenance", *_LISTS}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@functools.lru_cache(maxsize=64)  # a chapter asks for the same few files two hundred times; the text itself is the key
def _checked(text: str) -> dict[str, Any]:
    """What a file says, when it is as it was written. Not to change.

    Raises:
        ValueError: it is not, or has lost its checksum, so that nobody can tell.
    """
    result = json.loads(text)
    if unknown := set(result) - _PARTS:
        raise ValueError(f"it has the unknown part {sorted(unknown)[0]!r}")
    if not result.pop("sha256", None):
        raise ValueError("it has no checksum")
    line, _, rest = text[2:].partition("\n")
    if f"{line}\n" != _DIGEST.format(_digest(text[:2] + rest)):
        raise ValueError("its checksum does not fit")
    return result


def save_result(result: dict[str, Any], arrays: dict[str, np.ndarray] | None = None) -> Path:
    """Write ``results/NAME.PROFILE.json`` (and ``.npz``) atomically and return the path.

    Args:
        result: as `load_result` returns it; cells, probes and certificates may be missing.
        arrays: optional arrays for replays, at most 200 kB compressed.

    Raises:
        StoreError: the disk is full or not writable (the earlier result is untouched), or the arrays are too large.
    """
    result = {part: [] for part in _LISTS} | result
    path = result_path(result["experiment"], result["profile"])
    packed = pack_arrays(arrays) if arrays else b""
    if len(packed) > ARRAYS_LIMIT:
        raise StoreError(
            f"arrays of {path.stem} take {len(packed):,} bytes; at most {ARRAYS_LIMIT:,} may lie beside a result. "
            "Store fewer or shorter arrays (float16, every tenth epoch)."
        )
    if packed:
        write_atomic(path.with_suffix(".npz"), packed)
    write_atomic(path, dump_result(result).encode())
    return path


def pack_arrays(arrays: dict[str, np.ndarray]) -> bytes:
    """The arrays as the bytes of a compressed .npz file, the same bytes for the same arrays."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{name: np.asarray(value) for name, value in arrays.items()})
    return buffer.getvalue()


def read_result(path: Path) -> dict[str, Any]:
    """One result file.

    Raises:
        StoreError: the file is not a result (damaged by hand or by another program).
    """
    try:
        result = {part: [] for part in _LISTS} | _checked(path.read_text())
        result |= {part: [dict(one) for one in result[part]] for part in _LISTS if part != "rows"}
        result |= {"provenance": dict(result["provenance"]), "rows": decode_rows(result["rows"])}
        result["provenance"]["cells"]["total"]
        if result["cells"] and sum(cell["rows"] for cell in result["cells"]) != len(result["rows"]):
            raise ValueError("its cells and its rows do not belong together")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{path.name} is not a readable result ({error}). {_restore(path)} it and run the experiment again."
        ) from error
    return result


def by_cell(result: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each stored cell with its rows, which follow each other in the cells' order."""
    rows = iter(result["rows"])
    return ((about, list(islice(rows, about["rows"]))) for about in result.get("cells", ()))


def load_result(name: str, profile: str | None = None) -> dict[str, Any]:
    """A stored result ``{"experiment", "profile", "provenance", "cells", "probes", "certificates", "rows"}``.

    ``cells[i]["rows"]`` is how many rows belong to cell i, see `by_cell`.

    Args:
        name: the experiment.
        profile: smoke, book or paper; None takes the best complete one (paper before book before smoke),
            and when none is complete the best one that has begun.

    Raises:
        NotStoredError: nothing is stored; the message gives the command that makes it.
        StoreError: what is stored is damaged.
    """
    profiles = _BEST_FIRST if profile is None else (profile,)
    found = [read_result(path) for path in (result_path(name, one) for one in profiles) if path.exists()]
    if not found:
        raise NotStoredError(
            f"no result of {name!r}{f' with profile {profile!r}' if profile else ''} is stored. "
            f"Make it with: python -m book run {name} --profile {profile or 'book'}"
        )
    cells = ((result, result["provenance"]["cells"]) for result in found)
    return next((result for result, one in cells if one["done"] + one["failed"] == one["total"]), found[0])


def load_arrays(name: str, profile: str) -> dict[tuple[str, str, int, str], np.ndarray]:
    """Arrays stored beside a result, keyed by (setting, method, first replicate of the cell, array name).

    Raises:
        StoreError: the file is damaged.
    """
    path = result_path(name, profile).with_suffix(".npz")
    if not path.exists():
        return {}
    try:
        with np.load(path, allow_pickle=False) as stored:
            found = {key: stored[key] for key in stored.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise StoreError(
            f"{path.name} cannot be read ({error}). {_restore(path)} it and {path.stem}.json and run the experiment "
            "again."
        ) from error
    arrays = {}
    for key, value in found.items():
        # methods and array names may have bars of their own ("sBNN by |m|"), the replicate is a number
        setting, method, replicate, array = re.fullmatch(r"([^|]*)\|(.*)\|(\d+)\|(.*)", key).groups()
        arrays[setting, method, int(replicate), array] = value
    return arrays


_ENTRY = {"key", "id", "cell", "version", "code", "data", "failed", "seconds", "rows"}


def read_entry(folder: Path, key: str) -> dict[str, Any] | None:
    """A finished cell from the cache with its arrays, else a recorded failure, else None.

    What cannot be read whole counts as absent, and is computed again.
    """
    for suffix in (".json", ".failed.json"):
        try:
            entry = json.loads((folder / f"{key}{suffix}").read_text())
            entry["rows"] = decode_rows(entry["rows"])
            names = entry.get("arrays")
            with np.load(folder / f"{key}.npz") if names else nullcontext() as found:
                arrays = {name: found[name] for name in names or ()}
            if _ENTRY <= set(entry) and entry["key"] == key:
                return entry | {"arrays": arrays}
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
            continue  # absent, or damaged by something else than us: computing it again is always right
    return None


def drop_entry(folder: Path, key: str) -> None:
    """Take a finished or failed cell out of the cache, but for its lock, which another process may hold."""
    for path in folder.glob(f"{key}.*"):
        if path.suffix != ".lock":
            path.unlink(missing_ok=True)


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
