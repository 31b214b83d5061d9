"""Run an experiment's grid: what is finished comes from the cache, the rest is computed, and all of it is merged."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from book.lab import catalog, pools, provenance
from book.lab import store as files
from book.lab.cells import PROFILES, Cell, Experiment, ExperimentError
from book.lab.fingerprint import code_fingerprint
from book.lab.worker import Task, cell_key, read_entry, write_entry

BACKENDS = ("loky", "dask")


def run(
    name: str,
    profile: str = "smoke",
    device: str = "auto",
    jobs: int = 1,
    backend: str = "loky",
    scheduler: str | None = None,
    threads: int = 1,
    only: str | None = None,
    devices: int = 1,
) -> dict[str, Any]:
    """Compute the cells of a profile that are not in the cache yet and store the merged result.

    Finished cells lie in ``data/cache/runs/NAME`` under a hash of their settings and of the code that computes them.
    A failed cell keeps its ``error`` rows in the result and is tried again by the next run. An unfinished result never
    replaces a stored one that has more finished cells. Every cell runs with a fixed number of threads and its own seed,
    so its rows are the same bits whatever the backend, the number of jobs or the order.

    Args:
        name: the experiment.
        profile: smoke, book or paper.
        device: ``"auto"`` (CUDA when there is one), or any torch device.
        jobs: worker processes; 1 with loky means this process.
        backend: ``"loky"`` for one machine, ``"dask"`` for a Dask scheduler.
        scheduler: the scheduler's address, ``"tcp://host:8786"``; None with dask starts a local one with ``jobs``
            worker processes.
        threads: torch threads of each cell.
        only: run only cells whose label (setting, method, replicates) contains this text; the others are merged
            from the cache when they are there.
        devices: how many devices compute a cell together, for experiments that can; its batches are divided.

    Returns:
        The result ``{"experiment", "profile", "provenance", "rows"}``, as stored.

    Raises:
        ExperimentError: unknown experiment, profile, backend or device, or nothing matches ``only``.
        StoreError: a cell or the result could not be written.
        KeyboardInterrupt: on Ctrl-C, after the finished cells are merged and stored.
    """
    experiment = catalog.get(name)
    cells = _cells(experiment, profile)
    command = _command(name, profile, device, jobs, backend, scheduler, threads, only, devices)
    device = _device(device)
    if backend not in BACKENDS:
        raise catalog.unknown("backend", backend, BACKENDS)
    if jobs < 1 or threads < 1:
        raise ExperimentError(f"jobs={jobs} and threads={threads} were given; both must be at least 1")
    if devices != 1 and (devices < 1 or jobs > 1 or backend != "loky" or not experiment.several_devices):
        able = [one for one in catalog.names() if catalog.get(one).several_devices]
        raise ExperimentError(f"devices={devices}, but it must be 1, or more with one job of: {', '.join(able)}")
    folder = files.home() / "cache" / "runs" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise files.StoreError(f"the cache folder cannot be made: {error.strerror}; set BNNLIB_HOME to one") from error
    _tidy(folder)
    module = catalog.module_of(name)
    codes = {cell.method: code_fingerprint(experiment.function(cell)) for cell in cells}
    keys = [(cell, cell_key(cell, codes[cell.method])) for cell in cells]
    tasks = [Task(module, name, cell, key, str(folder), device, threads, devices) for cell, key in keys]
    entries = {task.key: read_entry(folder, task.key) for task in tasks}
    chosen = [task for task in tasks if only is None or only in task.cell.label]
    if not chosen:
        raise ExperimentError(f"no cell matches --only {only!r}. Cells: {'; '.join(task.cell.label for task in tasks)}")
    todo = [task for task in chosen if entries[task.key] is None or entries[task.key]["failed"]]
    fetched = _fetch(experiment.data_sets(profile)) if todo else _data_fingerprints(experiment.data_sets(profile))
    result = _Result(experiment, profile, tasks, entries, command, codes, fetched)
    _say(f"{name} ({profile}): {len(tasks)} cells, {len(chosen) - len(todo)} of {len(chosen)} chosen ones in the cache")
    try:
        with contextlib.closing(_pool(todo, jobs, backend, scheduler)) as finished:
            for task, entry in _progress(finished, len(todo)):
                entries[task.key] = entry
                if entry["failed"] or not (folder / f"{task.key}.json").exists():
                    write_entry(folder, entry)
    except KeyboardInterrupt:
        for task in todo:  # a worker may have stored a cell whose rows were still on their way
            entries[task.key] = read_entry(folder, task.key)
        done, _ = result.count()
        result.save(computed=True)
        _say(
            f"interrupted: {done} of {len(tasks)} cells are finished and stored; nothing is lost. "
            f"The same command goes on from there:\n  {command}"
        )
        raise
    for task in tasks:
        if entries[task.key] is None:  # another run of this experiment may have finished it meanwhile
            entries[task.key] = read_entry(folder, task.key)
    return result.save(computed=bool(todo))


def done_cells(name: str, profile: str) -> tuple[int, int]:
    """(finished, all) cells of a profile according to its stored result; (0, 0) without one."""
    try:
        cells = files.load_result(name, profile)["provenance"]["cells"]
    except files.StoreError:
        return 0, 0
    return cells["done"], cells["total"]


def _cells(experiment: Experiment, profile: str) -> list[Cell]:
    if profile not in experiment.profiles:
        if reason := experiment.unavailable.get(profile):
            raise ExperimentError(f"{experiment.name} has no profile {profile!r}: {reason}")
        raise catalog.unknown("profile", profile, [one for one in PROFILES if one in experiment.profiles])
    cells = experiment.profiles[profile]()
    seen: set[tuple[str, str, int]] = set()
    for cell in cells:
        keys = {(cell.setting, cell.method, replicate) for replicate in cell.replicates}
        if keys & seen or not keys:
            raise ExperimentError(f"cell {cell.label!r} of {experiment.name} is empty or overlaps another cell")
        seen |= keys
    return cells


def _tidy(folder: Path) -> None:
    # half-written files of killed processes; an hour is longer than any file takes, so no living one is touched
    for unfinished in folder.glob(".*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - unfinished.stat().st_mtime > 3600:
                unfinished.unlink()


def _device(given: str) -> str:
    if given == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(given)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ExperimentError(f"device {given!r} cannot be used ({reason}); give auto, cpu or cuda") from error
    return given


def _fetch(names: tuple[str, ...]) -> dict[str, str]:
    # before the workers start: they would otherwise all download the same file
    if names:
        from bnnlib import datasets

        for name in names:
            if not datasets.available(name):
                _say(f"fetching data set {name!r}")
                datasets.fetch(name)
    return _data_fingerprints(names)


def _data_fingerprints(names: tuple[str, ...]) -> dict[str, str]:
    if not names:
        return {}
    from bnnlib import datasets

    return {name: datasets.fingerprint(name) for name in names if datasets.available(name)}


def _pool(tasks: list[Task], jobs: int, backend: str, scheduler: str | None) -> Iterator[pools.Outcome]:
    if backend == "dask" and tasks:
        return pools.dask(tasks, jobs, scheduler)
    return pools.loky(tasks, jobs) if jobs > 1 else pools.serial(tasks)


def _command(name, profile, device, jobs, backend, scheduler, threads, only, devices) -> str:
    words = ["python -m book run", name, "--profile", profile, "--device", device]
    words += ["--devices", str(devices)] if devices > 1 else []
    words += ["--jobs", str(jobs)] if jobs > 1 else []
    words += ["--backend", backend] if backend != "loky" else []
    words += ["--scheduler", "tcp://HOST:PORT"] if scheduler else []  # an address would name a machine
    words += ["--threads", str(threads)] if threads > 1 else []
    words += ["--only", f'"{only}"'] if only else []
    return " ".join(words)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _progress(outcomes: Iterator[pools.Outcome], total: int) -> Iterator[pools.Outcome]:
    bar = None
    if total and sys.stderr.isatty():
        try:
            from tqdm import tqdm

            bar = tqdm(total=total, unit="cell", file=sys.stderr)
        except ImportError:
            pass  # a line a cell, as in a log file
    for number, (task, entry) in enumerate(outcomes, 1):
        state = f"FAILED: {entry['rows'][0]['note']}" if entry["failed"] else f"{entry['seconds']:.1f} s"
        if bar is None:
            _say(f"[{number}/{total}] {task.cell.label}: {state}")
        else:
            bar.update()
            bar.set_postfix_str(task.cell.label)
            if entry["failed"]:
                bar.write(f"{task.cell.label}: {state}", file=sys.stderr)
        yield task, entry
    if bar is not None:
        bar.close()


class _Result:
    """The merged result of all cells that are finished so far."""

    def __init__(self, experiment, profile, tasks, entries, command, codes, data) -> None:
        self.experiment, self.profile, self.tasks, self.entries = experiment, profile, tasks, entries
        self.command, self.codes, self.data = command, codes, data
        self.started = time.perf_counter()

    def count(self) -> tuple[int, int]:
        """(done, failed) cells."""
        known = [self.entries[task.key] for task in self.tasks if self.entries[task.key]]
        failed = sum(entry["failed"] for entry in known)
        return len(known) - failed, failed

    def save(self, computed: bool) -> dict[str, Any]:
        """Write the result unless the stored one is the same or holds more finished cells; return the merged one."""
        path = files.result_path(self.experiment.name, self.profile)
        old = files.read_result(path) if path.exists() else None
        result = self.merge(old)
        done, failed = self.count()
        if done + failed == 0:
            return result
        if old is not None:
            if not computed and files.to_json(old["rows"]) == files.to_json(result["rows"]):
                return old  # nothing new: the provenance of the run that made the rows stays
            kept = old["provenance"]["cells"]["done"]
            if done < kept and done + failed < len(self.tasks):
                _say(
                    f"the stored result has {kept} finished cells, this one {done} of {len(self.tasks)}: "
                    "the stored one stays until the new one is complete"
                )
                return result
        files.save_result(result, self.arrays())
        open_cells = len(self.tasks) - done - failed
        _say(f"stored {path.name}: {done} cells done, {failed} failed, {open_cells} not run")
        return result

    def merge(self, old: dict[str, Any] | None) -> dict[str, Any]:
        known = [self.entries[task.key] for task in self.tasks if self.entries[task.key]]
        done, failed = self.count()
        code = {method: self.codes[method][:16] for method in sorted(self.codes)}
        wall = (time.perf_counter() - self.started) / 60
        if old is not None and old["provenance"].get("code") == code:
            wall += old["provenance"].get("wall_minutes", 0.0)  # an earlier part of the same sweep
        about = {
            **provenance.commit(),
            "cell_commits": sorted({entry["commit"] for entry in known if entry.get("commit")}),
            "command": self.command,
            "seeds": _seeds(self.tasks),
            "versions": provenance.versions(),
            "machine": provenance.machine(),
            "device": " + ".join(sorted({entry["device"] for entry in known if "device" in entry})),
            "minutes": round(sum(entry["seconds"] for entry in known) / 60, 3),
            "wall_minutes": round(wall, 3),
            "data": self.data,
            "code": code,
            "cells": {"total": len(self.tasks), "done": done, "failed": failed},
        }
        rows = [row for entry in known for row in entry["rows"]]
        return {"experiment": self.experiment.name, "profile": self.profile, "provenance": about, "rows": rows}

    def arrays(self) -> dict[str, np.ndarray]:
        arrays = {}
        for task in self.tasks:
            entry = self.entries[task.key]
            stored = Path(task.folder) / f"{task.key}.npz"
            if entry is None or entry["failed"] or not stored.exists():
                continue
            where = f"{task.cell.setting}|{task.cell.method}|{task.cell.replicates[0]}"
            with np.load(stored, allow_pickle=False) as found:
                arrays |= {f"{where}|{name}": found[name] for name in found.files}
        return arrays


def _seeds(tasks: list[Task]) -> dict[str, list[int]]:
    replicates = sorted({replicate for task in tasks for replicate in task.cell.replicates})
    seeds = sorted({task.cell.params["seed"] for task in tasks if "seed" in task.cell.params})
    return {"replicates": replicates, **({"seed": seeds} if seeds else {})}
