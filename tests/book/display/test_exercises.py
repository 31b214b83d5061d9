"""Every exercise of the book: the notebook's solution passes, the stub fails, the foreseen mistakes are named."""

import ast
import contextlib
import inspect
import math
import re

import numpy as np
import pytest
import torch

from book import studies
from book.display import exercises
from book.display.exercises import check
from book.display.exercises.judge import judge
from book.display.exercises.registry import DIGITS, Exercise
from book.editions.project import code_cells, read_notebook, source_of

PROMISE = "three significant digits of a number and five of a function"


NUMBERS, FUNCTIONS = (
    [name for name in exercises.ids() if exercises.get(name).kind == kind] for kind in ("number", "function")
)
ROUGH = [name for name in FUNCTIONS if exercises.get(name).digits == 5 and not exercises.get(name).stress]


@pytest.fixture(params=exercises.ids())
def exercise(request) -> Exercise:
    return exercises.get(request.param)


def definitions(source: str) -> list[str]:
    """The imports and functions of a cell."""
    wanted = ast.Import | ast.ImportFrom | ast.FunctionDef
    return [ast.unparse(node) for node in ast.parse(source).body if isinstance(node, wanted)]


@pytest.mark.slow
@pytest.mark.parametrize("study", studies.all(), ids=lambda study: study.name)
def test_the_solutions_of_the_notebook_pass_without_the_rest_of_the_chapter(study, monkeypatch):
    """Imports, functions and solutions alone: what is compared was not computed along the way."""
    done, names = [], {}

    def strict_check(name, answer, strict):
        done.append(name)
        check(name, answer, strict=True)

    monkeypatch.setattr(exercises, "check", strict_check)
    notebook = read_notebook(study.folder.parent / study.notebook)
    sources = [source_of(cell) for cell in code_cells(notebook)]
    for one in (one for source in sources for one in definitions(source)):
        with contextlib.suppress(NameError):  # a default that the chapter computes
            exec(one, names)
    for source in sources:
        if re.search(r"\bexercises\.check\(.+\bstrict=True,?\s*\)", source, re.DOTALL):
            exec(source, names)
    assert sorted(done) == sorted(exercises.ids(study.prefix))


def test_the_answer_cell_fails_is_seen_as_unanswered_and_says_what_is_asked(exercise, capsys):
    names = {"math": math, "np": np, "torch": torch, "exercises": exercises}
    before = {*names, "__builtins__"}
    exec(exercise.answer_cell, names)
    assert set(names) - before == {"answer"}, "what is worked out in the cell stays there"
    assert "yet" in capsys.readouterr().out
    verdict = judge(exercise, names["answer"])
    assert not verdict.right and not verdict.answered and exercise.hint
    with pytest.raises(AssertionError):
        exercises.check(exercise.id, names["answer"], strict=True)
    first, *rest = exercise.answer_cell.splitlines()
    assert first == f"# {exercise.id}: {exercise.asked}"
    assert bool(exercise.stress) is ("extreme arguments included" in first), "what is judged is said beforehand"
    assert rest[0].startswith("def answer("), "what the cell raises is caught"
    assert max(map(len, rest)) <= 88
    if exercise.kind == "function":
        taken = [len(inspect.signature(names["answer"]).parameters)]
        assert taken == list({len(case) for case in exercise.cases()})
        assert re.search(r"#.*\w", exercise.stub), "the stub says what comes back"
    elif exercise.kind in ("number", "array"):
        assert re.search(r"answer = \.\.\.  #.*\w", exercise.stub), "the stub says what is asked, with its unit"


def test_every_foreseen_mistake_is_wrong_and_gets_its_own_words(exercise):
    for wrong, message in exercise.mistakes.items():
        verdict = judge(exercise, wrong if exercise.kind == "function" else wrong())
        assert not verdict.right and verdict.answered
        assert verdict.message == f"not yet: {message}", f"{exercise.id}: {message!r}: another hint came first"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_has_named_mistakes_and_accepts_its_other_forms(name):
    exercise = exercises.get(name)
    assert len(set(exercise.mistakes.values())) >= 4
    for form in (exercise.reference(), *exercise.accepted):
        assert judge(exercise, form).right
        assert judge(exercise, lambda *case, form=form: form(*case).numpy()).right
        assert judge(exercise, lambda *case, form=form: form(*case).tolist()).right


@pytest.mark.parametrize("name", ROUGH)
def test_a_function_in_single_precision_is_right_where_five_digits_are_asked(name):
    exercise = exercises.get(name)

    def single(*case):
        return exercise.reference()(*(one.float() if isinstance(one, torch.Tensor) else one for one in case))

    assert judge(exercise, single).right


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_rounded_to_the_digits_that_are_asked_is_right(name):
    exercise = exercises.get(name)
    value = exercise.reference()
    if math.isinf(exercise.digits):
        assert judge(exercise, int(value)).right and not judge(exercise, value + 0.1).right
    else:
        assert judge(exercise, float(f"{value:.{exercise.digits - 1}e}")).right
        unit = 10.0 ** (math.floor(math.log10(value)) + 1 - exercise.digits)
        verdict = judge(exercise, value + 0.9 * unit)
        assert not verdict.right and f"{exercise.digits} are asked" in verdict.message


