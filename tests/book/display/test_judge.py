"""What is said to right, wrong, malformed and missing answers."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest
import torch

from book.display import exercises
from book.display.exercises import registry
from book.display.exercises.judge import judge
from book.display.exercises.registry import Exercise

RIGHT = 3.7


def make(kind="number", reference=lambda: RIGHT, **fields) -> Exercise:
    return Exercise(id="svbnn-x", kind=kind, reference=reference, stub="answer = ...", **fields)


@pytest.mark.parametrize(
    "answer", [RIGHT, np.float32(RIGHT), torch.tensor(RIGHT), [torch.tensor([RIGHT])], Fraction(37, 10), 3.704]
)
def test_a_right_number_in_any_form(answer):
    assert judge(make(), answer).right


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (-RIGHT, "sign"),
        (2 * RIGHT, "twice"),
        (RIGHT / 2, "half"),
        (1 / RIGHT, "reciprocal"),
        (RIGHT / math.log(2), "in bits"),
        (RIGHT / math.log(10), "base 10"),
        (100 * RIGHT, "percent"),
        (RIGHT / 100, "fraction"),
        (RIGHT**2, "square of"),
        (math.sqrt(RIGHT), "square root"),
        (math.log(RIGHT), "logarithm"),
        (math.exp(RIGHT), "exponential"),
        (50 * RIGHT, "n = 50 times too large"),
        (RIGHT / 50, "n = 50 times too small"),
        (1.02 * RIGHT, "the 2nd significant digit is off, and 3 are asked"),
        (3.71, "the 3rd significant digit is off, and 3 are asked"),
        (9.0, "too large"),
        (0.3, "too small"),
        (-9.0, "not right"),
        (math.nan, "NaN"),
        (math.inf, "too large"),
        ("four", "a str was given"),
        ([1.0, 2.0], r"shape (2,)"),
        (1 + 2j, "a complex was given"),
        (10**400, "an int was given"),
    ],
)
def test_a_wrong_number_is_told_how_it_is_off(answer, said):
    verdict = judge(make(samples=50), answer)
    assert not verdict.right and verdict.answered and said in verdict.message


def test_half_a_unit_of_the_last_digit_passes_wherever_the_number_stands_in_its_decade():
    for right, inside, outside in ((1.0, 1.0049, 1.0051), (9.99, 9.994, 9.996), (0.00123456, 0.00123, 0.00124)):
        assert judge(make(reference=lambda right=right: right), inside).right
        assert not judge(make(reference=lambda right=right: right), outside).right
    zero = make(reference=lambda: 0.0)
    assert judge(zero, 4e-3).right and not judge(zero, 6e-3).right
    assert judge(make(), RIGHT).message == "right to 3 significant digits: 3.7."


@pytest.mark.parametrize(
    ("answer", "said"),
    [(11, "too small"), (12.4, "12.4 is no whole number"), (12.5, "no whole number"), (math.nan, "NaN")],
)
def test_a_whole_number_has_to_be_exact(answer, said):
    exercise = make(reference=lambda: 12.0, digits=math.inf)
    assert exercise.asked == "a whole number, exactly"
    assert judge(exercise, 12).right and judge(exercise, np.int32(12)).message == "right exactly: 12."
    verdict = judge(exercise, answer)
    assert not verdict.right and said in verdict.message


def test_an_infinite_reference_is_met_by_infinity_alone():
    exercise = make("array", lambda: np.array([np.inf, 1.0]))
    assert judge(exercise, [math.inf, 1.0]).right and not judge(exercise, [1e308, 1.0]).right


@pytest.mark.parametrize("answer", [None, ...])
@pytest.mark.parametrize("kind", ["number", "array"])
def test_no_answer_yet(kind, answer):
    verdict = judge(make(kind), answer)
    assert not verdict.right and not verdict.answered and "not answered" in verdict.message


@pytest.mark.parametrize(
    ("answer", "right", "answered", "said"),
    [
        (lambda: RIGHT, True, True, "right to 3"),
        (lambda: -RIGHT, False, True, "sign"),
        (lambda: ..., False, False, "not answered"),
        (lambda: None, False, False, "returns nothing yet"),
        (lambda: 1 / 0, False, True, "raised ZeroDivisionError: division by zero (line"),
        (lambda x: RIGHT, False, True, "missing 1 required positional argument: 'x'."),  # the call is the judge's
        (lambda: abs, False, True, "one number is asked"),
        (lambda: torch.tensor(3.5, dtype=torch.bfloat16), False, True, "not yet: 3.5 is too small"),
    ],
)
def test_a_number_may_be_what_a_function_returns(answer, right, answered, said):
    verdict = judge(make(), answer)
    assert (verdict.right, verdict.answered) == (right, answered) and said in verdict.message


class Stubborn:
    def __array__(self, *_, **__):
        raise RuntimeError("not an array")


@pytest.mark.parametrize(
    "answer", [torch.ones(2, device="meta"), 10**400, Stubborn(), [1, [2]], {}, torch.eye(2).to_sparse()]
)
@pytest.mark.parametrize("kind", ["number", "array", "function"])
def test_nothing_that_an_answer_is_stops_the_notebook(kind, answer):
    fields = {"reference": lambda: lambda x: x, "cases": lambda: [(1.0,)]} if kind == "function" else {}
    for given in (answer, lambda *_: answer):
        verdict = judge(make(kind, **fields), given)
        assert not verdict.right and verdict.answered


def test_an_error_is_placed_in_the_reader_s_own_lines():
    def answer():
        return torch.linalg.cholesky(np.linalg.inv(np.zeros((2, 2))))  # raises deep in NumPy

    line = answer.__code__.co_firstlineno + 1
    assert f"(line {line})" in judge(make(), answer).message


MATRIX = np.arange(6.0).reshape(2, 3) + 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (MATRIX.T, "transpose"),
        (MATRIX[0], r"shape should be (2, 3)"),
        (-MATRIX, "sign"),
        (2 * MATRIX, "twice"),
        (1 / MATRIX, "reciprocal"),
        (MATRIX**2, "square of"),
        (1 - MATRIX, "one minus"),
        (MATRIX * 1.02, "the 2nd significant digit is off, and 3 are asked"),
        (MATRIX + np.array([[0, 0, 0], [0, 1, 0]]), "1 of 6 entries are off; the first is entry [1, 1]"),
        (np.where(MATRIX == 2, np.nan, MATRIX), "of 6 entries 1 is NaN"),
        (np.where(MATRIX < 3, np.nan, MATRIX), "of 6 entries 2 are NaN"),
        ("no", "numbers is asked, a str was given"),
        (
            torch.linalg.eigvals(torch.eye(2)),
            "a list, array or tensor of numbers is asked, a tensor of torch.complex64 was",
        ),
        (np.array([1, None]), "an array of object was given"),
        ([{1, 3}, {1, 4}], "a list with a set in it was given"),
        ([[1, 2], [3]], "a list of parts that differ in shape was given"),
    ],
)
def test_a_wrong_array_is_told_where(answer, said):
    exercise = make("array", lambda: torch.as_tensor(MATRIX))
    assert judge(exercise, MATRIX.tolist()).right
    verdict = judge(exercise, answer)
    assert not verdict.right and said in verdict.message


def double(x):
    return 2 * x


def in_place(x):
    x *= 2
    return x


def unfinished(x):
    raise NotImplementedError


@pytest.mark.parametrize(
    ("answer", "said", "answered"),
    [
        (lambda x: -2 * x, "not yet: the sign is wrong", True),
        (lambda x: 1 / (2 * x), "not yet: it is the reciprocal", True),
        (lambda x: 4 * x, "not yet: it is twice", True),
        (lambda x: 3 * x, "not yet: thrice", True),
        (lambda x: 3 * x + 1e-9, "not yet: thrice", True),
        (lambda x: 2 * x if len(x) < 4 else x, "on test 2 of 2", True),
        (lambda x: 3 * x if len(x) < 4 else 2 * x, "on test 1 of 2, 3 of 3 entries are off", True),
        (lambda x: x[:2], "on test 1 of 2, the shape should be (3,), it is (2,)", True),
        (lambda x: 2 * x + 1e-3, "on test 1 of 2, close, but the 4th significant digit is off, and 5 are asked", True),
        (lambda x: x.nope, "raised AttributeError", True),
        (lambda: 1, "raised TypeError", True),
        (in_place, "in place", True),
        (lambda x: x + torch.rand(()), "called twice with the same arguments", True),
        (lambda x: None, "returns nothing", False),
        (lambda x: ..., "not answered", False),
        (unfinished, "not answered", False),
        (4.0, "a function is asked", True),
        (lambda x: "text", "on test 1 of 2, it returns a str", True),
        (lambda x: [None] * 3, "it returns a list with a NoneType in it: real numbers are asked", True),
        (lambda x: x + 0j, "it returns a tensor of torch.complex64: real numbers are asked", True),
    ],
)
def test_a_wrong_function_is_told_on_which_test(answer, said, answered):
    cases = [(torch.ones(3),), (torch.arange(1.0, 6.0),)]
    exercise = make("function", lambda: double, cases=lambda: cases, mistakes={lambda x: 3 * x: "thrice."})
    assert judge(exercise, double).message == "right to 5 significant digits on all 2 tests."
    verdict = judge(exercise, answer)
    assert not verdict.right and said in verdict.message and verdict.answered is answered


@pytest.mark.parametrize(
    "form", [list, tuple, np.asarray, lambda x: x.tolist(), lambda x: x.requires_grad_(), lambda x: x[None]]
)
def test_a_function_may_answer_in_any_form(form):
    exercise = make("function", lambda: double, cases=lambda: [(torch.ones(3),), (torch.arange(1.0, 6.0),)])
    assert judge(exercise, lambda x: form(2 * x)).right


def test_another_form_is_right_but_a_mixture_of_forms_is_not():
    cases = [(torch.ones(3),), (torch.arange(1.0, 6.0),)]
    exercise = make("function", lambda: double, cases=lambda: cases, accepted=[lambda x: 2 * x.flip(0)])
    assert judge(exercise, double).right and judge(exercise, lambda x: 2 * x.flip(0)).right
    assert not judge(exercise, lambda x: -2 * x.flip(0)).right


def test_what_fails_only_on_a_hard_case_is_told_why():
    hard = {lambda: [(torch.tensor([1e30]),)]: "it overflows."}
    exercise = make("function", lambda: double, cases=lambda: [(torch.ones(3),)])
    assert judge(exercise, double).message == "right to 5 significant digits on its one test."
    exercise = make("function", lambda: double, cases=lambda: [(torch.ones(3),)], stress=hard)
    assert judge(exercise, double).message == "right to 5 significant digits on all 2 tests."
    for answer, raised in ((lambda x: 2 * (x**2).sqrt(), ""), (lambda x: 2 * x if x[0] < 9 else 1 / 0, "ZeroDiv")):
        verdict = judge(exercise, answer)
        assert not verdict.right and verdict.answered
        assert "right on the ordinary tests, but not yet on a hard one: it overflows." in verdict.message
        assert raised in verdict.message


def test_digits_lost_in_single_precision_are_told_as_such():
    cases = [(torch.full((3,), 0.1, dtype=torch.float64),)]
    exercise = make("function", lambda: double, cases=lambda: cases, digits=9)
    assert "digits were lost, in float32" in judge(exercise, lambda x: 2 * x.float()).message


def test_a_choice_explains_itself_and_is_what_its_cell_s_function_returns_whose_errors_stop_nothing():
    exercise = make("choice", lambda: "b", options={"a": "It grows without bound.", "b": "It is the KL."})
    assert judge(exercise, " (B) ").right and judge(exercise, "a").message == "not yet: It grows without bound."
    assert 'one of "a", "b", got' in judge(exercise, "c").message
    assert judge(exercise, lambda: abs).message.endswith("got a function.")
    assert judge(exercise, lambda: "b").right and judge(exercise, lambda: "(A)").message.startswith("not yet: It grows")
    for nothing in (lambda: ..., lambda: None):
        assert not judge(exercise, nothing).answered
    forgotten = judge(exercise, lambda: b)  # noqa: F821
    assert not forgotten.right and forgotten.answered
    assert re.fullmatch(
        r"your function raised NameError: name 'b' is not defined \(line \d+\)\. Write the letter in quotes\.",
        forgotten.message,
    )
    assert judge(exercise, lambda: 1 / 0).message.startswith("your function raised ZeroDivisionError")


def test_check_prints_hints_for_answers_only_and_raises_only_when_strict(capsys, monkeypatch):
    asked = make(hint=f"Think of Jensen{', and once more' * 5}.")
    monkeypatch.setattr(registry, "_chapter", lambda prefix: {"svbnn-x": asked})
    assert exercises.check("svbnn-x", 9.0) is None
    verdict, *hint = capsys.readouterr().out.splitlines()
    assert verdict.startswith("✗ svbnn-x: not yet") and len(hint) == 2 and max(map(len, hint)) <= 80
    assert exercises.check("svbnn-x", ...) is None and "Jensen" not in capsys.readouterr().out
    exercises.check("svbnn-x", RIGHT, strict=True)
    assert capsys.readouterr().out == "✓ svbnn-x: right to 3 significant digits: 3.7.\n"
    with pytest.raises(AssertionError, match="Hint: Think of Jensen"):
        exercises.check("svbnn-x", 9.0, strict=True)
