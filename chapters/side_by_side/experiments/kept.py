"""What early stopping is worth: the other rule for the state that a training ends with, on the small tasks.

By the protocol one network, and what is made of it, ends at its lowest validation loss, and sparse and variational
methods at their last state. Here each has the other rule, with settings of its own trials under it; the rest of a cell
is that of the comparison. A network that is still being pruned, or whose KL term still rises, does not count as best.
"""

from typing import Any

from book.lab.cells import Cell, profiles
from chapters.side_by_side import tables, uci
from chapters.side_by_side.arena import Task
from chapters.side_by_side.costs import costs, steps
from chapters.side_by_side.experiments.contest import DRAWS, TRIALS, on_simulations, on_tables

STOPPED = ("deterministic",)  # which ends at its lowest validation loss, and here at its last state
LAST = ("gaussian", "spike_slab", "gaussian_spike_slab", "sparse_vd", "horseshoe", "unit_noise", "group_lasso")
LAST += ("group_lasso_adam", "gradual_pruning", "lottery_ticket", "random_pruning")
SMALL = {name: uci.TASKS[name] for name in uci.SMALL}
TASKS: dict[str, Task] = tables.TASKS | SMALL


def setting(task: str, method: str) -> str:
    """The name of a cell's setting, which says its rule."""
    return f"{task}, B = 1, {'last state' if method in STOPPED else 'lowest validation loss'}"


def cells(profile: str, tasks: tuple[str, ...]) -> list[Cell]:
    """One cell for each task and method."""
    smoke, found = profile == "smoke", []
    for task in tasks:
        for method in (*STOPPED, *LAST[:: 5 if smoke else 1]):
            if method not in costs()[task]:
                continue
            place = TASKS[task]
            params: dict[str, Any] = {"task": task, "keep": "last" if method in STOPPED else "best", "draws": DRAWS}
            count = 4 if smoke else steps(task, method, place.one, 1)
            params |= {"steps": count, "trials": 2 if smoke else TRIALS}
            if task in SMALL:
                params["data"] = uci.SIMULATED if smoke else task
            else:
                params["test_rows"] = 500 if smoke else 10_000
            found.append(Cell(setting(task, method), method, tuple(range(2 if smoke else place.seeds)), params))
    return found


EXPERIMENTS = [
    on_simulations(
        name="side-kept",
        summary="The other rule for the state that a training ends with, on the simulations",
        profiles=profiles(cells, smoke=("smoke", ("sparse-teacher",)), book=("book", tuple(tables.TASKS))),
    ),
    on_tables(
        name="side-table-kept",
        summary="The other rule for the state that a training ends with, on the small UCI sets",
        profiles=profiles(cells, smoke=("smoke", ("boston",)), book=("book", tuple(SMALL))),
        data={"smoke": (), "book": tuple(SMALL)},
    ),
]
