"""What a step of each method costs relative to the deterministic network: ``python -m chapters.side_by_side.costs``.

The outcome is costs.toml, from which the cells take their steps; it is measured once, because other costs are other
cells.
"""

import datetime
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median

import torch

from bnnlib.contest import METHODS, Problem, UnsuitableError
from chapters.side_by_side import images, tables, uci

FILE = Path(__file__).with_name("costs.toml")
ROUNDS = 5
TWIN = ("batch_norm", "stochastic_batch_norm")  # the control has the steps of the other, so its network is the same
PASSES = ("laplace", "stochastic_batch_norm")  # they go over the data after training
SAME = {"correlated": "sparse-teacher", "Fashion-MNIST": "MNIST"}  # the same sizes of network, rows and batches
SAME |= dict.fromkeys(uci.SMALL, "concrete") | dict.fromkeys(uci.LARGE, "power")  # about the same sizes


@cache
def costs() -> dict[str, dict[str, float]]:
    """Task to method to its cost; a method that is not made for the task is missing."""
    found = tomllib.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    for part in found.values():
        part[TWIN[0]] = part[TWIN[1]]
    return {task: found[like] for task, like in SAME.items() if like in found} | found


def bought(one: int, budget: int, cost: float) -> int:
    """Optimizer steps of a budget, equation (side-budget).

    Args:
        one: those of the deterministic network at budget 1.
        budget: B.
        cost: of the method's step relative to the deterministic one.
    """
    return max(1, round(one * budget / cost))


def steps(task: str, method: str, one: int, budget: int) -> int:
    """Optimizer steps of a method on a task, whose cost is measured."""
    return bought(one, budget, costs()[task][method])


def measured(
    network: torch.nn.Module, problem, steps: int, methods: Sequence[str] = tuple(METHODS)
) -> dict[str, float]:
    """Median over rounds of the ratio of processor times, each method in turn with the deterministic network."""
    found: dict[str, list[float]] = {name: [] for name in methods}
    for round_ in range(ROUNDS + 1):
        base = METHODS["deterministic"].fit(network, problem, steps, round_).cost["seconds"]
        for name in list(found):
            try:
                seconds = METHODS[name].fit(network, problem, steps, round_).cost["seconds"]
            except UnsuitableError:
                del found[name]
                continue
            if round_:  # the first warms up
                found[name].append(seconds / base)
        print(f"round {round_} of {ROUNDS}", flush=True)
    return {name: round(median(ratios), 2) for name, ratios in found.items()} | {"deterministic": 1.0}


def few_steps(
    network: torch.nn.Module, problem: Problem, steps: int, one: int, methods: Sequence[str]
) -> dict[str, float]:
    """As `measured`, where a whole run would take an hour: with ten batches, from which the pass over all follows."""
    rows = 10 * problem.batch_size
    held = problem.x_validation[:100], problem.y_validation[:100]
    small = replace(problem, x=problem.x[:rows], y=problem.y[:rows], x_validation=held[0], y_validation=held[1])
    ratios = measured(network, small, steps, methods)
    for name in set(PASSES) & set(ratios):  # the steps of these two are the deterministic network's
        ratios[name] = round(1.0 + (ratios[name] - 1.0) * steps / one * len(problem.x) / rows, 2)
    return ratios


def main() -> None:
    """Measure, of the tasks named or all, the methods that costs.toml does not have yet."""
    torch.set_num_threads(1)
    tasks = tables.TASKS | images.TASKS | uci.TASKS
    for name in sys.argv[1:] or [task for task in tasks if task not in SAME]:
        missing = [method for method in METHODS if method not in costs().get(name, {})]
        task = tasks[name]
        network, problem = task.network(0), task.load(0, "cpu")["problem"]
        if name == "CIFAR-10":
            ratios = few_steps(network, problem, 10, task.one, missing)
        else:
            ratios = measured(network, problem, min(task.one, 100 if name == "MNIST" else 400), missing)
        passes = [method for method in PASSES if method in missing]
        if name in ("MNIST", "power") and passes:  # what is paid once, after training, weighs as in a whole run
            ratios |= measured(network, problem, task.one, passes)
        _write(name, {method: ratio for method, ratio in ratios.items() if method in missing})
        print(name, ratios, flush=True)


def _write(task: str, ratios: dict[str, float]) -> None:
    """Add lines to the task's part of the file, or a part for it."""
    parts = [part for part in FILE.read_text(encoding="utf-8").split("\n\n") if part.strip()] if FILE.exists() else []
    lines = [f"# processor time of a run, torch {torch.__version__}, {datetime.date.today()}"]
    lines += [f"{method} = {ratio}" for method, ratio in ratios.items()]
    old = next((number for number, part in enumerate(parts) if part.strip().startswith(f"[{task}]")), None)
    if old is None:
        parts.append("\n".join([f"[{task}]", *lines]))
    elif ratios:
        parts[old] = "\n".join([parts[old].strip(), *lines])
    FILE.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")
    costs.cache_clear()


if __name__ == "__main__":
    main()
