"""What an experiment is: cells of work, their rows, and the checkpoint of a long cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch

from bnnlib.train.checkpoint import Checkpoint

PROFILES = ("smoke", "book", "paper")


class ExperimentError(ValueError):
    """A request that cannot be carried out: unknown name, profile, device or filter."""


@dataclass(frozen=True)
class Cell:
    """The unit of work, of caching and of retry: one stacked batch of replicates.

    Args:
        setting: what is varied, for example ``"U(-1,1)"`` or ``"1b/lambda=1e-05"``.
        method: the method's short name, for example ``"SVBNN"``.
        replicates: the replicate numbers trained together; each one seeds its own data and noise.
        params: everything else that decides the rows (epochs, sizes, step size ...); must be JSON-able.
        needs: the cells whose products this one starts from; its function gets them as ``products``, in this order.
    """

    setting: str
    method: str
    replicates: tuple[int, ...]
    params: dict[str, Any] = field(default_factory=dict)
    needs: tuple[Need, ...] = ()

    @property
    def label(self) -> str:
        """Text that ``--only`` is matched against and that progress shows."""
        numbers = self.replicates
        span = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
        return f"{self.setting} {self.method} [{span}]"

    def as_json(self) -> dict[str, Any]:
        """The cell as plain JSON types; what it needs is not among them."""
        where = {"setting": self.setting, "method": self.method, "replicates": list(self.replicates)}
        return where | {"params": self.params}


@dataclass(frozen=True)
class Need:
    """A cell, of the same experiment or of another, whose product is needed: a trained network, say.

    Args:
        experiment: the name of the experiment that the cell belongs to.
        cell: equal to the one in that experiment's profile, so that both are computed once.
    """

    experiment: str
    cell: Cell


@dataclass(frozen=True)
class CellResult:
    """What a cell returns.

    Args:
        rows: tidy rows ``{"setting", "method", "replicate", "metric", "value"}``, optionally with a ``"note"``.
        arrays: small arrays for replays; all cells of a profile together stay below 200 kB compressed.
        product: what other cells may start from; dicts and lists of tensors (on any device), numbers and strings.
    """

    rows: list[dict[str, Any]]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    product: dict[str, Any] | None = None


def rows_of(
    cell: Cell,
    values: Mapping[str, Any],
    setting: str | Sequence[str] = "",
    method: str = "",
    replicate: int | None = None,
    note: str = "",
) -> list[dict[str, Any]]:
    """Tidy rows of a cell, whose setting, method and first replicate stand where nothing else is given.

    `values` holds for each metric a number, or a tensor (settings * replicates,) with one for each, settings varying
    slowest; of several settings there are names.
    """
    settings = [setting or cell.setting] if isinstance(setting, str) else setting
    networks = list(product(settings, cell.replicates))
    alone = [(settings[0], cell.replicates[0] if replicate is None else replicate)]
    rows = []
    for metric, value in values.items():
        column = isinstance(value, torch.Tensor) and value.ndim > 0
        for (place, number), one in zip(networks if column else alone, value if column else [value], strict=True):
            where = {"setting": place, "method": method or cell.method, "replicate": number}
            rows.append(where | {"metric": metric, "value": float(one)} | ({"note": note} if note else {}))
    return rows


def profiles(cells: Callable[..., list[Cell]], **given: Any) -> dict[str, Callable[[], list[Cell]]]:
    """Profile name to a function that lists its cells.

    Args:
        cells: lists the cells of any profile.
        given: profile name to what `cells` is given there, several arguments as a tuple; or a function in its place.
    """
    listed = {name: one if isinstance(one, tuple) else (one,) for name, one in given.items()}
    return {name: one[0] if callable(one[0]) else partial(cells, *one) for name, one in listed.items()}


def epochs_of(cell: Cell) -> tuple[float, str]:
    """The usual budget: the cell's parameter "epochs"."""
    return cell.params["epochs"], "epochs"


OURS = "not in the paper; the book profile is our own experiment"


