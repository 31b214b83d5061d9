"""Compare an answer with the reference and say how they differ."""

from __future__ import annotations

import difflib
import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Number, Real
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
    try:
        if isinstance(value, torch.Tensor):
            value = value.detach().to_dense().cpu()
            value = (value.double() if value.is_floating_point() else value).numpy()  # NumPy has no bfloat16
        if isinstance(value, list | tuple):  # of tensors, perhaps
            value = np.stack([_array(part) for part in value]) if value else np.zeros(0)
        array = np.asarray(value)
        real = array.dtype.kind in "bifu" or (array.size and all(isinstance(part, Real) for part in array.flat))
        return array.astype(np.float64) if real else None
    except Exception:  # an answer may be anything, and raise what it likes
        return None


def _close(answer: np.ndarray, reference: np.ndarray, digits: float) -> np.ndarray:
    """Whether each entry is right to so many significant digits: off by half a unit of the last one, or less."""
    with np.errstate(all="ignore"):
        first = 10.0 ** np.floor(np.log10(np.abs(reference)))
        unit = np.where(reference == 0, 1.0, first) * 10.0 ** (1 - digits)
        # The last factor is for a reference that lies in the middle between two roundings.
        near = np.isfinite(reference) & (np.abs(answer - reference) <= 0.5 * unit * (1 + 1e-9))
    return near | (answer == reference) | (np.isnan(answer) & np.isnan(reference))


