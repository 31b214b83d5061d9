"""What the other rule for the state that a training ends with changes; its runs are those of `experiments.kept`.

python -m chapters.side_by_side.kept
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bnnlib.contest import METHODS
from book.lab import catalog
from book.lab.queries import Values
from chapters.side_by_side.experiments.kept import LAST, STOPPED, TASKS
from chapters.side_by_side.rivals import RIVALS
from chapters.side_by_side.standing import QUESTIONS, experiment_of, judge, values

Verdicts = dict[str, dict[str, Any]]
OTHER = "other rule"


def effects(task: str, metric: str = "rmse") -> Verdicts:
    """Each method by the other rule beside itself, by Holm over all of them; {} where one is not stored."""
    both = {one: [values(task, 1, one, metric, kind) for kind in (OTHER, "tuned")] for one in (*STOPPED, *LAST)}
    known = {one: pair for one, pair in both.items() if len(pair[1])}
    if not known or any(len(new) != len(old) for new, old in known.values()):
        return {}
    return _judged(task, metric, {one: new - old for one, (new, old) in known.items()}, "deterministic")


def beside(task: str, metric: str = "rmse", reference: str = "deterministic") -> Verdicts:
    """All methods beside one, those that keep their last state by the other rule; {} as in `effects`."""
    if not effects(task, metric):
        return {}
    base, found = values(task, 1, reference, metric), {}
    for one in (*METHODS, *RIVALS):
        numbers = values(task, 1, one, metric, OTHER if one in LAST else "tuned")
        if one != reference and len(numbers) == len(base):
            found[one] = numbers - base
    return _judged(task, metric, found, reference)


def _judged(task: str, metric: str, gaps: Mapping[str, Values], reference: str) -> Verdicts:
    _, sign, region = QUESTIONS[metric]
    region = region if region > 0.0 else -region * abs(float(values(task, 1, reference, metric).mean()))
    return judge(gaps, sign, region, catalog.get(experiment_of(task)).overlap)


def main() -> None:
    """Print what is decided."""
    for metric in ("rmse", "nll"):
        for task in TASKS:
            for title, said in (("beside itself", effects(task, metric)), ("beside one", beside(task, metric))):
                decided = (f"{one} {row['verdict']}" for one, row in said.items() if row["verdict"][0] in "bw")
                print(f"{metric}, {task}, {title}: {', '.join(decided) or '–' if said else 'not run'}")


if __name__ == "__main__":
    main()
