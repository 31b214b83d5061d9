"""Enter a method of your own into the comparison, on equal terms: ``python -m book contest own.py``.

The file defines METHOD, a `bnnlib.contest.Method`; examples/ has two. Its cost is measured in turns with the
deterministic network; it gets the steps that the budget buys, eight trials and the seeds of the stored runs, and is
judged beside them as the protocol has it. Its rows are written beside the file.
"""

import argparse
import json
import os
import runpy
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bnnlib._files import write_atomic
from bnnlib.contest import METHODS, Method, Predictor, UnsuitableError
from bnnlib.datasets import DatasetError
from book.lab import catalog
from book.lab.cells import Cell
from book.lab.tables import markdown_table
from chapters.side_by_side import images, tables, uci
from chapters.side_by_side.arena import Task
from chapters.side_by_side.costs import bought, measured
from chapters.side_by_side.matrix import IMAGE_QUESTIONS, QUESTIONS
from chapters.side_by_side.standing import BUDGETS, experiment_of, standing, table
from chapters.side_by_side.standing import QUESTIONS as REFERENCES

TASKS = {name: task for name, task in (tables.TASKS | uci.TASKS | images.TASKS).items() if name != "CIFAR-10"}


def cell_of(task: str, budget: int) -> Cell:
    """The cell of the deterministic network, which has all that a task's cells share.

    Raises:
        ValueError: the comparison does not have that budget.
    """
    cells = catalog.get(experiment_of(task)).profiles["book"]()
    own = {one.setting: one for one in cells if one.method == "deterministic"}
    name = f"{task}, B = {budget}"
    if name not in own:
        had = ", ".join(setting.rpartition(" ")[2] for setting in own)
        raise ValueError(f"{task} is compared at the budgets {had}, not at {budget}: give one of them with --budget.")
    return own[name]


def check(method: Method, place: Task, cell: Cell) -> None:
    """Three steps of the method, and what comes of them, before minutes are spent.

    Raises:
        ValueError: what it returns cannot be compared; the message says what is wanted.
    """
    problem = place.load(0, "cpu", cell.params)["problem"]
    x = problem.x_validation[:5]
    wanted = (len(x), problem.y.shape[1] if problem.y.dim() == 2 else int(problem.y.max()) + 1)
    network = place.network(0)
    predictor = method.train(network, problem, 3, 0, **{name: one.default for name, one in method.box.items()})
    if not isinstance(predictor, Predictor):
        kind = type(predictor).__name__
        raise ValueError(f"train of {method.name!r} returns a {kind}, but it must return a bnnlib.contest.Predictor.")
    outputs = predictor.predict(x, 2)
    if outputs.dim() != 3 or tuple(outputs.shape[1:]) != wanted:
        raise ValueError(
            f"draws of {method.name!r} give outputs of shape {tuple(outputs.shape)}, but of {wanted[0]} rows they must "
            f"be (S, {wanted[0]}, {wanted[1]}), one for each of S draws: torch.stack them."
        )
    if not torch.equal(outputs, predictor.predict(x, 2)):
        raise ValueError(
            f"draws of {method.name!r} give other outputs for the same generator: take all random numbers from it, or "
            "seed PyTorch's own with generator.initial_seed() inside torch.random.fork_rng()."
        )


def entered(method: Method, task: str, budget: int, seeds: int | None = None, trials: int = 8) -> list[dict[str, Any]]:
    """Tidy rows of the method on a task, as the store has them.

    Args:
        seeds: how many of the stored ones, from the first; all by default.
        trials: settings that are tried. Budgets above 4 take the settings of 4, as those of the others do.

    Raises:
        ValueError: the name is taken, or the method or the budget do not fit.
    """
    if method.name in METHODS:
        raise ValueError(f"there is a method {method.name!r} already: give yours another name.")
    place, run = TASKS[task], catalog.get(experiment_of(task)).run_cell
    base = cell_of(task, budget)
    check(method, place, base)
    METHODS[method.name] = method
    try:
        problem = place.load(0, "cpu", base.params)["problem"]
        print(f"Measuring what {method.name} costs, in turns with the deterministic network ...", flush=True)
        few = min(place.one, 100 if task in images.TASKS else 400)
        ratio = measured(place.network(0), problem, few, [method.name])[method.name]

        def cell(like: Cell, budget: int, replicates: tuple[int, ...]) -> Cell:
            steps = bought(place.one, budget, ratio)
            params = like.params | {"steps": steps, "trials": min(trials, like.params["trials"])}
            return replace(like, method=method.name, replicates=replicates, params=params, needs=())

        own = cell(base, budget, base.replicates[:seeds])
        steps, one = own.params["steps"], base.params["steps"]
        print(f"A step costs {ratio:g} of its: B = {budget} buys {steps} steps, of the deterministic network {one}.")
        print(f"{own.params['trials']} trials, then {len(own.replicates)} seeds ...", flush=True)
        device = torch.device("cpu")
        products = [run(cell(need.cell, 4, ()), device).product for need in base.needs]
        rows = run(own, device, products=products).rows
    finally:
        del METHODS[method.name]
    return [*rows, {**rows[0], "metric": "cost", "value": ratio, "setting": own.setting, "replicate": 0}]


