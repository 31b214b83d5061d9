"""The page says to an answer what the check in Python says: the same rules, applied by script and by NumPy."""

import json
import math

import numpy as np
import pytest

from book.display import exercises
from book.display.exercises.judge import judge
from book.display.exercises.page import on_page, question, questions
from book.display.exercises.registry import Case, Exercise
from book.display.exercises.rules import as_array

IDS = [name for name in exercises.ids() if on_page(exercises.get(name)) is not None]
VALUES = [name for name in IDS if on_page(exercises.get(name)).kind != "choice"]
MATHS = {"sqrt": math.sqrt, "exp": math.exp, "log": math.log, "ln": math.log, "abs": abs, "pi": math.pi, "e": math.e}


@pytest.fixture(scope="module")
def page(browser, root):
    """An empty page with the script alone."""
    opened = browser.new_page()
    opened.add_script_tag(content=(root / "book" / "_static" / "answers.js").read_text(encoding="utf-8"))
    yield opened
    opened.close()


def said(page, data: dict, answers: list[str]) -> list[tuple[bool, str]]:
    """The page's verdicts."""
    code = "([data, answers]) => answers.map((one) => bnnAnswers.verdict(data, one))"
    return [(one["right"], one["message"]) for one in page.evaluate(code, [data, answers])]


def tried(exercise: Exercise) -> list:
    """Answers that are right, wrong in known ways, nearly right, and wrong in no known way."""
    right = as_array(exercise.reference())
    near = [right * (1 + sign * off) for off in (1e-12, 3e-4, 4e-3, 2e-2, 4.9e-2, 0.3, 9.0) for sign in (-1, 1)]
    with np.errstate(all="ignore"):  # what has no value is left out below
        slips = [-right, 2 * right, right / 2, 1 - right, 1 / right, 100 * right, right**2]
        slips += [np.sqrt(right), np.log(right)]
    plain = [np.zeros_like(right), np.full_like(right, 0.7), right + 1, np.round(right), -1e9 * right, 1e-9 * right]
    known = [as_array(mistake()) for mistake in exercise.mistakes]
    alone = [right + np.eye(1, right.size, at).reshape(right.shape) for at in range(right.size)]
    turned = [right.T, right.reshape(-1)[:1], right[None]] if right.shape else []
    found = [right, *known, *near, *slips, *plain, *alone, *turned]
    # An array of one entry is written as a list, and a list of one entry is no array of none.
    return [one.tolist() for one in found if np.isfinite(one).all()]


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("name", VALUES)
def test_the_page_and_python_say_the_same_to_every_value(page, name):
    exercise = on_page(exercises.get(name))
    answers = tried(exercise)
    expected = [judge(exercise, answer) for answer in answers]
    told = said(page, question(exercise), [json.dumps(answer) for answer in answers])
    assert told == [(one.right, one.message) for one in expected]
    assert told[0][0] and not all(right for right, _ in told)


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("name", [name for name in IDS if name not in VALUES])
def test_the_page_and_python_say_the_same_to_every_choice(page, name):
    exercise = exercises.get(name)
    letters = list(exercise.options)
    told = said(page, question(exercise), letters)
    assert told == [((verdict := judge(exercise, letter)).right, verdict.message) for letter in letters]
    assert sum(right for right, _ in told) == 1


@pytest.mark.parametrize("name", [name for name in IDS if name not in VALUES])
def test_a_page_with_buttons_asks_for_no_letter_in_quotes(name):
    exercise = exercises.get(name)
    assert "in quotes" in exercise.asked and question(exercise)["asked"] == f"one of {', '.join(exercise.options)}"


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("name", VALUES)
def test_what_is_no_number_is_right_nowhere_and_stops_nothing(page, name):
    data = question(exercises.get(name))
    malformed = "abc|1,5|1/0|(1|1)|2 3|[1|[[1, 2], [3]]|sqrt(-1)|1e999|--|e(2)|%|exp".split("|")
    assert not any(right for right, _ in said(page, data, malformed))
    assert said(page, data, ["", "  "]) == 2 * [(False, "not answered yet.")]