def _fit(given: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The answer in the reference's shape, if axes of length one are all that tells them apart."""
    return given.reshape(right.shape) if given.squeeze().shape == right.squeeze().shape else given


def _agree(given: list[np.ndarray], other: list[np.ndarray], digits: float) -> bool:
    pairs = [(_fit(one, two), two) for one, two in zip(given, other, strict=True)]
    return all(one.shape == two.shape and _close(one, two, digits).all() for one, two in pairs)


# What a common slip makes of the right value, and its name: for numbers, arrays and functions alike.
_SLIPS = (
    (lambda right: -right, "the sign is wrong."),
    (lambda right: 2 * right, "it is twice the right value: look for a missing factor 1/2."),
    (lambda right: right / 2, "it is half the right value: look for a missing factor 2."),
    (lambda right: 1 - right, "it is one minus the right value: is this the complementary event?"),
    (lambda right: 1 / right, "it is the reciprocal of the right value."),
    (lambda right: right / math.log(2), "it is in bits: this book measures in nats, the natural logarithm."),
    (lambda right: right / math.log(10), "a logarithm to base 10 was used: this book uses the natural one."),
    (lambda right: 100 * right, "it is in percent: give a fraction."),
    (lambda right: right / 100, "it is a fraction: give percent."),
    (np.square, "it is the square of the right value: variance and standard deviation mixed up?"),
    (np.sqrt, "it is the square root of the right value: variance and standard deviation mixed up?"),
    (np.log, "it is the logarithm of the right value."),
    (lambda right: -np.log(right), "it is minus the logarithm of the right value."),
    (np.log10, "it is the base-10 logarithm of the right value."),
    (np.exp, "it is the exponential of the right value."),
)


def _slip(exercise: Exercise, cases: list[tuple], given: list[np.ndarray], right: list[np.ndarray]) -> str:
    """The name of the mistake that explains the answer on every case, or empty."""
    # Six digits at least tell two mistakes of an exact answer apart; more would miss one that rounds otherwise.
    digits = min(exercise.digits, 6)
    for wrong, message in exercise.mistakes.items():
        if _agree(given, [_array(wrong(*map(_copy, case))) for case in cases], digits):
            return message
    if any(np.isnan(value).any() for value in given):
        return ""
    with np.errstate(all="ignore"):
        for slip, message in _SLIPS:
            if _agree(given, [slip(value) for value in right], digits):
                return message
    if n := exercise.samples:
        if _agree(given, [n * value for value in right], digits):
            return f"it is n = {n:g} times too large: a sum was given where a mean is asked?"
        if _agree(given, [value / n for value in right], digits):
            return f"it is n = {n:g} times too small: a mean was given where a sum is asked?"
    return ""


def _ordinal(digit: int) -> str:
    return f"{digit}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(digit, 'th') }"


def _nearly(exercise: Exercise, given: np.ndarray, right: np.ndarray) -> str:
    """Which digit is off, if the answer is within 5 %; else empty."""
    with np.errstate(all="ignore"):
        if not (np.abs(given - right) < 0.05 * np.where(right == 0, 1.0, np.abs(right))).all():
            return ""
    if math.isinf(exercise.digits):
        return "close, within 5 %, but it is asked exactly: check the last step."
    digit = next(k for k in range(1, int(exercise.digits) + 1) if not _close(given, right, k).all())
    lost = "digits were lost, in float32 or in a difference of nearly equal numbers" if digit > 5 else ""
    return (
        f"close, but the {_ordinal(digit)} significant digit is off, and {exercise.digits} are asked: "
        f"{lost or 'check rounding and constants'}."
    )


def _off(exercise: Exercise, given: np.ndarray, right: np.ndarray) -> str:
    """How an answer differs that no known mistake explains."""
    given = _fit(given, right)
    if given.shape != right.shape:
        turned = " (the axes are swapped: transpose it)" if given.shape == right.shape[::-1] else ""
        return f"the shape should be {right.shape}, it is {given.shape}{turned}."
    if np.isnan(given).any():
        return f"{int(np.isnan(given).sum())} entries are NaN." if given.shape else "it is NaN."
    if not given.shape and math.isinf(exercise.digits) and not float(given).is_integer():
        return f"{float(given):.6g} is no whole number."
    if said := _nearly(exercise, given, right):
        return said
    near = _close(given, right, exercise.digits)
    if not given.shape:
        value, aim = float(given), float(right)
        if aim and value * aim > 0:
            return f"{value:.6g} is too {'large' if value > aim else 'small'}."
        return f"{value:.6g} is not right."
    where = np.unravel_index(int(np.argmax(~near)), near.shape)
    place = ", ".join(map(str, where))
    return f"{int((~near).sum())} of {near.size} entries are off; the first is entry [{place}]: {given[where]:.6g}."


def _one_value(exercise: Exercise, answer: Any) -> Verdict:
    if callable(answer):  # the function of an answer cell, around what the reader worked out
        answer = _called(answer, ())
        if isinstance(answer, Verdict):
            return answer
    given, right = _array(answer), _array(exercise.reference())
    shown = f"an array of shape {given.shape}" if given is not None else f"a {type(answer).__name__}"
    if exercise.kind == "number":
        if given is None or given.size != 1:
            return Verdict(False, f"one number is asked, {shown} was given.")
        given, right = given.reshape(()), right.reshape(())
    elif given is None:
        return Verdict(False, f"an array or tensor of numbers is asked, {shown} was given.")
    if any(_agree([given], [_array(form())], exercise.digits) for form in (lambda: right, *exercise.accepted)):
        value = f": {float(given):.6g}" if exercise.kind == "number" else ""
        return Verdict(True, f"right {exercise.accuracy}{value}.")
    return Verdict(False, f"not yet: {_slip(exercise, [()], [given], [right]) or _off(exercise, given, right)}")


def _copy(value: Any) -> Any:
    return (
        value.clone() if isinstance(value, torch.Tensor) else np.copy(value) if isinstance(value, np.ndarray) else value
    )


def _called(function: Callable, arguments: tuple, place: str = "") -> Any:
    """What the reader's function returns, or the verdict that there is nothing to compare."""
    try:
        value = function(*arguments)
    except NotImplementedError:
        return NOT_ANSWERED
    except Exception as error:
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
        if any(not np.array_equal(_array(a), _array(b), equal_nan=True) for a, b in zip(case, arguments, strict=True)
               if isinstance(a, torch.Tensor | np.ndarray)):  # fmt: skip
            return Verdict(False, "your function changes its arguments in place: work on copies.")
        values.append(_array(value))
        if values[-1] is None:
            said = f"not yet: {place}, it returns a {type(value).__name__}: a number, an array or a tensor is asked."
            return Verdict(False, said)
    return values


def _function(exercise: Exercise, answer: Any) -> Verdict:
    if not callable(answer):
        return Verdict(
            False, f"a function is asked, a {type(answer).__name__} was given: pass its name without calling it."
        )
    forms = (exercise.reference(), *exercise.accepted)

    def right(form: Callable, cases: list[tuple]) -> list[np.ndarray]:
        return [_array(form(*map(_copy, case))) for case in cases]

    cases = list(exercise.cases())
    given = _values(answer, cases)
    if isinstance(given, Verdict):
        return given
    if not any(_agree(given, right(form, cases), exercise.digits) for form in forms):
        references = right(forms[0], cases)
        if said := _slip(exercise, cases, given, references):
            return Verdict(False, f"not yet: {said}")
        again = _values(answer, cases)
        if isinstance(again, Verdict) or not _agree(again, given, math.inf):
            return Verdict(False, "not yet: called twice with the same arguments, your function returns two values.")
        number, (value, reference) = next(
            (number, pair)
            for number, pair in enumerate(zip(given, references, strict=True), start=1)
            if not _agree([pair[0]], [pair[1]], exercise.digits)
        )
        said = _off(exercise, value, reference)
        return Verdict(False, f"not yet: on test {number} of {len(cases)}, {said}")
    count = len(cases)
    for stress, message in exercise.stress.items():
        hard = list(stress())
        given = _values(answer, hard)
        raised = given.message if isinstance(given, Verdict) else ""
        if raised or not any(_agree(given, right(form, hard), exercise.digits) for form in forms):
            return Verdict(False, f"right on the ordinary tests, but not yet on a hard one: {message} {raised}".strip())
        count += len(hard)
    tests = f"all {count} tests" if count > 1 else "its one test"
    return Verdict(True, f"right {exercise.accuracy} on {tests}.")


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


_JUDGES = {"number": _one_value, "array": _one_value, "function": _function, "choice": _choice, "text": _text}
