"""What another rule changes: for the state that a training ends with, or for the box of the learning rate.

Its runs are those of `experiments.kept` and `experiments.wide`.

python -m chapters.side_by_side.kept
"""

from collections.abc import Mapping
from itertools import product
from typing import Any

from bnnlib.contest import METHODS
from book.lab import catalog
from book.lab.queries import Values
from chapters.side_by_side.experiments.kept import LAST, STOPPED, TASKS
from chapters.side_by_side.experiments.wide import SEQUENCES, WIDENED
from chapters.side_by_side.rivals import RIVALS
from chapters.side_by_side.standing import BOXES, KEEPS_ALL, QUESTIONS, experiment_of, judge, standing, values

Verdicts = dict[str, dict[str, Any]]
OTHER, WIDE = "other rule", "wide box"
# rule: the methods that it changes in a comparison; the one network keeps its best state in the first
CHANGED = {OTHER: LAST} | {box: WIDENED if "box" in box else tuple(METHODS) for box in BOXES}


def effects(task: str, metric: str = "rmse", rule: str = OTHER, budget: int = 1) -> Verdicts:
    """Each method by the other rule beside itself, by Holm over all of them; {} where one is not stored."""
    methods = (*STOPPED, *LAST) if rule == OTHER else CHANGED[rule]
    both = {one: [values(task, budget, one, metric, kind) for kind in (rule, "tuned")] for one in methods}
    known = {one: pair for one, pair in both.items() if len(pair[1])}
    if not known or any(len(new) != len(old) for new, old in known.values()):
        return {}
    return _judged(task, metric, {one: new - old for one, (new, old) in known.items()}, "deterministic", budget)


def beside(
    task: str, metric: str = "rmse", reference: str = "deterministic", rule: str = OTHER, budget: int = 1
) -> Verdicts:
    """All methods beside one, those in `CHANGED` by the other rule; {} as in `effects`."""
    if not effects(task, "rmse", rule, budget):
        return {}

    def by_rule(one: str) -> Values:
        if one in CHANGED[rule]:
            return values(task, budget, one, metric, rule)
        same = rule.partition(", ")[2]  # the trials of a wider box are those of the others, too
        return values(task, budget, one, metric, same if same and one in METHODS else "tuned")

    base, silent = by_rule(reference), KEEPS_ALL if metric == "selection_error" else ()
    found = {one: by_rule(one) for one in (*METHODS, *RIVALS) if one != reference and one not in silent}
    found = {one: numbers - base for one, numbers in found.items() if len(numbers) == len(base)}
    return _judged(task, metric, found, reference, budget)


def by_trials(task: str, metric: str, reference: str, wide: bool = False) -> list[Verdicts]:
    """What all three sequences of eight trials say of each method beside one, at B = 1; [] where one has not run."""
    if wide:
        first = beside(task, metric, reference, WIDE)
    else:
        rows = standing(task, 1, metric, beside=reference)
        first = {row["method"]: row for row in rows if row["method"] != reference}
    box = f"{WIDE}, " if wide else ""
    every = [first, *(beside(task, metric, reference, f"{box}trials {number}") for number in SEQUENCES)]
    return every if all(every) else []


def _judged(task: str, metric: str, gaps: Mapping[str, Values], reference: str, budget: int) -> Verdicts:
    _, sign, region = QUESTIONS[metric]
    region = region if region > 0.0 else -region * abs(float(values(task, budget, reference, metric).mean()))
    return judge(gaps, sign, region, catalog.get(experiment_of(task)).overlap)


def main() -> None:
    """Print what is decided."""
    for rule, metric, task in product(CHANGED, ("rmse", "nll"), TASKS):
        for title, said in (
            ("beside itself", effects(task, metric, rule)),
            ("beside one", beside(task, metric, rule=rule)),
        ):
            decided = (f"{one} {row['verdict']}" for one, row in said.items() if row["verdict"][0] in "bw")
            print(f"{rule}, {metric}, {task}, {title}: {', '.join(decided) or '–' if said else 'not run'}")


if __name__ == "__main__":
    main()
