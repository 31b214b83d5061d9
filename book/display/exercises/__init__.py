"""Exercises that check themselves: `check("svbnn-1", answer)` says whether an answer is right, and how it is off.

The reference answers are computed with bnnlib when they are asked for; a wrong answer raises nothing unless
`strict=True`, so that a reader can go on.
"""

from textwrap import fill
from typing import Any

from book.display.exercises.judge import judge
from book.display.exercises.registry import Exercise, get, ids

__all__ = ["Exercise", "check", "get", "ids"]


def check(exercise_id: str, answer: Any, strict: bool = False) -> None:
    """Compare the reader's answer with the reference and print a verdict with a hint.

    Args:
        exercise_id: for example "svbnn-1"; `ids()` lists all.
        answer: a number, an array or tensor, a function, or the letter of a choice, as the exercise asks.
        strict: raise on a wrong answer; used by the executed solutions of the book.

    Raises:
        LookupError: for an unknown exercise.
        AssertionError: for a wrong answer, with `strict=True` only.
    """
    exercise = get(exercise_id)
    verdict = judge(exercise, answer)
    mark = "✓" if verdict.right else "✗"
    message = f"{mark} {exercise_id}: {verdict.message}"
    if not verdict.right and exercise.hint and verdict.answered:
        message += "\n" + fill(f"Hint: {exercise.hint}", 80, initial_indent="  ", subsequent_indent="  ")
    if strict and not verdict.right:
        raise AssertionError(message)
    print(message)
