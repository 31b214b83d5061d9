"""Compute one cell, in this process or in any other, and put it into the cache."""

from __future__ import annotations

import hashlib
import io
import math
import pickle
import threading
import time
import traceback
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock

from bnnlib._files import StoreError, write_atomic
from bnnlib._memory import keep_pages
from bnnlib.train.checkpoint import Checkpoint
from book.lab import catalog, keys, provenance
from book.lab.cells import Cell, CellResult, ExperimentError
from book.lab.store import read_entry, write_entry

_ONE_AT_A_TIME = threading.Lock()  # torch's thread count and global generator belong to the process


@dataclass(frozen=True)
class Task:
    """A cell on its way to a worker; everything in it can be pickled.

    Args:
        key, folder: of its entry in the cache, `book.lab.keys.cache_key`.
    """

    module: str  # the module whose ``EXPERIMENTS`` holds the experiment
    experiment: str
    cell: Cell
    key: str
    folder: str
    device: str
    threads: int  # torch threads while the cell runs; fixed, so that rows do not depend on where it runs
    devices: int = 1
    about: dict[str, Any] = field(default_factory=dict)  # facts that its entry repeats: identity, version, code, data
    needs: tuple[Task, ...] = ()  # the tasks whose products it starts from
    data: bytes | None = None  # the product itself, of a needed task whose folder the worker does not see

    @property
    def name(self) -> tuple[str, str]:
        """What tells it from all other tasks: cells of two experiments may have the same key."""
        return self.experiment, self.key

    @property
    def product(self) -> Path:
        """Where the cell's product lies."""
        return Path(self.folder) / f"{self.key}.product.pt"

    @property
    def marked(self) -> str | None:
        """What has asked to have it computed again although it is known; None where nothing has."""
        return self._mark.read_text() if self._mark.exists() else None

    @property
    def _mark(self) -> Path:
        return Path(self.folder) / f"{self.key}.again"

    def mark(self, text: str) -> None:
        """Have it computed again, from its beginning."""
        write_atomic(self._mark, text.encode())
        _Timed(Path(self.folder) / f"{self.key}.checkpoint.pt").delete()

    def keep(self, entry: dict[str, Any], product: bytes | None) -> None:
        """Into the cache, in the place of what was known."""
        folder = Path(self.folder)
        if product is not None:
            write_atomic(self.product, product)
        write_entry(folder, entry)
        if entry["failed"] and self.marked is not None:
            (folder / f"{self.key}.json").unlink(missing_ok=True)  # else it would be taken for today's
        self._mark.unlink(missing_ok=True)

    def carrying(self) -> Task:
        """The same task with the products that it starts from, for a worker that does not see their folders."""
        return replace(self, needs=tuple(replace(one, data=one.left()) for one in self.needs))

    def left(self) -> bytes | None:
        """The cell's product, None where there is none."""
        return self.data or (self.product.read_bytes() if self.product.exists() else None)


def failure(task: Task, message: str, detail: str = "") -> dict[str, Any]:
    """The entry of a cell that could not be computed: one ``error`` row for each replicate."""
    cell = task.cell
    rows = [error_row(cell, replicate, message) for replicate in cell.replicates]
    about = {"key": task.key, **task.about, "cell": cell.as_json(), **provenance.commit()}
    return about | {"failed": True, "rows": rows, "seconds": 0.0, "detail": detail}


def error_row(cell: Cell, replicate: int, message: str) -> dict[str, Any]:
    """The row that stands for a replicate without a result."""
    where = {"setting": cell.setting, "method": cell.method, "replicate": replicate}
    return {**where, "metric": "error", "value": float("nan"), "note": message}


def execute(task: Task) -> dict[str, Any]:
    """Run a cell and store it; an error in the cell becomes a failed entry, never an exception.

    A worker that does not see the cache returns the product with the entry, as ``"sent"``.

    Raises:
        StoreError: the finished cell could not be written; nothing else raises but an interrupt.
    """
    folder = Path(task.folder)
    # One process at a time at a cell; the system opens the lock of one that was killed. A worker on another machine may
    # not see this folder; it then only returns the rows.
    with FileLock(folder / f"{task.key}.lock") if folder.is_dir() else nullcontext():
        stored = read_entry(folder, task.key)
        if stored is not None and not stored["failed"] and whole(task, stored) and task.marked is None:
            return stored  # another run, or Dask, which runs a finished cell again when its worker died
        entry, product = _compute(task)
        if folder.is_dir():
            task.keep(entry, product)
            if not entry["failed"]:
                _Timed(folder / f"{task.key}.checkpoint.pt").delete()
        elif product is not None:
            entry["sent"] = product
    return entry


