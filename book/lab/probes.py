"""A probe: a cell made so small that it takes seconds, interrupted once, and taking the same branches as the real one.

Its rows are kept beside a result. When the code has moved, the probe runs again, and equal rows certify that the cells
need not.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Container
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bnnlib.train import Checkpoint
from book.lab import catalog, keys
from book.lab.cells import Cell, Experiment, Need

ProbeRows = list[list[Any]]  # [setting, method, replicate, metric, value]


def first(number: int) -> Callable[[list], list]:
    """For a value of ``tiny``: the first entries of a list."""
    return lambda values: list(values)[:number]


def shrink(experiment: Experiment, cell: Cell) -> Cell:
    """The cell with the parameters of ``experiment.tiny`` in place of its own, where it has them.

    A value of ``tiny`` is the new value, a function of the old one, or a dict for a dict of parameters.
    ``"replicates"`` is how many are kept, by default the first; ``"kind"`` a function of the cell, for kinds that only
    the setting tells apart; ``"added"`` parameters that the cell has not, such as the shape that digits are given.
    """
    tiny = dict(experiment.tiny)
    kept, added = tiny.pop("replicates", 1), tiny.pop("added", {})
    tiny.pop("kind", None)
    needs = tuple(Need(one.experiment, shrink(catalog.get(one.experiment), one.cell)) for one in cell.needs)
    return replace(cell, replicates=cell.replicates[:kept], params=_smaller(cell.params, tiny) | added, needs=needs)


def _smaller(params: dict[str, Any], tiny: dict[str, Any]) -> dict[str, Any]:
    out = dict(params)
    for key, small in tiny.items():
        if key in out:
            out[key] = _smaller(out[key], small) if isinstance(small, dict) else small
            if callable(small):
                out[key] = small(params[key])
    return out


def cells(experiment: Experiment, profile: str, ids: Container[str] | None = None) -> list[Cell]:
    """One small cell for each kind of cell in the profile: a kind is what is left when sizes and seeds are gone.

    None without ``experiment.tiny``: the cells themselves are no probes.

    Args:
        experiment, profile: whose cells.
        ids: only kinds of cells with these identities, those that are stored for example.
    """
    if not experiment.tiny:
        return []
    found: dict[str, Cell] = {}
    asked: set[str] = set()
    for cell in experiment.profiles[profile]():
        small = shrink(experiment, cell)
        named = experiment.tiny["kind"](cell) if "kind" in experiment.tiny else ""
        kind = json.dumps([small.method, named, small.params], sort_keys=True)
        found.setdefault(kind, small)
        if ids is None or keys.identity(experiment, cell) in ids:
            asked.add(kind)
    return [small for kind, small in found.items() if kind in asked]


def kind_of(cell: dict[str, Any]) -> str:
    """By which name the probe of a small cell (as JSON) is found again."""
    return json.dumps(cell, sort_keys=True)


def rows_of(name: str, profile: str, method: str) -> dict[str, ProbeRows]:
    """Rows of one method's probes by kind, run now."""
    experiment = catalog.get(name)
    chosen = [cell for cell in cells(experiment, profile) if cell.method == method]
    return {kind_of(cell.as_json()): run(experiment, cell) for cell in chosen}


class _Once(Checkpoint):
    """A checkpoint that is always due; the first of two ends the run as a kill would."""

    class Stopped(BaseException):
        """The run ends here."""

    def __init__(self, path: Path, stop: bool) -> None:
        super().__init__(path)
        self.stop = stop

    def due(self, seconds: float = 0.0) -> bool:
        return True

    def save(self, state: dict[str, Any]) -> None:
        super().save(state)
        if self.stop:
            raise self.Stopped


def run(experiment: Experiment, cell: Cell) -> ProbeRows:
    """Rows of a small cell on the CPU in one thread: started, stopped at its first checkpoint, and taken up again."""
    result = _run(experiment, cell)
    skip = experiment.measured
    return [
        [row["setting"], row["method"], int(row["replicate"]), row["metric"], float(row["value"])]
        for row in result.rows
        if not (skip and row["metric"].startswith(skip))
    ]


def _run(experiment: Experiment, cell: Cell):
    products = {}
    if cell.needs:
        products["products"] = [_run(catalog.get(need.experiment), need.cell).product for need in cell.needs]
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
            path = Path(folder) / "cell.pt"
            for stop in (True, False):
                torch.manual_seed(keys.seed_of(cell))
                try:
                    return experiment.function(cell)(cell, torch.device("cpu"), _Once(path, stop), **products)
                except _Once.Stopped:
                    continue
    finally:
        torch.set_num_threads(threads)
    raise AssertionError("the second run is not stopped")
