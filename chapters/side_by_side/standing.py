"""Where each method stands beside its reference, by the protocol's rule of judgment.

python -m chapters.side_by_side.standing simulation-2 --budget 1 --metric rmse
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from typing import Any

from book.lab import catalog, queries
from book.lab.intervals import chance, estimate, holm, quantile
from book.lab.tables import markdown_table

# metric: (reference, sign by which less is better, half width of the region of practical equivalence; a share of the
# reference's mean where it is negative)
MISSED = 90.0  # percent of the relevant inputs, above which a low rate of false discoveries says nothing
IMAGES = {"MNIST": "side-mnist", "Fashion-MNIST": "side-fmnist"}
QUESTIONS: dict[str, tuple[str, float, float]] = {
    "rmse": ("ensemble", 1.0, -0.02),
    "nll": ("ensemble", 1.0, 0.02),
    "crps": ("ensemble", 1.0, -0.02),
    "accuracy": ("ensemble", -1.0, 0.1),
    "nll_tempered": ("ensemble", 1.0, 0.005),
    "auroc_unknown": ("ensemble", -1.0, 0.5),
    "fdr": ("gradual_pruning", 1.0, 2.0),
    "fnr": ("gradual_pruning", 1.0, 2.0),
    "inclusion_brier": ("gradual_pruning", 1.0, 0.005),
    "active": ("gradual_pruning", 1.0, 1.0),
    "bytes": ("gradual_pruning", 1.0, -0.02),
    "seconds": ("deterministic", 1.0, -0.05),
}


def judge(gaps: Mapping[str, Sequence[float]], sign: float, region: float) -> dict[str, dict[str, Any]]:
    """What paired differences to one reference say, all methods of a question together.

    Args:
        gaps: method to its differences by seed, method minus reference.
        sign: 1 where less is better, -1 where more is.
        region: half width of what is practically equal.

    Returns:
        Method to {"difference", "low", "high", "n", "verdict"}: "better" and "worse" of differences that Holm keeps at
        5 % over all methods and whose mean is outside the region; "tie" of those whose 95 % interval lies inside it;
        else "undecided", also with fewer than three seeds.
    """
    found: dict[str, dict[str, Any]] = {}
    chances: dict[str, float] = {}
    for name, values in gaps.items():
        mean, error, n = estimate(list(values), 0.0)
        wide = quantile(n - 1) * error if n > 1 else math.inf
        found[name] = {"difference": mean, "low": mean - wide, "high": mean + wide, "n": n, "verdict": "undecided"}
        if n >= 3 and math.isfinite(mean):
            chances[name] = chance(abs(mean), error, n - 1) if error > 0.0 else float(mean == 0.0)
    kept = holm(sorted(chances.values()), max(len(gaps), 1)) if chances else 0
    for name in sorted(chances, key=chances.__getitem__)[:kept]:
        if abs(found[name]["difference"]) > region:
            found[name]["verdict"] = "better" if sign * found[name]["difference"] < 0.0 else "worse"
    for name in chances:
        if -region <= found[name]["low"] and found[name]["high"] <= region:
            found[name]["verdict"] = "tie"
    return found


def standing(task: str, budget: int, metric: str, kind: str = "tuned") -> list[dict[str, Any]]:
    """A row a method, best mean first: mean and standard error, and what `judge` says; [] where nothing is stored.

    Args:
        task: of `tables.TASKS` or `images.TASKS`.
        budget: B.
        metric: one of `QUESTIONS`.
        kind: "tuned" or "default".
    """
    reference, sign, region = QUESTIONS[metric]
    name, place = experiment_of(task), f"{task}, B = {budget}, {kind}"
    methods = dict.fromkeys(cell.method for cell in catalog.get(name).profiles["book"]())
    values = {one: queries.stored_values(name, place, one, metric) for one in methods}
    values = {one: numbers for one, numbers in values.items() if len(numbers)}
    base = values.get(reference)
    if base is None:
        return []
    region = region if region > 0.0 else -region * abs(float(base.mean()))
    others = {one: numbers - base for one, numbers in values.items() if one != reference and len(numbers) == len(base)}
    said = judge(others, sign, region)
    if metric == "fdr":  # 0 by name where nothing is found
        for one in said:
            missed = queries.stored_values(name, place, one, "fnr")
            if len(missed) and missed.mean() > MISSED:
                said[one]["verdict"] = "finds nothing"
    rows = []
    for one, numbers in values.items():
        mean, error, n = estimate(numbers.tolist(), 0.0)
        about = {"method": one, "mean": mean, "se": error, "n": n}
        rows.append(about | said.get(one, {"verdict": "reference", "difference": 0.0, "low": 0.0, "high": 0.0}))
    return sorted(rows, key=lambda row: sign * row["mean"])


def experiment_of(task: str) -> str:
    """The experiment that a task belongs to."""
    return IMAGES.get(task, f"side-{task}")


def table(rows: Sequence[Mapping[str, Any]], digits: int = 3) -> str:
    """The rows as Markdown."""
    columns = ("method", "mean", "s.e.", "minus reference", "95 % interval", "verdict")
    lines = [
        (
            row["method"],
            f"{row['mean']:.{digits}f}",
            f"{row['se']:.{digits}f}",
            f"{row['difference']:+.{digits}f}",
            f"{row['low']:+.{digits}f} to {row['high']:+.{digits}f}",
            row["verdict"],
        )
        for row in rows
    ]
    return markdown_table(columns, lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one question's table."""
    parser = argparse.ArgumentParser(prog="python -m chapters.side_by_side.standing", description=__doc__)
    parser.add_argument("task", help="simulation-2, sparse-teacher, correlated, MNIST, Fashion-MNIST or a UCI set")
    parser.add_argument("--budget", type=int, default=1, help="multiple of the deterministic network's cost")
    parser.add_argument("--metric", choices=QUESTIONS, default="nll")
    parser.add_argument("--default", action="store_true", help="the default settings in place of the tuned ones")
    given = parser.parse_args(arguments)
    rows = standing(given.task, given.budget, given.metric, "default" if given.default else "tuned")
    print(
        table(rows)
        if rows
        else f"Nothing is stored of {given.task} at B = {given.budget}: run {experiment_of(given.task)}."
    )


if __name__ == "__main__":
    main()
