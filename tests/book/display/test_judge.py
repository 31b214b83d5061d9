"""What is said to right, wrong, malformed and missing answers."""

from __future__ import annotations

import math

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


@pytest.mark.parametrize("answer", [RIGHT, np.float32(RIGHT), torch.tensor(RIGHT), [RIGHT], RIGHT * (1 + 9e-4)])
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
        (1.02 * RIGHT, "within 5 %"),
        (9.0, "too large"),
        (0.3, "too small"),
        (-9.0, "not right"),
        (math.nan, "NaN"),
        (math.inf, "too large"),
        ("four", "a str was given"),
        ([1.0, 2.0], r"shape (2,)"),
        (1 + 2j, "a complex was given"),
    ],
)
def test_a_wrong_number_is_told_how_it_is_off(answer, said):
    verdict = judge(make(samples=50), answer)
    assert not verdict.right and verdict.answered
    assert said in verdict.message


def test_tolerance_is_relative_and_absolute_at_zero():
    assert not judge(make(), RIGHT * (1 + 2e-3)).right
    zero = make(reference=lambda: 0.0)
    assert judge(zero, 9e-4).right and not judge(zero, 2e-3).right


@pytest.mark.parametrize("answer", [None, ...])
@pytest.mark.parametrize("kind", ["number", "array", "text"])
def test_no_answer_yet(kind, answer):
    verdict = judge(make(kind), answer)
    assert not verdict.right and not verdict.answered and "not answered" in verdict.message


MATRIX = np.arange(6.0).reshape(2, 3) + 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (MATRIX.T, "transpose"),
        (MATRIX[0], r"shape should be (2, 3)"),
        (-MATRIX, "sign"),
        (2 * MATRIX, "twice"),
        (MATRIX + np.array([[0, 0, 0], [0, 1, 0]]), "1 of 6 entries are off; the first is entry [1, 1]"),
        (np.where(MATRIX == 2, np.nan, MATRIX), "1 entries are NaN"),
        ("no", "a str was given"),
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
        (lambda x: -2 * x, "on test 1 of 2, the sign is wrong", True),
        (lambda x: 2 * x if len(x) < 4 else x, "on test 2 of 2", True),
        (lambda x: x.nope, "raised AttributeError", True),
        (lambda: 1, "raised TypeError", True),
        (in_place, "in place", True),
        (lambda x: None, "returns nothing", False),
        (lambda x: ..., "not answered", False),
        (unfinished, "not answered", False),
        (4.0, "a function is asked", True),
        (lambda x: "text", "a str was given", True),
    ],
)
def test_a_wrong_function_is_told_on_which_test(answer, said, answered):
    exercise = make("function", lambda: double, cases=lambda: [(torch.ones(3),), (torch.arange(1.0, 6.0),)])
    assert judge(exercise, double).right
    verdict = judge(exercise, answer)
    assert not verdict.right and said in verdict.message and verdict.answered is answered


def test_a_choice_explains_itself():
    exercise = make("choice", lambda: "b", options={"a": "It grows without bound.", "b": "It is the KL."})
    assert judge(exercise, " (B) ").right
    assert judge(exercise, "a").message == "not yet: It grows without bound."
    assert "one of a, b" in judge(exercise, "c").message


def test_a_text_forgives_case_and_punctuation_but_not_words():
    exercise = make("text", lambda: ("spike-and-slab", "spike and slab prior"))
    assert judge(exercise, "Spike and slab!").right
    assert "spelling" in judge(exercise, "spike and slap").message
    assert not judge(exercise, "horseshoe").right
    assert not judge(exercise, "  ").answered
    assert "a number was given" in judge(exercise, 3).message


def test_check_prints_hints_for_answers_only_and_raises_only_when_strict(capsys, monkeypatch):
    monkeypatch.setattr(registry, "_chapter", lambda prefix: {"svbnn-x": make(hint="Think of Jensen.")})
    assert exercises.check("svbnn-x", 9.0) is None
    assert capsys.readouterr().out.startswith("✗ svbnn-x: not yet") and exercises.check("svbnn-x", ...) is None
    assert "Jensen" not in capsys.readouterr().out
    exercises.check("svbnn-x", RIGHT, strict=True)
    assert capsys.readouterr().out == "✓ svbnn-x: right, 3.7.\n"
    with pytest.raises(AssertionError, match="Hint: Think of Jensen"):
        exercises.check("svbnn-x", 9.0, strict=True)