@pytest.mark.parametrize("study", studies.all(), ids=lambda study: study.name)
def test_digits_other_than_those_that_the_chapter_promises_are_said_in_the_text(study):
    notebook = read_notebook(study.folder.parent / study.notebook)
    prose = [source_of(cell) for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    assert any(PROMISE in text for text in prose)
    for name in exercises.ids(study.prefix):
        exercise, asked = exercises.get(name), [text for text in prose if f"`{name}`" in text]
        assert asked, f"the text does not name {name}"
        if exercise.kind in DIGITS and exercise.digits != DIGITS[exercise.kind]:
            words = {math.inf: "exactly", 4: "four digits", 9: "nine digits"}[exercise.digits]
            assert words in asked[0], f"{name} has to be right {exercise.accuracy}"


ODDS = math.log(1 / 9) - 0.5 * math.log(101) + 0.5 * 30**2 / 101  # of fnd-4: mu^2 / (2 sigma^2) = 30^2 / (2 * 101)
BY_HAND = {  # with the digits that were worked out
    "aeb-3": (1.25, 9),  # 1 / (1 - 0.4 / 2)
    "aeb-6": (1.9 / 9, 9),
    "aeb-7": (0.1 / 1.9, 9),  # w / (2 - w)
    "aeb-9": (10_932, 9),  # 50 log(1/9) / log 0.99 = 10931.1
    "aeb-10": (math.sqrt(13 / 6), 9),  # means 1, 5, 4, 2 with variance 10/3; every half has variance 2
    "avo-1": (0.0779660, 4),
    "avo-2": (5042.5, 4),
    "avo-5": (0.905, 4),
    "avo-7": (2 * 0.117594, 4),
    "fnd-1": (0.2, 12),
    "fnd-4": (math.exp(ODDS) / (1 + math.exp(ODDS)), 12),
    "fnd-6": (1_000 * 0.2 / 1.8, 12),
    "fnd-7": (4_000_000 / 804_004, 12),
    # min(p_x q_y, p_y q_x): 0.10 + 0.09 + 0.10 on the diagonal, then 0.06, 0.04 and 0.06 twice
    "imh-1": (0.29 + 2 * (0.06 + 0.04 + 0.06), 6),
    "imh-2": (3 * 0.008 / 4.4, 6),
    "imh-6": (math.exp(640 * math.log(498 / 499)), 6),
    "mh-1": (5 / 9, 7),
    "mh-2": (0.9538726, 7),
    "mh-5": (0.9 / 1.1, 7),
    "mh-7": (1_440_000, 7),
    "sbn-1": (math.log(0.65 / 0.6), 7),  # sqrt(0.9 * 0.4) = 0.6
    "sbn-2": (0.8413447, 7),  # Phi(2 / sqrt(1 + 3)) = Phi(1)
    "sbn-4": (1.6033703, 7),  # sqrt(1 + pi / 2) = sqrt(2.570796)
    "sbn-10": (3.8729833, 7),  # sqrt(15)
    "sbnn-5": (math.sqrt(2 * (2 + math.log(3)) / (math.exp(6) - math.exp(2))), 6),
    # log(tau_1/tau_0) = 0.000925 e^10 / 2; the slab's own precision changes it by 1e-8
    "sbnn-6": (math.exp(0.000925 * math.exp(10) / 2 - 5), 6),
    "sbnn-8": ([1.08 / 3, 0.5 / 3], 12),
    # E theta = 1/10 and E theta^2 = 1/20 but for e^-10, so the ratio is 0.1 / sqrt(0.05 - 0.01)
    "sbp-4": (0.5, 4),
    # 288,000 + 1,600,000 + 400,000 + 5,000 over 43,200 + 86,400 + 80,372 + 2,830
    "sbp-7": (2_293_000 / 212_802, 12),
    "sbp-9": (3.8794, 4),  # C + log 20 - log 2 = 1.5768 + 2.9957 - 0.6931
    "svbnn-2": (1.658e-3, 3),  # published for 20-6-6-1 and n = 3000
    # 0.5 log 5 + 0.5 log(5/9) + 0.5 (log(sqrt 2 / 0.1) + 1.01/4 - 1/2)
    "svbnn-3": (1.7117, 4),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_a_reference_is_the_number_worked_out_by_hand(name):
    expected, digits = BY_HAND[name]
    assert np.asarray(exercises.get(name).reference()) == pytest.approx(np.asarray(expected), rel=2 * 10.0**-digits)


def test_choices_worked_out_by_hand():
    assert exercises.get("aeb-1").reference() == "a" and exercises.get("fnd-5").reference() == "b"


def test_at_the_crossover_spike_and_slab_are_equally_probable():
    w = exercises.get("aeb-2").reference()
    laplace = math.exp(-w / 0.1) / 0.2
    normal = math.exp(-(w**2) / 20) / math.sqrt(20 * math.pi)
    assert laplace == pytest.approx(normal, rel=1e-9)


@pytest.mark.parametrize(
    ("given", "said"), [("svbnn-11", "did you mean svbnn-1"), ("svb1", "did you mean"), ("xyz", "there are: fnd-1")]
)
def test_an_unknown_id_names_the_nearest(given, said):
    with pytest.raises(LookupError, match=said):
        exercises.get(given)
    with pytest.raises(LookupError, match="no chapter has the prefix"):
        exercises.ids("nope")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "riddle"}, "kind='riddle' is unknown"),
        ({"reference": 3.0}, "must be a function"),
        ({"stub": "x = 1"}, "must assign"),
        ({"kind": "function"}, "needs `cases`"),
        ({"kind": "choice"}, "at least two options"),
        ({"digits": 0}, "use 1 or more"),
    ],
)
def test_a_badly_made_exercise_is_refused(changes, said):
    fields = {"id": "svbnn-x", "kind": "number", "reference": lambda: 1.0, "stub": "answer = ..."}
    with pytest.raises(ValueError, match=said):
        Exercise(**{**fields, **changes})