def values(rows: Sequence[dict[str, Any]], metric: str, kind: str = "tuned") -> list[float]:
    """A metric by seed, as `standing.values` has it of the stored methods."""
    if metric == "selection_error":
        return [(a + b) / 2.0 for a, b in zip(values(rows, "fpr", kind), values(rows, "fnr", kind), strict=True)]
    return [row["value"] for row in rows if row["metric"] == metric and row["setting"].endswith(f", {kind}")]


def measures(task: str) -> dict[str, str]:
    """The chapter's questions about a task, and what answers each."""
    asked = IMAGE_QUESTIONS if task in images.TASKS else QUESTIONS
    return {question: metric for question, (metric, _) in asked.items()}


def summary(name: str, rows: Sequence[dict[str, Any]], task: str, budget: int) -> str:
    """What the questions of the chapter say of the method, judged with all others; a line each, tuned and default."""
    lines = []
    for question, metric in measures(task).items():
        for kind in ("tuned", "default"):
            numbers = values(rows, metric, kind)
            said = standing(task, budget, metric, kind, entered={name: numbers}) if numbers else []
            for row in (row for row in said if row["method"] == name):
                beside = REFERENCES[metric][0]
                gap = f"{row['difference']:+.3f}", f"{row['low']:+.3f} to {row['high']:+.3f}"
                lines.append((question, metric, kind, f"{row['mean']:.3f}", beside, *gap, row["verdict"]))
    columns = ("question", "measure", "settings", "yours", "beside", "minus it", "95 % interval", "verdict")
    return markdown_table(columns, lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a method from a file, print it beside the stored ones, and write its rows."""
    parser = argparse.ArgumentParser(prog="python -m book contest", description=__doc__)
    parser.add_argument("file", type=Path, help="Python file that defines METHOD")
    parser.add_argument("--task", choices=TASKS, default="simulation-2", metavar="TASK", help=", ".join(TASKS))
    parser.add_argument("--budget", type=int, choices=BUDGETS, default=1, help="multiple of the deterministic cost")
    parser.add_argument("--seeds", type=int, help="how many of the stored seeds (default: all, as the protocol has it)")
    parser.add_argument("--trials", type=int, default=8, help="settings that are tried (default: 8, as the protocol)")
    parser.add_argument("--out", type=Path, help="where its rows go (default: beside the file), as JSON")
    parser.add_argument("--tables", action="store_true", help="print the whole table of each question, too")
    given = parser.parse_args(arguments)
    for name in ("seeds", "trials"):
        if getattr(given, name) is not None and getattr(given, name) < 1:
            parser.error(f"--{name} is {getattr(given, name)}, but it must be at least 1.")
    if not given.file.is_file():
        parser.error(f"there is no file {given.file}.")
    method = runpy.run_path(str(given.file)).get("METHOD")
    if not isinstance(method, Method):
        parser.error(f"{given.file} has no METHOD that is a bnnlib.contest.Method, but it must define one.")
    out = given.out or given.file.with_name(f"{given.file.stem}.{given.task}.B{given.budget}.json")
    if not os.access(out.parent, os.W_OK) or out.is_dir():  # before the hours of work whose rows it gets
        parser.error(f"{out} cannot be written; give --out a file in a folder that is there and can be written.")
    torch.set_num_threads(1)
    try:
        rows = entered(method, given.task, given.budget, given.seeds, given.trials)
    except UnsuitableError as error:
        parser.error(f"{method.name!r} says that it is not made for {given.task}: {error}")
    except (ValueError, DatasetError) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print("interrupted: a contest is measured whole, nothing of it is kept", file=sys.stderr)
        return 130
    write_atomic(out, (json.dumps(rows, indent=1) + "\n").encode())
    for metric in measures(given.task).values() if given.tables else ():
        if numbers := values(rows, metric):
            print(f"\n{metric}\n\n{table(standing(given.task, given.budget, metric, entered={method.name: numbers}))}")
    chosen = {r["metric"].removeprefix("setting "): r["value"] for r in rows if r["metric"].startswith("setting ")}
    print(
        "Chosen by the trials: " + (", ".join(f"{name} = {one:g}" for name, one in chosen.items()) or "nothing to tune")
    )
    if lost := sum(values(rows, "diverged")):
        print(f"{lost:.0f} of {len(values(rows, 'diverged'))} runs diverged and count as the constant predictor.")
    print(f"\n{method.name} on {given.task} at B = {given.budget}, judged with the stored methods:\n")
    print(summary(method.name, rows, given.task, given.budget))
    print(f"\nIts rows are in {out}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
