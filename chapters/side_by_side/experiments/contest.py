"""All methods on the tasks with known truth, and on MNIST and Fashion-MNIST with LeNet-300-100."""

from __future__ import annotations

from functools import partial
from typing import Any

from bnnlib.contest import METHODS
from book.lab.cells import Cell, Experiment, Need, profiles
from book.lab.probes import first
from chapters.shared.images import load_images
from chapters.side_by_side import arena
from chapters.side_by_side.costs import costs, steps

TRIALS, DRAWS = 8, 30
SMOKE = ("deterministic", "spike_slab", "sghmc")


def cells(
    experiment: str, tasks: tuple[str, ...], budgets: tuple[int, ...], seeds: int, params: dict[str, Any], smoke=False
) -> list[Cell]:
    """One cell for each task, budget and method; the budgets above 4 take the settings of 4."""
    found = []
    for task in tasks:
        for method in SMOKE if smoke else [name for name in METHODS if name in costs().get(task, {})]:
            tried: Cell | None = None
            for budget in budgets:
                count = 4 if smoke else steps(task, method, arena.TASKS[task].one, budget)
                own = {"task": task, "steps": count, "trials": 2 if smoke else TRIALS, "draws": DRAWS, **params}
                needs = (Need(experiment, tried),) if tried and budget > 4 else ()
                cell = Cell(f"{task}, B = {budget}", method, tuple(range(seeds)), own, needs)
                found.append(cell)
                tried = cell if budget == 4 else tried
    return found


def image_reads(cell: Cell) -> list[partial]:
    """The calls by which a cell loads its images."""
    asked = {name: cell.params[name] for name in ("data", "held_out", "scaling", "shape") if name in cell.params}
    other = {**asked, "data": cell.params["unknown"], "held_out": 0}
    return [partial(load_images, one, "cpu") for one in (asked, other)]


def _experiment(name: str, summary: str, tasks: tuple[str, ...], seeds: int, budgets, params, small, **about):
    return Experiment(
        name=name,
        paper="all",
        summary=summary,
        profiles=profiles(
            partial(cells, name),
            smoke=(tasks[:1], (1,), 2, {**params, **small}, True),
            book=(tasks, budgets, seeds, params),
        ),
        run_cell=arena.run_cell,
        unavailable={"paper": "not run: no paper has this comparison, and the book profile is whole"},
        measured=("seconds",),
        **about,
    )


def _images(name: str, data: str, other: str) -> Experiment:
    params = {"data": data, "unknown": other, "held_out": 5000, "scaling": "unit"}
    params |= {"shifted_rows": 2000, "severities": [1, 2, 3, 4, 5]}
    small = {"data": "digits", "unknown": "digits", "held_out": 300, "shape": [1, 28], "shifted_rows": 50}
    return _experiment(
        name,
        f"All methods on {'MNIST' if data == 'mnist' else 'Fashion-MNIST'} with LeNet-300-100 at equal cost",
        (data,),
        5,
        (1, 4, 16),
        params,
        small | {"severities": [2]},
        data={"smoke": ("digits",), "book": (data, other)},
        reads=image_reads,
        tiny={"steps": 3, "trials": 1, "draws": 2, "severities": first(1)}
        | {name: value for name, value in small.items() if name != "shape"}
        | {"added": {"shape": [1, 28]}},
    )


EXPERIMENTS = [
    _experiment(
        "side-table",
        "All methods on simulations with known truth at equal cost",
        ("simulation-2", "sparse-teacher", "correlated"),
        10,
        (1, 4, 16),
        {"test_rows": 10_000},
        {"test_rows": 500},
        reads=lambda cell: [partial(arena.rows_read, cell.params["task"], {"test_rows": cell.params["test_rows"]})],
        tiny={"steps": 3, "trials": 1, "draws": 2, "test_rows": 100},
    ),
    _images("side-mnist", "mnist", "fmnist"),
    _images("side-fmnist", "fmnist", "mnist"),
]
