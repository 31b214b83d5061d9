"""What an exercise is, and the table of all exercises: the list EXERCISES of each study's module `exercises`."""

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from textwrap import indent
from typing import Any

from book import studies
from book.studies import Study

KINDS = ("number", "array", "function", "choice")
DIGITS = {"number": 3, "array": 3, "function": 5}  # what the chapters promise where an exercise does not say otherwise


@dataclass(frozen=True)
class Case:
    """One case of a function that can be worked out by hand: the page asks for it, where no function can be checked.

    A function whose single entries could be guessed, such as one that returns zeros and ones, is asked as a whole.

    Args:
        asked: what is asked, with the arguments: "the first standard deviation for [[1, 0.6], [0.6, 1]]".
        arguments: of the function; a list stands for a tensor in double precision.
        entry: place of the number in what the function returns; () asks for all of it, an array as a list.
    """

    asked: str
    arguments: tuple
    entry: tuple[int, ...] = ()


@dataclass(frozen=True)
class Exercise:
    """One checked exercise.

    A number or an array is computed by a function without arguments, a function is compared on `cases`. What follows
    calls that function of the case "an answer".

    Args:
        id: chapter's prefix and number, "svbnn-3".
        kind: "number", "array", "function" or "choice".
        reference: function without arguments that returns the right answer: a float; an array or tensor; a function;
            the letter of a choice.
        stub: source code that the reader starts from; it names the arguments and the unit, and must fail the check. Of
            a function it is the head; all others end with a line that assigns `answer`. It may use `math`, `np` and
            `torch`. The solution stands in the chapter's notebook, and the build executes it.
        digits: significant digits that must be right: an error of half a unit of the last one passes (absolute, with
            a unit of 1 in the first digit, where the reference is 0). None is `DIGITS` of the kind, math.inf is exact.
        hint: one sentence for a wrong answer; it must not give the answer away.
        mistakes: {a wrong answer: what to say to whoever gives it on every case}.
        accepted: answers of another form that are as right as the reference.
        options: {letter: what to say when it is chosen}, choices only.
        cases: function that returns argument tuples on which an answered function is compared, functions only.
        stress: {function that returns more cases: what to say to an answer that is right on `cases`, but not here}:
            where only a numerically stable form passes, functions only.
        samples: n by which an answer may be off (a sum given for a mean), if the exercise has one.
        by_hand: a case whose number or list the page asks for, functions only.

    Raises:
        ValueError: for an unknown kind, a stub without `answer`, or a field that the kind needs and that is empty.
    """

    id: str
    kind: str
    reference: Callable[[], Any]
    stub: str
    digits: float | None = None
    hint: str = ""
    mistakes: Mapping[Callable, str] = field(default_factory=dict)
    accepted: Sequence[Callable] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    cases: Callable[[], Sequence[tuple]] | None = None
    stress: Mapping[Callable[[], Sequence[tuple]], str] = field(default_factory=dict)
    samples: float | None = None
    by_hand: Case | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"exercise {self.id!r}: kind={self.kind!r} is unknown, use one of {', '.join(KINDS)}")
        if not callable(self.reference):
            raise ValueError(f"exercise {self.id!r}: reference must be a function that computes the answer")
        if self.kind == "function" and self.cases is None:
            raise ValueError(f"exercise {self.id!r}: a function needs `cases` to be compared on")
        if self.kind != "function" and not self.stub.split("\n")[-1].startswith("answer = "):
            raise ValueError(f"exercise {self.id!r}: the stub must assign `answer` in its last line")
        if self.kind == "choice" and len(self.options) < 2:
            raise ValueError(f"exercise {self.id!r}: a choice needs at least two options")
        if self.digits is None:
            object.__setattr__(self, "digits", DIGITS.get(self.kind, math.inf))
        if self.digits < 1:
            raise ValueError(f"exercise {self.id!r}: digits={self.digits}, use 1 or more, or math.inf for exact")

    @property
    def accuracy(self) -> str:
        """How exact an answer has to be: "to 3 significant digits", or "exactly"."""
        return "exactly" if math.isinf(self.digits) else f"to {self.digits} significant digits"

    @property
    def asked(self) -> str:
        """What to answer with, in words: kind, required digits, and whether a numerically stable form is needed."""
        if self.kind == "choice":
            return f"one letter in quotes, {', '.join(self.options)}"
        whole = "a whole number" if self.kind == "number" and math.isinf(self.digits) else f"a {self.kind}"
        hard = ", extreme arguments included" if self.stress else ""
        return f"{'a list, array or tensor' if self.kind == 'array' else whole}, {self.accuracy}{hard}"

    @property
    def answer_cell(self) -> str:
        """Source of the cell in which a reader answers: what is asked, the stub, and the check.

        What is no function is worked out in one: its names are then none of the chapter's, whose cells may run again,
        and what it raises is named and stops no run of the notebook.
        """
        stub = self.stub
        if self.kind != "function":
            given, _, asked = stub.rpartition("answer = ")
            stub = "def answer():\n" + indent(f"{given}return {asked}", "    ")
        return f'# {self.id}: {self.asked}\n{stub}\n\n\nexercises.check("{self.id}", answer)'


@cache
def _chapter(study: Study) -> dict[str, Exercise]:
    exercises = [one for name in study.modules("exercises") for one in import_module(name).EXERCISES]
    table = {exercise.id: exercise for exercise in exercises}
    if len(table) != len(exercises):
        raise ValueError(f"{study.name} uses an exercise id twice: {[exercise.id for exercise in exercises]}")
    foreign = [name for name in table if not name.startswith(f"{study.prefix}-")]
    if foreign:
        raise ValueError(f"{study.name}: ids must start with {study.prefix + '-'!r}, got {foreign}")
    return table


def ids(prefix: str | None = None) -> list[str]:
    """All exercise ids in the book's order, or those of the chapter with this prefix.

    Raises:
        LookupError: for an unknown prefix.
    """
    chapters = {study.prefix: study for study in studies.all()}
    if prefix is not None and prefix not in chapters:
        raise LookupError(f"no chapter has the prefix {prefix!r}; there are: {', '.join(chapters)}")
    return [name for study in ([chapters[prefix]] if prefix else chapters.values()) for name in _chapter(study)]


def get(exercise_id: str) -> Exercise:
    """The exercise with this id.

    Raises:
        LookupError: for an unknown id, with the nearest ids.
    """
    known = ids()
    if exercise_id not in known:
        near = difflib.get_close_matches(str(exercise_id), known, n=3, cutoff=0.5)
        advice = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(known)}"
        raise LookupError(f"no exercise is called {exercise_id!r}; {advice}")
    prefix = exercise_id.partition("-")[0]
    return next(_chapter(study)[exercise_id] for study in studies.all() if study.prefix == prefix)