@dataclass(frozen=True)
class Experiment:
    """One row of ``python -m book list``: a grid of cells for each profile and the function that computes a cell.

    Args:
        name: unique, lower case with hyphens, for example ``"svbnn-simulation-2"``.
        summary: one line.
        profiles: profile name to a function that lists its cells.
        run_cell: ``run_cell(cell, device, checkpoint)`` returns a `CellResult`; a top-level function of its module.
        data: names of the data sets behind cells whose parameters name none; for some profiles only when it is a dict
            of profile to names. What cells read is fetched before the first of them starts.
        unavailable: profile name to the reason why no result of it is published here; `OURS` for a paper profile that
            there is not.
        methods: optional; method name to the function that computes the cells of that method in place of ``run_cell``.
            Editing one method's code then leaves the finished cells of the other methods valid.
        several_devices: a cell can be computed on several devices; its function then takes a keyword ``devices``.
        derived: optional; what follows from the arrays beside a result without running anything: a function from them,
            keyed as by `book.lab.load_arrays`, to more rows, which `book.lab.compare` puts after the stored ones.
        budget: optional; a cell's epochs or iterations with their unit, all stages together where the paper counts
            them; laid beside the published budget.
        overlap: where replicates are random splits of the same rows, the ratio of test rows to training rows, by which
            their errors are correlated (`book.lab.verdicts.spread`).
        renamed: stored metric to its key in `metrics.toml`, where the stored name means something else there.
        sources: method in the rows to that of the cell it comes from, where they differ.
        version: of the code that decides the rows, for all methods or by method. Raise it when you change what a cell
            computes on purpose: the cells of the older version are computed again.
        tiny: parameters that make a cell take seconds while it takes the same branches, see `book.lab.probes`.
        reads: the calls by which a cell loads its data, as partials of the functions that it calls itself, see
            `book.lab.inputs`; asked of every experiment that has data sets.
        schedules: name to ``(function, range)`` of what changes while a cell runs, step sizes for example, and the
            steps or epochs that it is asked for; asked of every experiment whose cells have such a thing.
        precision: of the arithmetic behind the rows, by which probes are compared: "float64", "float32" or "bfloat16".
        measured: beginnings of the names of metrics that are times of a machine, which no run repeats.
        value: how much the results are worth to the book; ``run --all`` starts with the largest.
    """

    name: str
    summary: str
    profiles: dict[str, Callable[[], list[Cell]]]
    run_cell: Callable[[Cell, torch.device, Checkpoint | None], CellResult]
    data: tuple[str, ...] | dict[str, tuple[str, ...]] = ()
    unavailable: dict[str, str] = field(default_factory=dict)
    methods: dict[str, Callable[[Cell, torch.device, Checkpoint | None], CellResult]] = field(default_factory=dict)
    several_devices: bool = False
    derived: Callable[[Mapping[tuple[str, str, int, str], np.ndarray]], list[dict[str, Any]]] | None = None
    budget: Callable[[Cell], tuple[float, str]] | None = None
    overlap: float = 0.0
    sources: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    version: int | dict[str, int] = 1
    tiny: dict[str, Any] = field(default_factory=dict)
    reads: Callable[[Cell], list[partial]] | None = None
    schedules: Callable[[Cell], dict[str, tuple[Callable[[int], Any], range]]] | None = None
    precision: str = "float32"
    measured: tuple[str, ...] = ()
    value: float = 1.0

    def __post_init__(self) -> None:
        if "paper" not in self.profiles:
            object.__setattr__(self, "unavailable", {"paper": OURS} | self.unavailable)

    def version_of(self, method: str) -> int:
        """The declared version of a method's code."""
        return self.version if isinstance(self.version, int) else self.version.get(method, 1)

    def data_sets(self, profile: str) -> tuple[str, ...]:
        """Names of the data sets behind those cells of the profile whose parameters name none."""
        return tuple(self.data.get(profile, ())) if isinstance(self.data, dict) else self.data

    def function(self, cell: Cell) -> Callable[[Cell, torch.device, Checkpoint | None], CellResult]:
        """The function that computes this cell."""
        return self.methods.get(cell.method, self.run_cell)