def _compute(task: Task) -> tuple[dict[str, Any], bytes | None]:
    """The entry, and the bytes of the product."""
    keep_pages()  # Dask tells its workers to return memory at once: a quarter slower
    cell = task.cell
    experiment = catalog.find(task.module, task.experiment)
    product, checkpoint, started = None, None, time.perf_counter()
    folder = Path(task.folder)
    about = {"key": task.key, **task.about, "cell": cell.as_json(), "failed": False}
    try:
        more: dict[str, Any] = {"devices": task.devices} if task.devices > 1 else {}
        if task.needs:
            data = [one.left() for one in task.needs]
            for one in (need for need, left in zip(task.needs, data, strict=True) if left is None):
                raise ExperimentError(f"{one.cell.label} of {one.experiment} leaves no product; a cell cannot need it")
            more["products"] = [_unpack(one) for one in data]
            about["starts"] = [hashlib.sha256(one).hexdigest() for one in data]
        started = time.perf_counter()  # what it needed is not its own time
        checkpoint = _Timed(folder / f"{task.key}.checkpoint.pt") if folder.is_dir() else None
        result = _call(experiment.function(cell), task, checkpoint, more)
        entry = about | {"rows": _checked(cell, result), "arrays": dict(result.arrays)}
        if result.product is not None:
            product = pack(result.product)
            entry["product"] = {"sha256": hashlib.sha256(product).hexdigest(), "bytes": len(product)}
    except StoreError:
        raise
    except Exception as error:  # whatever a method raises is that cell's failure and nobody else's
        entry = failure(task, f"{type(error).__name__}: {error}", traceback.format_exc())
    entry["seconds"] = checkpoint.seconds if checkpoint else time.perf_counter() - started
    device = torch.device(task.device)
    where = {"device": provenance.device_name(device), "versions": provenance.versions(), **provenance.commit()}
    where["noise"] = provenance.noise(device.type)
    return entry | where, product


class _Timed(Checkpoint):
    """A checkpoint that keeps the seconds spent before a kill, too."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._clock = path.with_suffix(".seconds")
        try:
            spent = float(self._clock.read_text()) if path.exists() else 0.0
        except (OSError, ValueError):  # absent or damaged: only an estimate suffers
            spent = 0.0
        self._began = time.perf_counter() - spent

    @property
    def seconds(self) -> float:
        """Spent on the cell so far, in all its runs up to the last checkpoint and in this one."""
        return time.perf_counter() - self._began

    def save(self, state: dict[str, Any]) -> None:
        super().save(state)
        write_atomic(self._clock, f"{self.seconds:.3f}".encode())

    def delete(self) -> None:
        super().delete()
        self._clock.unlink(missing_ok=True)


def _call(function, task: Task, checkpoint: Checkpoint | None, more: dict[str, Any]) -> CellResult:
    device = torch.device(task.device)
    with _ONE_AT_A_TIME:
        threads = torch.get_num_threads()
        try:
            torch.set_num_threads(task.threads)
            devices = [device] if device.type == "cuda" else []
            with torch.random.fork_rng(devices=devices):
                # layers draw their first weights from the global generator: seeding it here makes the rows
                # independent of the cells that ran in this process before
                torch.manual_seed(keys.seed_of(task.cell))
                return function(task.cell, device, checkpoint, **more)
        finally:
            torch.set_num_threads(threads)


def pack(product: dict[str, Any]) -> bytes:
    """The bytes of a product.

    Raises:
        TypeError: it could not be read back.
    """
    buffer = io.BytesIO()
    torch.save(product, buffer)
    try:
        _unpack(buffer.getvalue())
    except pickle.UnpicklingError as error:
        raise TypeError(
            "a cell's product holds something else than dicts and lists of tensors, numbers and strings; "
            "convert it first (torch.as_tensor for a NumPy array, .state_dict() for a module)"
        ) from error
    return buffer.getvalue()


def _unpack(data: bytes) -> dict[str, Any]:
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def whole(task: Task, entry: dict[str, Any]) -> bool:
    """True unless the cell left a product that is gone or damaged."""
    if "product" not in entry:
        return True
    path = task.product
    return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == entry["product"]["sha256"]


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
