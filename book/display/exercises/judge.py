"""Compare an answer with the reference and say how they differ."""

import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from book.display.exercises.registry import Exercise
from book.display.exercises.rules import agree, as_array, fit, known, off, rules, said, told_apart


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


def _one_value(exercise: Exercise, answer: Any) -> Verdict:
    if callable(answer):  # the function of an answer cell, around what the reader worked out
        answer = _called(answer, ())
        if isinstance(answer, Verdict):
            return answer
    given = as_array(answer)
    if exercise.kind == "number":
        if given is None or given.size != 1:
            shown = _form(answer) if given is None else f"an array of shape {given.shape}"
            return Verdict(False, f"one number is asked, {shown} was given.")
        given = given.reshape(())
    elif given is None:
        return Verdict(False, f"a list, array or tensor of numbers is asked, {_form(answer)} was given.")
    table = rules(exercise)
    given = fit(given, table[0].low)
    if given.shape == table[0].low.shape and (rule := next((one for one in table if one.holds(given)), None)):
        return Verdict(rule.right, said(rule, given))
    return Verdict(False, f"not yet: {off(exercise.digits, given, as_array(exercise.reference()))}")


def _a(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _form(value: Any) -> str:
    """What an answer is that `as_array` makes no array of: a tensor of complex numbers, a list with a string."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return f"{'a tensor' if isinstance(value, torch.Tensor) else 'an array'} of {value.dtype}"
    if isinstance(value, list | tuple):
        odd = [part for part in value if as_array(part) is None]
        return f"{_a(value)} with {_a(odd[0])} in it" if odd else f"{_a(value)} of parts that differ in shape"
    return _a(value)


def _copy(value: Any) -> Any:
    return (
        value.clone() if isinstance(value, torch.Tensor) else np.copy(value) if isinstance(value, np.ndarray) else value
    )


def _called(function: Callable, arguments: tuple, place: str = "") -> Any:
    """What the reader's function returns, or the verdict that there is nothing to compare."""
    try:
        value = function(*arguments)
    except Exception as error:
        if isinstance(error, NotImplementedError) and not str(error):  # of a stub; PyTorch's says which operation
            return NOT_ANSWERED
        own = traceback.extract_tb(error.__traceback__)[1:]  # without this call; empty where the arguments do not fit
        line = [f"line {frame.lineno}" for frame in own if frame.filename == own[0].filename][-1:]
        where = ", ".join([*line, *filter(None, [place])])
        said = f"your function raised {type(error).__name__}: {error}{where and f' ({where})'}."
        return Verdict(False, said)
    if value is None:
        said = "your function returns nothing yet: write its body and end it with `return`."
        return Verdict(False, said, answered=False)
    return NOT_ANSWERED if value is Ellipsis else value


def _values(answer: Any, cases: list[tuple]) -> list[np.ndarray] | Verdict:
    """What the reader's function returns on the cases, or what is wrong with it before any number is compared."""
    values = []
    for number, case in enumerate(cases, start=1):
        arguments = tuple(map(_copy, case))
        place = f"on test {number} of {len(cases)}"
        value = _called(answer, arguments, place)
        if isinstance(value, Verdict):
            return value
        pairs = zip(case, arguments, strict=True)
        arrays = [(as_array(a), as_array(b)) for a, b in pairs if isinstance(a, torch.Tensor | np.ndarray)]
        if any(not np.array_equal(before, after, equal_nan=True) for before, after in arrays):
            return Verdict(False, "your function changes its arguments in place: work on copies.")
        values.append(as_array(value))
        if values[-1] is None:
            said = f"not yet: {place}, it returns {_form(value)}: real numbers are asked, as a list, array or tensor."
            return Verdict(False, said)
    return values


def _function(exercise: Exercise, answer: Any) -> Verdict:
    if not callable(answer):
        return Verdict(False, f"a function is asked, {_a(answer)} was given: pass its name without calling it.")
    forms = (exercise.reference(), *exercise.accepted)

    def right(form: Callable, cases: list[tuple]) -> list[np.ndarray]:
        return [as_array(form(*map(_copy, case))) for case in cases]

    cases = list(exercise.cases())
    given = _values(answer, cases)
    if isinstance(given, Verdict):
        return given
    if not any(agree(given, right(form, cases), exercise.digits) for form in forms):
        references = right(forms[0], cases)
        slips = not any(np.isnan(value).any() for value in given)
        for wrong, message in known(exercise, references, lambda form: right(form, cases), slips):
            if agree(given, wrong, told_apart(exercise)) and not agree(wrong, references, told_apart(exercise)):
                return Verdict(False, f"not yet: {message}")
        again = _values(answer, cases)
        if isinstance(again, Verdict) or not agree(again, given, math.inf):
            return Verdict(False, "not yet: called twice with the same arguments, your function returns two values.")
        number, (value, reference) = next(
            (number, pair)
            for number, pair in enumerate(zip(given, references, strict=True), start=1)
            if not agree([pair[0]], [pair[1]], exercise.digits)
        )
        differs = off(exercise.digits, value, reference)
        arguments = [as_array(one) for one in cases[number - 1]]
        told = all(one is not None and one.size == 1 for one in arguments)
        shown = f" ({', '.join(f'{one.item():.6g}' for one in arguments)})" if told else ""
        return Verdict(False, f"not yet: on test {number} of {len(cases)}{shown}, {differs}")
    count = len(cases)
    for stress, message in exercise.stress.items():
        hard = list(stress())
        given = _values(answer, hard)
        raised = given.message if isinstance(given, Verdict) else ""
        if raised or not any(agree(given, right(form, hard), exercise.digits) for form in forms):
            return Verdict(False, f"right on the ordinary tests, but not yet on a hard one: {message} {raised}".strip())
        count += len(hard)
    tests = f"all {count} tests" if count > 1 else "its one test"
    return Verdict(True, f"right {exercise.accuracy} on {tests}.")


def choices(exercise: Exercise) -> dict[str, Verdict]:
    """The verdict on each letter of a choice."""
    right = str(exercise.reference()).casefold()
    return {
        letter.casefold(): Verdict(
            letter.casefold() == right, f"{'right' if letter.casefold() == right else 'not yet'}: {told}"
        )
        for letter, told in exercise.options.items()
    }


def _choice(exercise: Exercise, answer: Any) -> Verdict:
    if callable(answer):  # the function of an answer cell
        answer = _called(answer, ())
        if isinstance(answer, Verdict):
            quotes = " Write the letter in quotes." if "raised NameError" in answer.message else ""
            return replace(answer, message=answer.message + quotes)
    chosen = str(answer).strip().strip("().").casefold()
    given = "a function" if callable(answer) else repr(answer)
    letters = ", ".join(f'"{letter}"' for letter in exercise.options)
    asked = Verdict(False, f"answer with one of {letters}, got {given}.")
    return choices(exercise).get(chosen, asked)


_JUDGES = {"number": _one_value, "array": _one_value, "function": _function, "choice": _choice}
