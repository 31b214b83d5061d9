"""What makes two cells the same: setting, method, replicates, parameters, declared version, needs and data.

The code is no part of it. That it still computes what it did is evidence, kept beside the results
(`book.lab.validity`).
"""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from bnnlib import datasets
from bnnlib.datasets.registry import data_root
from book.lab import catalog
from book.lab.cells import Cell, Experiment, ExperimentError


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()


def seed_of(cell: Cell) -> int:
    """Seed of the global generator while the cell runs: of its settings alone, whatever the version and the code."""
    return int(_digest({"cell": cell.as_json(), "code": ""})[:15], 16)  # "code" has been there since the first results


def identity(experiment: Experiment, cell: Cell) -> str:
    """What a cell is, but for the content of its data: sha256 (hex).

    Raises:
        ExperimentError: the cell's params are not JSON-able or hold NaN.
    """
    needs = [identity(catalog.get(need.experiment), need.cell) for need in cell.needs]
    about = {"cell": cell.as_json(), "version": experiment.version_of(cell.method)}
    try:
        return _digest(about | ({"needs": needs} if needs else {}))
    except (TypeError, ValueError) as error:
        raise ExperimentError(
            f"params of cell {cell.label!r} cannot be written as JSON ({error}); "
            "use numbers, strings, booleans, None, lists and dicts only"
        ) from error


def cache_key(identity: str, data: Mapping[str, str]) -> str:
    """The name of a finished cell in the cache: what it is and what it read, sha256 (hex)."""
    return _digest([identity, dict(data)])


def data_of(experiment: Experiment, cell: Cell, profile: str) -> tuple[str, ...]:
    """Names of the data sets behind a cell: those that its parameters name, else those of its experiment.

    Those behind the cells that it needs are among them.
    """
    own = set(own_data(experiment, cell, profile))
    needed = [data_of(catalog.get(need.experiment), need.cell, profile) for need in cell.needs]
    return tuple(sorted(own.union(*needed)))


def own_data(experiment: Experiment, cell: Cell, profile: str) -> tuple[str, ...]:
    """Names of the data sets that a cell reads itself: those that its parameters name, else those of its experiment."""
    return tuple(sorted(_words(cell.params) & set(datasets.names()) or set(experiment.data_sets(profile))))


def _words(value: Any) -> set[str]:
    if isinstance(value, str):
        return {value}
    if isinstance(value, dict):  # a scaling or a task bears the name of the data set that it was made for
        value = [inside for name, inside in value.items() if name not in ("scaling", "task")]
    inside = value if isinstance(value, (list, tuple)) else ()
    return set().union(*map(_words, inside)) if inside else set()


def fingerprints(names: tuple[str, ...]) -> dict[str, str]:
    """Name to the fingerprint of its content, of the data sets that are at hand."""
    root = str(data_root())
    return {name: _fingerprint(name, root) for name in names if datasets.available(name)}


@cache
def _fingerprint(name: str, _root: str) -> str:
    # reading a data set to the end takes seconds, and every cell of every experiment asks
    return datasets.fingerprint(name)
