"""Tables for those who teach with the book: sessions with minutes of reading, exercises by difficulty and minutes."""

from collections.abc import Callable
from typing import NamedTuple

from book.editions.lessons import Lesson, Task
from book.editions.templates import markdown

# What a kind of question asks of a reader, the easiest first, and minutes to reckon with: nobody has been timed.
LEVELS = ("predict", "work out", "write", "research")
KINDS = {
    "choice": ("predict", 5),
    "number": ("work out", 10),
    "array": ("work out", 15),
    "function": ("write", 20),
}
OPEN = ("research", 60)  # an exercise without a check


class Session(NamedTuple):
    """One meeting: its title, the numbers of the chapters that it rests on, and what is done in class."""

    title: str
    chapters: tuple[int, ...]
    inside: str


SIX = (
    Session("Posteriors, and what approximations lose", (0,), "the explorer of the chapter; predict before each stop"),
    Session("A coin for every weight", (3,), "price one weight by hand, then move λ"),
    Session("Ranking and selecting", (4,), "the gallery of failures; which two weights are left?"),
    Session("Sampling, and learning a prior", (1,), "run the first step of the chapter with two seeds"),
    Session("Structure that saves time", (5,), "prune and compress a network, measure both"),
    Session("Which one should I take?", (9,), "groups enter a method of their own; read the verdicts"),
)
TWELVE = (
    Session("From a loss to a posterior", (0,), "first half of the chapter, to mean field"),
    Session("Chains and error bars", (0,), "second half of the chapter; read a verdict together"),
    Session("A coin for every weight", (3,), "derivation, with its checks"),
    Session("Gates and their gradients", (3,), "which gate is biased, and does it matter?"),
    Session("Ranking and selecting", (4,), "the gallery of failures"),
    Session("Optimizers as posteriors", (2,), "derive Adam's step from a fit"),
    Session("Sampling, and learning a prior", (1,), "stationarity, tested with two seeds"),
    Session("Structure that saves time", (5,), "prune and compress a network, measure both"),
    Session("Doubt of a trained network", (6,), "what does it notice that it has never seen?"),
    Session("Learning what is accepted", (7,), "a good chain and one that only looks good"),
    Session("Chains of images", (8,), "write the algorithm in fifteen lines"),
    Session("Which one should I take?", (9,), "projects: a method of one's own on equal terms"),
)


def tables(lessons: list[Lesson], kind: Callable[[str], str]) -> dict[str, Callable[[], str]]:
    """The tables of the page "Teaching" by name; `kind` tells what the question with an id asks for."""
    return {
        "six": lambda: plan(SIX, lessons, kind),
        "twelve": lambda: plan(TWELVE, lessons, kind),
        "exercises": lambda: exercises(lessons, kind),
        "reckoned": reckoned,
    }


def judged(task: Task, kind: Callable[[str], str]) -> tuple[str, int]:
    """The level of an exercise, which is that of its hardest part, and its minutes."""
    parts = [KINDS[kind(name)] for name in task.ids] or [OPEN]
    return max((level for level, _ in parts), key=LEVELS.index), sum(minutes for _, minutes in parts)


def plan(sessions: tuple[Session, ...], lessons: list[Lesson], kind: Callable[[str], str]) -> str:
    """A line for each session; a chapter of two sessions is read in halves."""
    known, lines = {one.number: one for one in lessons}, []
    for number, session in enumerate(sessions, 1):
        own = [known[chapter] for chapter in session.chapters if chapter in known]
        share = [sum(one.number in other.chapters for other in sessions) for one in own]
        reading = sum(one.minutes / parts for one, parts in zip(own, share, strict=True))
        pairs = [(task, parts) for one, parts in zip(own, share, strict=True) for task in one.tasks if task.ids]
        solving = sum(judged(task, kind)[1] / parts for task, parts in pairs)
        read = ", ".join(f"{{doc}}`{one.title} <../{one.document}>`" for one in own)
        lines.append([str(number), session.title, read, session.inside, f"{reading:.0f}", f"{solving:.0f}"])
    return markdown(["", "Session", "Read before", "In class", "Reading, min", "Checked exercises, min"], lines)


def exercises(lessons: list[Lesson], kind: Callable[[str], str]) -> str:
    """All exercises, the easiest and shortest first."""
    rows = []
    for one in lessons:
        for task in one.tasks:
            level, minutes = judged(task, kind)
            checked = f"`{'`, `'.join(task.ids)}`" if task.ids else "no check"
            line = [level, f"{{ref}}`{task.label}`", checked, str(minutes)]
            rows.append((LEVELS.index(level), minutes, one.number, line))
    return markdown(["Difficulty", "Exercise", "Checked as", "Minutes"], [row[-1] for row in sorted(rows)])


def reckoned() -> str:
    """What the minutes rest on."""
    lines = [[name, level, str(minutes)] for name, (level, minutes) in KINDS.items()]
    return markdown(["A part asks for", "Difficulty", "Minutes"], [*lines, ["no check, open end", *map(str, OPEN)]])
