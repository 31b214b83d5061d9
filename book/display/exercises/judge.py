"""Compare an answer with the reference and say how they differ."""

from __future__ import annotations

import difflib
import math
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
import torch

from book.display.exercises.registry import Exercise


@dataclass(frozen=True)
class Verdict:
    """Whether the answer is right, what to tell the reader, and whether there was an answer at all."""

    right: bool
    message: str
    answered: bool = True


NOT_ANSWERED = Verdict(False, "not answered yet: replace the `...` by your answer.", answered=False)


def judge(exercise: Exercise, answer: Any) -> Verdict:
    """The verdict on an answer; never raises because of what the answer is or does."""
    if answer is None or answer is Ellipsis:
        return NOT_ANSWERED
    return _JUDGES[exercise.kind](exercise, answer)


def _array(value: Any) -> np.ndarray | None:
    """The value as a float64 array, or None if it has no such form."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, str | bytes):
        return None
    try:
        array = np.asarray(value)
        return array.astype(np.float64) if array.dtype.kind in "bifu" else None
    except (TypeError, ValueError):
        return None


def _close(answer: np.ndarray, reference: np.ndarray, tolerance: float) -> np.ndarray:
    scale = np.where(reference == 0, 1.0, np.abs(reference))
    # Equality covers infinities, whose difference is NaN.
    with np.errstate(invalid="ignore"):
        return (answer == reference) | (np.abs(answer - reference) <= tolerance * scale)


def _relations(exercise: Exercise, right: float) -> Iterator[tuple[float, str]]:
    """Values that a common slip would give, with the name of the slip."""
    for wrong, message in exercise.mistakes.items():
        yield float(wrong()), message
    yield -right, "the sign is wrong."
    yield 2 * right, "it is twice the right value: look for a missing factor 1/2."
    yield right / 2, "it is half the right value: look for a missing factor 2."
    yield 1 - right, "it is one minus the right value: is this the complementary event?"
    if right:
        yield 1 / right, "it is the reciprocal of the right value."
    yield right / math.log(2), "it is in bits: this book measures in nats, the natural logarithm."
    yield right / math.log(10), "a logarithm to base 10 was used: this book uses the natural one."
    yield 100 * right, "it is in percent: give a fraction."
    yield right / 100, "it is a fraction: give percent."
    yield right**2, "it is the square of the right value: variance and standard deviation mixed up?"
    if right > 0:
        yield math.sqrt(right), "it is the square root of the right value: variance and standard deviation mixed up?"
        yield math.log(right), "it is the logarithm of the right value."
        yield -math.log(right), "it is minus the logarithm of the right value."
        yield math.log10(right), "it is the base-10 logarithm of the right value."
    if right < 700:
        yield math.exp(right), "it is the exponential of the right value."
    if exercise.samples:
        n = exercise.samples
        yield right * n, f"it is n = {n:g} times too large: a sum was given where a mean is asked?"
        yield right / n, f"it is n = {n:g} times too small: a mean was given where a sum is asked?"


def _number(exercise: Exercise, answer: Any) -> Verdict:
    array = _array(answer)
    if array is None or array.size != 1:
        given = f"an array of shape {array.shape}" if array is not None else f"a {type(answer).__name__}"
        return Verdict(False, f"one number is asked, {given} was given.")
    value, right = float(array.reshape(())), float(_array(exercise.reference()).reshape(()))
    if math.isnan(value):
        return Verdict(False, "the answer is NaN.")
    if _close(np.float64(value), np.float64(right), exercise.tolerance):
        return Verdict(True, f"right, {value:.6g}.")
    for wrong, message in _relations(exercise, right):
        if math.isfinite(wrong) and _close(np.float64(value), np.float64(wrong), max(exercise.tolerance, 1e-6)):
            return Verdict(False, f"not yet: {message}")
    if right and abs(value / right - 1) < 0.05:
        return Verdict(False, "close, within 5 %: check rounding and constants.")
    if right and value * right > 0:
        return Verdict(False, f"not yet: {value:.6g} is too {'large' if value > right else 'small'}.")
    return Verdict(False, f"not yet: {value:.6g} is not right.")


def _compare_arrays(exercise: Exercise, answer: Any, reference: Any) -> str:
    """Empty if they agree, else what is wrong."""
    given, right = _array(answer), _array(reference)
    if given is None:
        return f"an array or tensor of numbers is asked, a {type(answer).__name__} was given."
    if given.shape != right.shape:
        turned = " (the axes are swapped: transpose it)" if given.shape == right.shape[::-1] else ""
        return f"the shape should be {right.shape}, it is {given.shape}{turned}."
    near = _close(given, right, exercise.tolerance) | (np.isnan(given) & np.isnan(right))
    if near.all():
        return ""
    if np.isnan(given).any():
        return f"{int(np.isnan(given).sum())} entries are NaN."
    for wrong, message in ((-right, "the sign is wrong."), (2 * right, "all entries are twice too large."),
                           (right / 2, "all entries are half of what they should be."),
                           (1 - right, "all entries are one minus the right value.")):  # fmt: skip
        if _close(given, wrong, max(exercise.tolerance, 1e-6)).all():
            return message
    where = np.unravel_index(int(np.argmax(~near)), near.shape)
    place = f" [{', '.join(map(str, where))}]" if where else ""
    return f"{int((~near).sum())} of {near.size} entries are off; the first is entry{place}: {given[where]:.6g}."


def _array_answer(exercise: Exercise, answer: Any) -> Verdict:
    wrong = _compare_arrays(exercise, answer, exercise.reference())
    return Verdict(not wrong, f"not yet: {wrong}" if wrong else "right.")


def _copy(value: Any) -> Any:
    return (
        value.clone() if isinstance(value, torch.Tensor) else np.copy(value) if isinstance(value, np.ndarray) else value
    )


def _function(exercise: Exercise, answer: Any) -> Verdict:
    if not callable(answer):
        return Verdict(
            False, f"a function is asked, a {type(answer).__name__} was given: pass its name without calling it."
        )
    reference, cases = exercise.reference(), list(exercise.cases())
    for number, case in enumerate(cases, start=1):
        right = reference(*(_copy(value) for value in case))
        arguments = tuple(_copy(value) for value in case)
        try:
            given = answer(*arguments)
        except NotImplementedError:
            return NOT_ANSWERED
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            return Verdict(False, f"your function raised {type(error).__name__}: {error} (line {last.lineno}).")
        if given is None:
            return Verdict(
                False, "your function returns nothing yet: write its body and end it with `return`.", answered=False
            )
        if given is Ellipsis:
            return NOT_ANSWERED
        if any(not np.array_equal(_array(a), _array(b), equal_nan=True) for a, b in zip(case, arguments, strict=True)
               if isinstance(a, torch.Tensor | np.ndarray)):  # fmt: skip
            return Verdict(False, "your function changes its arguments in place: work on copies.")
        wrong = _compare_arrays(exercise, given, right)
        if wrong:
            return Verdict(False, f"not yet: on test {number} of {len(cases)}, {wrong}")
    return Verdict(True, f"right on all {len(cases)} tests.")


def _choice(exercise: Exercise, answer: Any) -> Verdict:
    chosen = str(answer).strip().strip("().").casefold()
    options = {letter.casefold(): said for letter, said in exercise.options.items()}
    if chosen not in options:
        return Verdict(False, f"answer with one of {', '.join(exercise.options)}, got {answer!r}.")
    right = chosen == str(exercise.reference()).casefold()
    return Verdict(right, f"{'right' if right else 'not yet'}: {options[chosen]}")


def _plain(text: str) -> str:
    return " ".join("".join(sign if sign.isalnum() else " " for sign in text.casefold()).split())


def _text(exercise: Exercise, answer: Any) -> Verdict:
    if not isinstance(answer, str):
        shown = "a number" if isinstance(answer, Number) else f"a {type(answer).__name__}"
        return Verdict(False, f"a text is asked, {shown} was given.")
    if not _plain(answer):
        return NOT_ANSWERED
    reference = exercise.reference()
    accepted = [_plain(text) for text in ((reference,) if isinstance(reference, str) else reference)]
    if _plain(answer) in accepted:
        return Verdict(True, "right.")
    if difflib.get_close_matches(_plain(answer), accepted, n=1, cutoff=0.8):
        return Verdict(False, "almost: check the spelling.")
    return Verdict(False, "not yet.")


_JUDGES = {"number": _number, "array": _array_answer, "function": _function, "choice": _choice, "text": _text}