@pytest.mark.browser
@pytest.mark.parametrize(
    "text",
    "0.25|.5|5.|1e-3|1_000|-2**2|2**-1|2^3^2|1/3|-(1 - 0.2)/(1 + .2)|sqrt(13/6)|exp(-log(3))|2*pi|abs(-e)|1 - -1|3*-2"
    "|ln(2)/2|(50_000 * 5e-4) ** -0.5|[1, [2, 3/4]]".split("|"),
)
def test_a_sum_is_worked_out_as_python_works_it_out(page, text):
    # one operation may be rounded otherwise by the two languages' mathematical libraries
    flat = "(text) => [bnnAnswers.read(text)].flat(Infinity)"
    right = np.hstack([np.ravel(one) for one in np.atleast_1d(np.array(eval(text.replace("^", "**"), MATHS), object))])
    assert page.evaluate(flat, text) == pytest.approx(right.tolist(), rel=1e-15)


@pytest.mark.browser
def test_other_signs_for_minus_and_times_are_read_and_a_comma_is_explained(page):
    assert page.evaluate("bnnAnswers.read('\u22122\u00d73')") == -6
    data = question(Exercise(id="x-1", kind="number", reference=lambda: 0.25, stub="answer = ...  # a quarter"))
    told = "this is no number: write 0.25 with a point, or leave out the comma."
    assert said(page, data, ["0,25"]) == [(False, told)]


@pytest.mark.browser
def test_an_array_in_another_shape_is_told_so(page):
    exercise = Exercise(id="x-1", kind="array", reference=lambda: [[1.0, 2.0, 3.0]], stub="answer = ...  # three")
    told = said(page, question(exercise), ["[1, 2, 3]", "[[1], [2], [3]]", "[1, 2]", "1"])
    judged = [judge(exercise, value) for value in ([1, 2, 3], [[1], [2], [3]], [1, 2], 1)]
    assert told == [(one.right, one.message) for one in judged]


def test_of_a_function_a_case_is_asked_and_its_mistakes_are_known():
    exercise = Exercise(
        id="x-1",
        kind="function",
        reference=lambda: lambda x: 2 * x,
        stub="def answer(x):\n    ...  # twice",
        cases=lambda: [(np.ones(2),)],
        mistakes={lambda x: x + 3: "add nothing.", lambda x: x + x: "this one is right here."},
        by_hand=Case("twice x, second entry, for x = (1, 2)", ([1.0, 2.0],), (1,)),
    )
    asked = on_page(exercise)
    assert judge(asked, 4).right and judge(asked, 5).message == "not yet: add nothing."
    assert question(exercise)["label"] == "one case by hand: twice x, second entry, for x = (1, 2)"


def test_what_cannot_be_asked_is_left_out():
    assert set(questions(exercises.ids())) == set(IDS)
    whole = Exercise("x-1", "function", lambda: abs, "def answer(x):", cases=lambda: [(1.0,)])
    assert on_page(whole) is None and question(whole) is None and question(exercises.get(IDS[0]))["id"] == IDS[0]


def test_questions_have_words_of_their_own():
    for name in IDS:
        data = question(exercises.get(name))
        assert data["label"] and data["asked"] and data["hint"], name
        assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_what_returns_zeros_and_ones_is_asked_as_a_whole_in_all_forms_that_are_right():
    gates = on_page(exercises.get("svbnn-5"))  # u above 1 - phi, or u below phi
    assert judge(gates, [0, 0, 1, 0]).right and judge(gates, [1, 0, 0, 1]).right
    assert "1 - phi" in judge(gates, [1, 1, 0, 1]).message and not judge(gates, 1).right
    kept = on_page(exercises.get("avo-6"))  # mean squares .0025, .06, .0004, .0064 and .0014 against .0035
    assert judge(kept, [0, 1, 0, 1, 0]).right and "not the sum" in judge(kept, [1, 1, 0, 1, 1]).message
