"""What is said to which value, as data: bounds around the right value and around every known wrong one.

The first rule that an answer meets decides. `judge` applies the rules here, and the page applies the same ones, which
`page` writes into it.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import torch

from book.display.exercises.registry import Exercise

Values = list[np.ndarray]  # of one answer: a value, or what a function returns on each case


def as_array(value: Any) -> np.ndarray | None:
    """The value as a float64 array, or None if it has no such form."""
    try:
        if isinstance(value, torch.Tensor):
            value = value.detach().to_dense().cpu()
            value = (value.double() if value.is_floating_point() else value).numpy()  # NumPy has no bfloat16
        if isinstance(value, list | tuple):  # of tensors, perhaps
            value = np.stack([as_array(part) for part in value]) if value else np.zeros(0)
        array = np.asarray(value)
        real = array.dtype.kind in "bifu" or (array.size and all(isinstance(part, Real) for part in array.flat))
        return array.astype(np.float64) if real else None
    except Exception:  # an answer may be anything, and raise what it likes
        return None


def near(reference: np.ndarray, digits: float) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of what is right to so many significant digits: off by half a unit of the last one, or less."""
    with np.errstate(all="ignore"):
        first = 10.0 ** np.floor(np.log10(np.abs(reference)))
        unit = np.where(reference == 0, 1.0, first) * 10.0 ** (1 - digits)
        # The last factor is for a reference that lies in the middle between two roundings.
        half = np.where(np.isfinite(reference), 0.5 * unit * (1 + 1e-9), 0.0)
        return reference - half, reference + half


def close(answer: np.ndarray, reference: np.ndarray, digits: float) -> np.ndarray:
    """Whether each entry is right to so many significant digits."""
    low, high = near(reference, digits)
    return ((low <= answer) & (answer <= high)) | (np.isnan(answer) & np.isnan(reference))


def fit(given: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The answer in the reference's shape, if axes of length one are all that tells them apart."""
    return given.reshape(right.shape) if given.squeeze().shape == right.squeeze().shape else given


def agree(given: Values, other: Values, digits: float) -> bool:
    """Whether two answers are the same to so many digits."""
    pairs = [(fit(one, two), two) for one, two in zip(given, other, strict=True)]
    return all(one.shape == two.shape and close(one, two, digits).all() for one, two in pairs)


# What a common slip makes of the right value, and its name: for numbers, arrays and functions alike.
SLIPS = (
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


def known(
    exercise: Exercise, right: Values, value_of: Callable[[Callable], Values], slips: bool = True
) -> Iterator[tuple[Values, str]]:
    """Wrong answers that have a name, in the order in which they are looked for, and what to say to each.

    Args:
        exercise: whose mistakes come first.
        right: the right answer.
        value_of: what one of the exercise's mistakes gives as an answer.
        slips: whether to go on with what common slips make of the right answer.
    """
    for wrong, message in exercise.mistakes.items():
        yield value_of(wrong), message
    if not slips:
        return
    with np.errstate(all="ignore"):
        for slip, message in SLIPS:
            yield [slip(value) for value in right], message
    if n := exercise.samples:
        yield [n * value for value in right], f"it is n = {n:g} times too large: a sum was given where a mean is asked?"
        yield [value / n for value in right], f"it is n = {n:g} times too small: a mean was given where a sum is asked?"


def told_apart(exercise: Exercise) -> float:
    """Digits by which wrong answers are told apart: six, since more would miss one that rounds otherwise."""
    return min(exercise.digits, 6)


@dataclass(frozen=True)
class Rule:
    """What is said to a value whose every entry lies within the bounds; "{}" stands for a single value.

    `right` says whether it is the right answer; `broken` rules are only for a number that is no whole one.
    """

    low: np.ndarray
    high: np.ndarray
    said: str
    right: bool = False
    broken: bool = False

    def holds(self, given: np.ndarray) -> bool:
        """Whether this is the rule for an answer of the reference's shape."""
        within = bool(((self.low <= given) & (given <= self.high)).all())
        return within and not (self.broken and float(given).is_integer())


def differing(digits: float, right: np.ndarray) -> Iterator[Rule]:
    """For an answer that is wrong, and that no known mistake explains: which digit is off within 5 %, else the side."""
    exact = math.isinf(digits)
    infinite = np.full_like(right, math.inf)
    if not right.shape and exact:
        yield Rule(-infinite, infinite, "{} is no whole number.", broken=True)
    reach = 0.05 * np.where(right == 0, 1.0, np.where(np.isfinite(right), np.abs(right), 0.0))
    low, high = np.nextafter(right - reach, infinite), np.nextafter(right + reach, -infinite)
    if exact:
        yield Rule(low, high, "close, within 5 %, but it is asked exactly: check the last step.")
    for digit in range(int(digits), 0, -1) if not exact else ():
        least, most = near(right, digit - 1) if digit > 1 else (low, high)
        lost = "digits were lost, in float32 or in a difference of nearly equal numbers" if digit > 5 else ""
        nth = f"{digit}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(digit, 'th') }"
        told = f"close, but the {nth} significant digit is off, and {digits} are asked: "
        yield Rule(np.maximum(low, least), np.minimum(high, most), f"{told}{lost or 'check rounding and constants'}.")
    if not right.shape:
        zero = np.nextafter(0.0, np.copysign(1.0, right))
        if right > 0:
            yield Rule(right, infinite, "{} is too large.")
            yield Rule(zero, right, "{} is too small.")
        elif right < 0:
            yield Rule(right, zero, "{} is too large.")
            yield Rule(-infinite, right, "{} is too small.")
        yield Rule(-infinite, infinite, "{} is not right.")


def rules(exercise: Exercise) -> list[Rule]:
    """All rules of a number or an array, in order."""

    def value_of(form: Callable) -> np.ndarray:
        value = as_array(form())
        return value.reshape(()) if exercise.kind == "number" else value

    right = value_of(exercise.reference)
    value = ": {}" if exercise.kind == "number" else ""
    found = [
        Rule(*near(value_of(form), exercise.digits), f"right {exercise.accuracy}{value}.", right=True)
        for form in (exercise.reference, *exercise.accepted)
    ]
    for (wrong,), message in known(exercise, [right], lambda form: [value_of(form)]):
        if (wrong := fit(wrong, right)).shape == right.shape and np.isfinite(wrong).all():
            found.append(Rule(*near(wrong, told_apart(exercise)), f"not yet: {message}"))
    others = differing(exercise.digits, right)
    return found + [Rule(one.low, one.high, f"not yet: {one.said}", broken=one.broken) for one in others]


def said(rule: Rule, given: np.ndarray) -> str:
    """The rule's words to an answer."""
    return rule.said if given.shape else rule.said.replace("{}", f"{float(given):.6g}")


def off(digits: float, given: np.ndarray, right: np.ndarray) -> str:
    """How an answer differs that no known mistake explains."""
    given = fit(given, right)
    if given.shape != right.shape:
        turned = " (the axes are swapped: transpose it)" if given.shape == right.shape[::-1] else ""
        return f"the shape should be {right.shape}, it is {given.shape}{turned}."
    if lost := int(np.isnan(given).sum()):
        return f"of {given.size} entries {lost} {'is' if lost == 1 else 'are'} NaN." if given.shape else "it is NaN."
    for rule in differing(digits, right):
        if rule.holds(given):
            return said(rule, given)
    wrong = ~close(given, right, digits)
    where = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    told = f"{int(wrong.sum())} of {wrong.size} entries are off; the first is entry [{', '.join(map(str, where))}]"
    return f"{told}: {given[where]:.6g}."
