"""The questions of a page: what `judge` says of an exercise, as data that a page applies without Python."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from book.display.exercises import registry
from book.display.exercises.judge import choices
from book.display.exercises.registry import Exercise
from book.display.exercises.rules import as_array, rules


def _tensor(argument: Any) -> Any:
    return torch.tensor(argument, dtype=torch.float64) if isinstance(argument, list) else argument


def on_page(exercise: Exercise) -> Exercise | None:
    """The exercise as a page can ask it: of a function its case by hand; None if there is nothing to ask."""
    if exercise.kind == "function" and exercise.by_hand is None:
        return None
    if exercise.kind != "function":
        return exercise
    case = exercise.by_hand

    def value(function: Callable) -> Callable[[], np.ndarray]:
        return lambda: np.asarray(as_array(function(*map(_tensor, case.arguments)))[case.entry])

    right = value(exercise.reference())()
    kind = "array" if right.shape else "number"

    def shows(form: Callable) -> bool:
        """Whether a form differs in this case, where it may not, or may have no value."""
        one = form()
        return one.shape != right.shape or not np.allclose(one, right, rtol=1e-6, atol=0.0)

    wrong = {value(mistake): said for mistake, said in exercise.mistakes.items()}
    return replace(
        exercise,
        kind=kind,
        reference=lambda: value(exercise.reference())(),
        stub=f"answer = ...  # one case by hand: {case.asked}",
        digits=registry.DIGITS[kind],
        mistakes={form: said for form, said in wrong.items() if shows(form)},
        accepted=[form for form in map(value, exercise.accepted) if shows(form)],
        cases=None,
        stress={},
        by_hand=None,
    )


def _bounds(value: np.ndarray) -> Any:
    """A bound in JSON: null where there is none."""
    flat = [None if math.isinf(one) else one for one in value.reshape(-1).tolist()]
    return flat if value.shape else flat[0]


def question(exercise: Exercise) -> dict | None:
    """What the page needs to ask an exercise and to judge the answer; None if it cannot ask it."""
    asked = on_page(exercise)
    if asked is None:
        return None
    data: dict = {"id": asked.id, "kind": asked.kind, "label": "your choice", "asked": asked.asked, "hint": asked.hint}
    if asked.kind == "choice":
        data["asked"] = f"one of {', '.join(asked.options)}"  # buttons, where a notebook takes a letter in quotes
        return data | {"options": {one: [int(told.right), told.message] for one, told in choices(asked).items()}}
    *above, last = asked.stub.split("\n")
    begun = above[-1].removeprefix("# ") + " " if above and above[-1].startswith("# ") else ""
    data["label"] = begun + last.partition("# ")[2]
    if asked.kind == "array":
        data["asked"] = f"a list in brackets, {asked.accuracy}"
    table = rules(asked)
    data["shape"] = list(table[0].low.shape)
    # Of each rule the bounds and the words; then 1 for the right answer, 2 where a whole number is let through.
    data["rules"] = [[_bounds(one.low), _bounds(one.high), one.said, one.right + 2 * one.broken] for one in table]
    return data


def questions(ids: list[str]) -> dict[str, dict]:
    """The questions of the exercises that a page can ask, by id."""
    made = {one: question(registry.get(one)) for one in ids}
    return {one: data for one, data in made.items() if data is not None}
