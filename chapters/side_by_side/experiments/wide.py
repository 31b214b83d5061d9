"""Is it the box? Learning rates up to 0.1 in place of 0.03 for all methods that Adam trains, on the simulations.

Everything but the box is that of the comparison: its steps, rows, seeds and eight trials. What an outcome means was
written down before the runs, in PROTOCOL.md under "Changes".
"""

from __future__ import annotations

from bnnlib.contest import METHODS
from book.lab.cells import Cell, Experiment, profiles
from chapters.side_by_side import tables
from chapters.side_by_side.costs import costs, steps
from chapters.side_by_side.experiments.contest import DRAWS, TRIALS, UNAVAILABLE

OF_ADAM = METHODS["deterministic"].box["lr"]
WIDENED = tuple(name for name, method in METHODS.items() if method.box.get("lr") == OF_ADAM)
RATES_TO = 0.1


def setting(task: str, budget: int) -> str:
    """The name of a cell's setting, which says its box."""
    return f"{task}, B = {budget}, learning rates to {RATES_TO:g}"


def cells(profile: str, tasks: tuple[str, ...], budgets: tuple[int, ...]) -> list[Cell]:
    """One cell for each task, budget and method."""
    smoke, found = profile == "smoke", []
    for task in tasks:
        place = tables.TASKS[task]
        for budget in budgets:
            for method in [one for one in WIDENED if one in costs()[task]][:: 6 if smoke else 1]:
                size = {"steps": 4, "trials": 2} if smoke else {"trials": TRIALS}
                params = {"task": task, "steps": steps(task, method, place.one, budget), "draws": DRAWS}
                params |= size | {"rates_to": RATES_TO, "test_rows": 500 if smoke else 10_000}
                found.append(Cell(setting(task, budget), method, tuple(range(2 if smoke else place.seeds)), params))
    return found


EXPERIMENTS = [
    Experiment(
        name="side-wide",
        paper="all",
        summary="Learning rates up to 0.1 for all methods that Adam trains, on the simulations",
        profiles=profiles(cells, smoke=("smoke", ("sparse-teacher",), (1,)), book=("book", tuple(tables.TASKS), (1,))),
        unavailable={"paper": UNAVAILABLE},
        measured=("seconds",),
        run_cell=tables.run_cell,
        tiny={"steps": 3, "trials": 1, "draws": 2, "test_rows": 100},
    )
]
