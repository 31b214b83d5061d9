"""Compute one cell, in this process or in any other, and put it into the cache."""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from bnnlib._files import StoreError, write_atomic
from bnnlib.train.checkpoint import Checkpoint
from book.lab import catalog, provenance
from book.lab.cells import Cell, CellResult, ExperimentError
from book.lab.store import decode_rows, pack_arrays, to_json

_ONE_AT_A_TIME = threading.Lock()  # torch's thread count and global generator belong to the process


@dataclass(frozen=True)
class Task:
    """A cell on its way to a worker; everything in it can be pickled.

    Args:
        module: the module whose ``EXPERIMENTS`` holds the experiment.
        experiment: the experiment's name.
        cell: the cell.
        key: its cache key.
        folder: the experiment's cache folder.
        device: a torch device, for example ``"cpu"`` or ``"cuda:1"``.
        threads: torch threads while the cell runs; fixed, so that rows do not depend on where it runs.
        devices: how many devices compute the cell together.
    """

    module: str
    experiment: str
    cell: Cell
    key: str
    folder: str
    device: str
    threads: int
    devices: int = 1

    def on(self, device: str) -> Task:
        """The same task for another device."""
        return replace(self, device=device)


def cell_key(cell: Cell, code: str) -> str:
    """The cache key: sha256 (hex) of the cell as canonical JSON and of the code fingerprint.

    Raises:
        ExperimentError: the cell's params are not JSON-able or hold NaN.
    """
    try:
        text = json.dumps({"cell": cell.as_json(), "code": code}, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ExperimentError(
            f"params of cell {cell.label!r} cannot be written as JSON ({error}); "
            "use numbers, strings, booleans, None, lists and dicts only"
        ) from error
    return hashlib.sha256(text.encode()).hexdigest()


def read_entry(folder: Path, key: str) -> dict[str, Any] | None:
    """A finished cell from the cache, else a recorded failure, else None."""
    for suffix in (".json", ".failed.json"):
        try:
            entry = json.loads((folder / f"{key}{suffix}").read_text())
            entry["rows"] = decode_rows(entry["rows"])
        except (OSError, ValueError, KeyError, TypeError):
            continue  # absent, or damaged by something else than us: computing it again is always right
        return entry
    return None


def write_entry(folder: Path, entry: dict[str, Any]) -> None:
    """Put a finished or failed cell into the cache, atomically; a success removes an earlier failure."""
    key = entry["key"]
    arrays = entry.get("arrays")
    if arrays:
        write_atomic(folder / f"{key}.npz", pack_arrays(arrays))
    suffix = ".failed.json" if entry["failed"] else ".json"
    stored = {name: value for name, value in entry.items() if name != "arrays"}
    write_atomic(folder / f"{key}{suffix}", (to_json(stored) + "\n").encode())
    if not entry["failed"]:
        (folder / f"{key}.failed.json").unlink(missing_ok=True)


def failure(task: Task, message: str, detail: str = "") -> dict[str, Any]:
    """The entry of a cell that could not be computed: one ``error`` row for each replicate."""
    cell = task.cell
    rows = [error_row(cell, replicate, message) for replicate in cell.replicates]
    return {"key": task.key, "cell": cell.as_json(), "failed": True, "rows": rows, "seconds": 0.0, "detail": detail}


def error_row(cell: Cell, replicate: int, message: str) -> dict[str, Any]:
    """The row that stands for a replicate without a result."""
    where = {"setting": cell.setting, "method": cell.method, "replicate": replicate}
    return {**where, "metric": "error", "value": float("nan"), "note": message}


def execute(task: Task) -> dict[str, Any]:
    """Run a cell and store it; an error in the cell becomes a failed entry, never an exception.

    Raises:
        StoreError: the finished cell could not be written; nothing else raises but an interrupt.
    """

    cell, folder = task.cell, Path(task.folder)
    stored = read_entry(folder, task.key)
    if stored is not None and not stored["failed"]:
        return stored  # Dask runs a finished cell again when its worker died before the rows were fetched
    experiment = catalog.find(task.module, task.experiment)
    with _ONE_AT_A_TIME:
        threads = torch.get_num_threads()
        device = torch.device(task.device)
        started = time.perf_counter()
        # a worker on another machine may not see this folder; it then only returns the rows
        checkpoint = Checkpoint(folder / f"{task.key}.checkpoint.pt") if folder.is_dir() else None
        try:
            torch.set_num_threads(task.threads)
            devices = [device] if device.type == "cuda" else []
            with torch.random.fork_rng(devices=devices):
                # layers draw their first weights from the global generator: seeding it here makes the rows
                # independent of the cells that ran in this process before
                torch.manual_seed(int(cell_key(cell, "")[:15], 16))
                together = {"devices": task.devices} if task.devices > 1 else {}
                result = experiment.function(cell)(cell, device, checkpoint, **together)
            entry = {"key": task.key, "cell": cell.as_json(), "failed": False}
            entry |= {"rows": _checked(cell, result), "arrays": dict(result.arrays)}
        except StoreError:
            raise
        except Exception as error:  # whatever a method raises is that cell's failure and nobody else's
            entry = failure(task, f"{type(error).__name__}: {error}", traceback.format_exc())
        finally:
            torch.set_num_threads(threads)
    entry["seconds"] = time.perf_counter() - started
    entry |= {"device": provenance.device_name(device), "versions": provenance.versions(), **provenance.commit()}
    if folder.is_dir():
        write_entry(folder, entry)
        if not entry["failed"]:
            checkpoint.delete()
    return entry


def _checked(cell: Cell, result: CellResult) -> list[dict[str, Any]]:
    """The rows with plain types; a NaN becomes that replicate's ``error`` row, so it cannot vanish in a mean."""
    rows = []
    for row in result.rows:
        if missing := {"setting", "method", "replicate", "metric", "value"} - set(row):
            raise ValueError(f"a row of cell {cell.label!r} lacks {sorted(missing)}")
        if row["replicate"] not in cell.replicates:
            raise ValueError(f"cell {cell.label!r} returned a row for replicate {row['replicate']}, not its own")
        row = {**row, "replicate": int(row["replicate"]), "value": float(row["value"])}
        if math.isnan(row["value"]) and row["metric"] != "error":
            row = error_row(cell, row["replicate"], row.get("note") or f"{row['metric']} is NaN")
        rows.append(row)
    return rows
