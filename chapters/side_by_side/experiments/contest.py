"""All methods on the tasks with known truth, on UCI sets, on MNIST and Fashion-MNIST, and on CIFAR-10."""

from functools import partial
from typing import Any

from bnnlib.contest import METHODS
from book.lab.cells import Cell, Experiment, Need, profiles
from book.lab.probes import first
from chapters.shared.images import load_images
from chapters.side_by_side import images, rivals, tables, uci
from chapters.side_by_side.arena import Task
from chapters.side_by_side.costs import costs, steps

TRIALS, DRAWS = 8, 30
SMOKE = ("deterministic", "spike_slab", "sghmc")
UNAVAILABLE = "not run: no paper has this comparison, and the book profile is whole"
comparison = partial(
    Experiment,
    unavailable={"paper": UNAVAILABLE},
    measured=("seconds",),
    renamed={"coverage": "coverage_predictive"},
)


def cells(experiment: str, tasks: dict[str, Task], budgets: tuple[int, ...], params: dict[str, Any], smoke=False):
    """One cell for each task, budget and method; the budgets above 4 take the settings of 4."""
    found = []
    for task, place in tasks.items():
        for method in SMOKE if smoke else [name for name in METHODS if name in costs().get(task, {})]:
            tried: Cell | None = None
            for budget in budgets:
                count = 4 if smoke else steps(task, method, place.one, budget)
                own = {"task": task, "steps": count, "trials": 2 if smoke else TRIALS, "draws": DRAWS, **params}
                needs = (Need(experiment, tried),) if tried and budget > 4 else ()
                seeds = tuple(range(2 if smoke else place.seeds))
                cell = Cell(f"{task}, B = {budget}", method, seeds, own, needs)
                found.append(cell)
                tried = cell if budget == 4 else tried
    return found


def image_reads(cell: Cell) -> list[partial]:
    """The calls by which a cell loads its images."""
    asked = {name: cell.params[name] for name in ("data", "held_out", "scaling", "shape") if name in cell.params}
    other = {**asked, "data": cell.params["unknown"], "held_out": 0}
    return [partial(load_images, one, "cpu") for one in (asked, other)]


def _experiment(kind, name: str, summary: str, tasks: dict[str, Task], budgets, params, small, **about) -> Experiment:
    return kind(
        name=name,
        summary=summary,
        profiles=profiles(
            partial(cells, name),
            smoke=(dict(list(tasks.items())[:1]), (1,), {**params, **small}, True),
            book=(tasks, budgets, params),
        ),
        **about,
    )


on_simulations = partial(
    comparison, run_cell=tables.run_cell, tiny={"steps": 3, "trials": 1, "draws": 2, "test_rows": 100}
)
on_tables = partial(
    comparison,
    run_cell=uci.run_cell,
    reads=uci.reads,
    overlap=1 / 9,
    tiny={"steps": 3, "trials": 1, "draws": 2, "data": uci.SIMULATED},
)


def _simulation(task: str) -> Experiment:
    return _experiment(
        on_simulations,
        f"side-{task}",
        f"All methods on {tables.SUMMARIES[task]} at equal cost",
        {task: tables.TASKS[task]},
        (1, 4, 16),
        {"test_rows": 10_000},
        {"test_rows": 500},
    )


def _images(
    task: str, name: str, data: str, other: str, network="LeNet-300-100", shape=(1, 28), budgets=(1, 4, 16), **more
) -> Experiment:
    params = {"data": data, "unknown": other, "held_out": 5000, "scaling": "unit"}
    params |= {"shifted_rows": 2000, "severities": [1, 2, 3, 4, 5], **more}
    small = {"data": "digits", "unknown": "digits", "held_out": 300, "shape": list(shape), "shifted_rows": 50}
    small |= {"draws": 2, "held_out": 50} if shape[0] > 1 else {}
    return _experiment(
        comparison,
        name,
        f"All methods on {task} with {network} at equal cost",
        {task: images.TASKS[task]},
        budgets,
        params,
        small | {"severities": [2]},
        data={"smoke": ("digits",), "book": (data, other)},
        run_cell=images.run_cell,
        reads=image_reads,
        tiny={"steps": 3, "trials": 1, "draws": 2, "severities": first(1)}
        | {name: value for name, value in small.items() if name != "shape"}
        | {"added": {"shape": [1, 28]}},
    )


def _uci(name: str) -> Experiment:
    return _experiment(
        on_tables,
        f"side-{name}",
        f"All methods on the UCI set {name} with 50 hidden units at equal cost",
        {name: uci.TASKS[name]},
        (1, 4),
        {"data": name},
        {"data": uci.SIMULATED},
        data={"smoke": (), "book": (name,)},
    )


def _rivals(tasks: tuple[str, ...], seeds: int, test_rows: int) -> list[Cell]:
    return [
        Cell(f"{task}, rivals", rival, tuple(range(seeds)), {"task": task, "test_rows": test_rows})
        for task in tasks
        for rival in rivals.RIVALS
    ]


def _table_rivals(data: dict[str, str]) -> list[Cell]:
    """Those that predict, on each set; the smoke profile has simulated rows in its place."""
    return [
        Cell(f"{task}, rivals", rival, tuple(range(uci.TASKS[task].seeds)), {"task": task, "data": source})
        for task, source in data.items()
        for rival in rivals.RIVALS
        if rival != "knockoffs"
    ]


EXPERIMENTS = [
    *(_simulation(task) for task in tables.TASKS),
    _images("MNIST", "side-mnist", "mnist", "fashion_mnist"),
    _images("Fashion-MNIST", "side-fmnist", "fashion_mnist", "mnist"),
    # on a GPU that is lent by the minute: defaults alone
    _images("CIFAR-10", "side-cifar10", "cifar10", "fashion_mnist", "ResNet20", (3, 32), (1,), trials=1),
    *(_uci(name) for name in uci.TASKS),
    Experiment(
        name="side-rivals",
        summary="Lasso, forest, boosting and knockoffs on the simulations",
        profiles=profiles(_rivals, smoke=(("sparse-teacher",), 2, 500), book=(tuple(tables.TASKS), 10, 10_000)),
        unavailable={"paper": UNAVAILABLE},
        measured=("seconds",),
        run_cell=rivals.run_cell,
        tiny={"test_rows": 100},
    ),
    Experiment(
        name="side-table-rivals",
        summary="Lasso, forest and boosting on the UCI sets",
        profiles=profiles(
            _table_rivals, smoke=({"boston": uci.SIMULATED},), book=({task: task for task in uci.TASKS},)
        ),
        unavailable={"paper": UNAVAILABLE},
        measured=("seconds",),
        data={"smoke": (), "book": tuple(uci.TASKS)},
        run_cell=uci.run_rival,
        reads=uci.reads,
        overlap=1 / 9,
        tiny={"data": uci.SIMULATED},
    ),
]
