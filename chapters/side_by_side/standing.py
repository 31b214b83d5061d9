"""Where each method stands beside its reference, by the protocol's rule of judgment.

python -m chapters.side_by_side.standing simulation-2 --budget 1 --metric rmse
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bnnlib.contest import METHODS
from book.lab import catalog, queries, store
from book.lab.intervals import chance, estimate, holm, quantile
from book.lab.tables import markdown_table
from chapters.side_by_side import tables
from chapters.side_by_side.costs import costs
from chapters.side_by_side.experiments.kept import setting as kept_setting
from chapters.side_by_side.experiments.wide import OF_ADAM, RATES_TO, SEQUENCES
from chapters.side_by_side.experiments.wide import setting as wide_setting
from chapters.side_by_side.rivals import RIVALS

MISSED = 90.0  # percent of the relevant inputs, above which a low rate of false discoveries says nothing
IMAGES = {"MNIST": "side-mnist", "Fashion-MNIST": "side-fmnist", "CIFAR-10": "side-cifar10"}
IMAGES["MNIST, attacked"] = "side-attacks"  # with default settings alone
BUDGETS = (1, 4, 16)
# metric: (reference, sign by which less is better, half width of the region of practical equivalence; a share of the
# reference's mean where it is negative)
QUESTIONS: dict[str, tuple[str, float, float]] = {
    "rmse": ("ensemble", 1.0, -0.02),
    "nll": ("ensemble", 1.0, 0.02),
    "crps": ("ensemble", 1.0, -0.02),
    "accuracy": ("ensemble", -1.0, 0.1),
    "nll_tempered": ("ensemble", 1.0, 0.005),
    "auroc_unknown": ("ensemble", -1.0, 0.5),
    "fdr": ("gradual_pruning", 1.0, 2.0),
    "fnr": ("gradual_pruning", 1.0, 2.0),
    "selection_error": ("lasso", 1.0, 2.0),
    "inclusion_brier": ("gradual_pruning", 1.0, 0.005),
    "active": ("gradual_pruning", 1.0, 1.0),
    "bytes": ("gradual_pruning", 1.0, -0.02),
    "flops": ("gradual_pruning", 1.0, -0.02),
    "accuracy_pgd_0.1": ("ensemble", -1.0, 0.5),
    "milliseconds_compressed": ("gradual_pruning", 1.0, -0.05),
    "rmse_shipped": ("deterministic", 1.0, -0.02),
    "accuracy_shipped": ("deterministic", -1.0, 0.1),
    "seconds": ("deterministic", 1.0, -0.05),
}


# of `experiments.wide`: where the learning rates of Adam end, and the sequence of trials
BOXES = {"wide box": (RATES_TO, 0), "widest box": (0.3, 0)}
BOXES |= {f"trials {number}": (OF_ADAM.high, number) for number in SEQUENCES}
BOXES |= {f"wide box, trials {number}": (RATES_TO, number) for number in SEQUENCES}
# which keep all inputs by design: no answer to which of them matter
KEEPS_ALL = ("deterministic", "deterministic_sgd", "ensemble", "dropout", "laplace", "batch_norm")
KEEPS_ALL += ("stochastic_batch_norm", "sghmc", "gaussian", "random_pruning", "small_dense")


def judge(
    gaps: Mapping[str, Sequence[float]], sign: float, region: float, overlap: float = 0.0
) -> dict[str, dict[str, Any]]:
    """What paired differences to one reference say, all methods of a question together.

    Equations (side-paired), (side-holm) and (side-region).

    Args:
        gaps: method to its differences by seed, method minus reference.
        sign: 1 where less is better, -1 where more is.
        region: half width of what is practically equal.
        overlap: ratio of test rows to training rows where seeds are splits of the same rows, see
            `book.lab.intervals.spread`; 0 for data sets that share no rows.

    Returns:
        Method to {"difference", "low", "high", "n", "verdict"}: "better" and "worse" of differences that Holm keeps at
        5 % over all methods and whose mean is outside the region; "tie" of those whose 95 % interval lies inside it;
        else "undecided", also with fewer than three seeds.
    """
    found: dict[str, dict[str, Any]] = {}
    chances: dict[str, float] = {}
    for name, values in gaps.items():
        mean, error, n = estimate(list(values), overlap)
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


def _index(name: str) -> dict[tuple[str, str, str], dict[int, float]]:
    """(setting, method, metric) to the stored values by replicate."""
    return _read(name, store.home())


@cache
def _read(name: str, home: Path) -> dict[tuple[str, str, str], dict[int, float]]:
    found: dict[tuple[str, str, str], dict[int, float]] = {}
    for row in (queries.best_stored(name) or {"rows": ()})["rows"]:
        found.setdefault((row["setting"], row["method"], row["metric"]), {})[row["replicate"]] = row["value"]
    return found


def values(task: str, budget: int, method: str, metric: str, kind: str = "tuned") -> queries.Values:
    """One metric of every seed; empty where nothing is stored.

    Args:
        task: of `tables.TASKS`, `uci.TASKS` or `images.TASKS`.
        budget: B.
        method: of `METHODS`; or a rival of `rivals.RIVALS`, which has no budget.
        metric: as stored, or "selection_error", half of the sum of "fpr" and "fnr", equation (side-balanced).
        kind: "tuned", "default" or, with the metric "validation_nll", "trials"; "other rule" of `experiments.kept`;
            one of `BOXES`.
    """
    if metric == "selection_error":
        return (values(task, budget, method, "fpr", kind) + values(task, budget, method, "fnr", kind)) / 2.0
    name, setting = experiment_of(task), f"{task}, B = {budget}, {kind}"
    if method in RIVALS:
        name, setting = "side-rivals" if task in tables.TASKS else "side-table-rivals", f"{task}, rivals"
    if kind == "other rule":
        name = "side-kept" if task in tables.TASKS else "side-table-kept"
        setting = f"{kept_setting(task, method)}, tuned"
    if kind in BOXES:
        wide = ("side-wide" if budget == 1 else f"side-wide-{budget}") if task in tables.TASKS else "side-table-wide"
        name, setting = "side-trials" if BOXES[kind][1] else wide, f"{wide_setting(task, budget, *BOXES[kind])}, tuned"
    found = _index(name).get((setting, method, metric), {})
    numbers = np.array([found[replicate] for replicate in sorted(found)]).view(queries.Values)
    numbers.cell = (name, setting, method, metric)
    return numbers


def stored_budgets(task: str) -> list[int]:
    """The budgets at which all methods of the task are stored."""
    return [b for b in BUDGETS if all(len(values(task, b, one, "seconds")) for one in costs()[task])]


def standing(
    task: str,
    budget: int,
    metric: str,
    kind: str = "tuned",
    beside: str | None = None,
    entered: Mapping[str, Sequence[float]] | None = None,
    overlap: float | None = None,
) -> list[dict[str, Any]]:
    """A row a method, best mean first: mean and standard error, and what `judge` says; [] where nothing is stored.

    Args:
        task: of `tables.TASKS`, `uci.TASKS` or `images.TASKS`.
        budget: B.
        metric: one of `QUESTIONS`, or a negative log-likelihood of shifted images.
        kind: "tuned" or "default".
        beside: the reference, by default the question's.
        entered: a method from outside to its values by seed, from the first stored one; it is judged with the others.
        overlap: of `judge`, by default that of the experiment.
    """
    reference, sign, region = QUESTIONS[metric if metric in QUESTIONS else metric.partition("_")[0]]
    reference = beside or reference
    silent = KEEPS_ALL if metric == "selection_error" else ()
    found = {one: values(task, budget, one, metric, kind) for one in (*METHODS, *RIVALS) if one not in silent}
    found = {one: numbers for one, numbers in found.items() if len(numbers)}
    own = {one: np.asarray(numbers, dtype=float) for one, numbers in (entered or {}).items()}
    base = found.get(reference)
    if base is None:
        return []
    region = region if region > 0.0 else -region * abs(float(base.mean()))
    others = {one: numbers - base for one, numbers in found.items() if one != reference and len(numbers) == len(base)}
    others |= {one: numbers - base[: len(numbers)] for one, numbers in own.items()}
    found |= own
    overlap = catalog.get(experiment_of(task)).overlap if overlap is None else overlap
    said = judge(others, sign, region, overlap)
    if metric == "fdr":  # 0 by name where nothing is found
        for one in said:
            missed = values(task, budget, one, "fnr", kind)
            if len(missed) and missed.mean() > MISSED:
                said[one]["verdict"] = "finds nothing"
    rows = []
    for one, numbers in found.items():
        mean, error, n = estimate(numbers.tolist(), overlap)
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
    parser.add_argument(
        "task", help="simulation-2, sparse-teacher, correlated, MNIST, Fashion-MNIST, CIFAR-10 or a UCI set"
    )
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
