"""Enter a method of your own into the comparison, on equal terms: ``python -m book contest own.py``.

The file defines METHOD, a `bnnlib.contest.Method`; examples/swag.py is one. Its cost is measured in turns with the
deterministic network; it gets the steps that the budget buys, eight trials and the seeds of the stored runs, which the
tables show beside it.
"""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from bnnlib.contest import METHODS, Method
from book.lab.cells import Cell
from book.lab.intervals import estimate
from chapters.side_by_side import tables
from chapters.side_by_side.costs import measured
from chapters.side_by_side.standing import QUESTIONS, standing, table


def entered(method: Method, task: str, budget: int, seeds: int, trials: int = 8) -> list[dict[str, Any]]:
    """Tidy rows of the method on a task, as the store has them.

    Raises:
        ValueError: the name is taken.
    """
    if method.name in METHODS:
        raise ValueError(f"there is a method {method.name!r} already: give yours another name.")
    METHODS[method.name] = method
    try:
        place = tables.TASKS[task]
        problem = place.load(0, "cpu", {})["problem"]
        ratio = measured(place.network(0), problem, min(place.one, 400), [method.name])[method.name]
        params = {"task": task, "steps": max(1, round(place.one * budget / ratio)), "trials": trials, "draws": 30}
        cell = Cell(f"{task}, B = {budget}", method.name, tuple(range(seeds)), params | {"test_rows": 10_000})
        rows = tables.run_cell(cell, torch.device("cpu")).rows
    finally:
        del METHODS[method.name]
    return [*rows, {**rows[0], "metric": "cost", "value": ratio, "setting": cell.setting, "replicate": 0}]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a method from a file, and print it beside the stored ones."""
    parser = argparse.ArgumentParser(prog="python -m book contest", description=__doc__)
    parser.add_argument("file", type=Path, help="Python file that defines METHOD")
    parser.add_argument("--task", choices=tables.TASKS, default="simulation-2")
    parser.add_argument("--budget", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--out", type=Path, help="write the rows there, as JSON")
    given = parser.parse_args(arguments)
    method = runpy.run_path(str(given.file)).get("METHOD")
    if not isinstance(method, Method):
        parser.error(f"{given.file} has no METHOD that is a bnnlib.contest.Method, but it must define one.")
    torch.set_num_threads(1)
    rows = entered(method, given.task, given.budget, given.seeds, given.trials)
    if given.out:
        given.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for metric in ("rmse", "nll", "fdr", "fnr", "bytes"):
        values = [r["value"] for r in rows if r["metric"] == metric and r["setting"].endswith(", tuned")]
        mean, error, n = estimate(values, 0.0)
        own = {"method": f"{method.name} (yours)", "mean": mean, "se": error, "n": n, "verdict": f"{n} seeds"}
        stored = standing(given.task, given.budget, metric)
        sign = QUESTIONS[metric][1]
        beside = {"difference": float("nan"), "low": float("nan"), "high": float("nan")}
        print(f"\n{metric}\n\n{table(sorted([*stored, own | beside], key=lambda row: sign * row['mean']))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
