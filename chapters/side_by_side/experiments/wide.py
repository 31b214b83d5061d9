"""Is it the box, or the luck of eight trials? Wider learning rates for all that Adam trains, and other trials.

Everything but the box and the trials is that of the comparison: its steps, rows, seeds and number of trials. What an
outcome means was written down before the runs, in PROTOCOL.md under "Changes".
"""

from collections.abc import Iterable
from typing import Any

from bnnlib.contest import METHODS
from book.lab.cells import Cell, Experiment, profiles
from chapters.side_by_side import tables, uci
from chapters.side_by_side.arena import Task
from chapters.side_by_side.costs import costs, steps
from chapters.side_by_side.experiments.contest import DRAWS, TRIALS, on_simulations, on_tables

OF_ADAM = METHODS["deterministic"].box["lr"]
WIDENED = tuple(name for name, method in METHODS.items() if method.box.get("lr") == OF_ADAM)
RATES_TO = 0.1
SEQUENCES = (1, 2)  # of Sobol points; the comparison has number 0
TASKS: dict[str, Task] = tables.TASKS | uci.TASKS


def setting(task: str, budget: int, rates_to: float = RATES_TO, sequence: int = 0) -> str:
    """The name of a cell's setting, which says its box and its sequence of trials."""
    box = f", learning rates to {rates_to:g}" if rates_to > OF_ADAM.high else ""
    return f"{task}, B = {budget}{box}" + (f", trials {sequence}" if sequence else "")


def cells(profile: str, runs: Iterable[tuple[str, int, float, int]]) -> list[Cell]:
    """One cell for each method and each run: a task, a budget, the end of the rates and the sequence of trials."""
    smoke, found = profile == "smoke", []
    for task, budget, rates_to, sequence in runs:
        place, wide = TASKS[task], rates_to > OF_ADAM.high
        for method in [one for one in (WIDENED if wide else METHODS) if one in costs()[task]][:: 6 if smoke else 1]:
            params: dict[str, Any] = {"task": task, "steps": steps(task, method, place.one, budget), "draws": DRAWS}
            params |= {"steps": 4, "trials": 2} if smoke else {"trials": TRIALS}
            params |= {"rates_to": rates_to} if wide else {}
            params |= {"trials_seed": sequence} if sequence else {}
            if task in tables.TASKS:
                params |= {"test_rows": 500 if smoke else 10_000}
            else:
                params |= {"data": uci.SIMULATED if smoke else task}
            named = setting(task, budget, rates_to, sequence)
            found.append(Cell(named, method, tuple(range(2 if smoke else place.seeds)), params))
    return found


def _simulated(name: str, summary: str, runs: list[tuple[int, float, int]]) -> Experiment:
    """All simulations; a run is a budget, the end of the rates and the sequence of trials."""
    return on_simulations(
        name=name,
        summary=summary,
        profiles=profiles(
            cells,
            smoke=("smoke", (("sparse-teacher", *runs[0]),)),
            book=("book", [(task, *run) for run in runs for task in tables.TASKS]),
        ),
    )


_WIDER = "for all methods that Adam trains"
EXPERIMENTS = [
    _simulated(
        "side-wide", f"Learning rates up to 0.1 and 0.3 {_WIDER}, on the simulations", [(1, RATES_TO, 0), (1, 0.3, 0)]
    ),
    _simulated("side-wide-4", f"Learning rates up to 0.1 {_WIDER}, on the simulations at B = 4", [(4, RATES_TO, 0)]),
    _simulated(
        "side-trials",
        "Other eight trials for all methods, on the simulations",
        [(1, rates_to, number) for number in SEQUENCES for rates_to in (OF_ADAM.high, RATES_TO)],
    ),
    on_tables(
        name="side-table-wide",
        summary=f"Learning rates up to 0.1 {_WIDER}, on the UCI sets",
        profiles=profiles(
            cells,
            smoke=("smoke", (("boston", 1, RATES_TO, 0),)),
            book=("book", [(task, 1, RATES_TO, 0) for task in uci.TASKS]),
        ),
        data={"smoke": (), "book": tuple(uci.TASKS)},
    ),
]
