"""Take a chapter apart: what is read in order, and the solutions, which come last."""

from dataclasses import dataclass, field

from book.editions.learner.directives import Converter, quote
from book.editions.learner.fences import Directive, Text, parse
from book.editions.project import source_of


@dataclass
class Exercise:
    """An exercise and its solution: Markdown texts and code cells in order."""

    label: str
    title: str
    solution: list[str | dict] = field(default_factory=list)


@dataclass
class Parts:
    """The chapter's cells outside solutions (Markdown converted), with an `Exercise` after each statement."""

    main: list[dict | Exercise] = field(default_factory=list)
    exercises: dict[str, Exercise] = field(default_factory=dict)


class Divider:
    """Walks through the cells of a chapter; between solution-start and solution-end all goes to the solution."""

    def __init__(self, converter: Converter) -> None:
        self.converter, self.parts = converter, Parts()
        self.solving: Exercise | None = None
        self.posing: Exercise | None = None  # between exercise-start and exercise-end
        self.text: list[str] = []  # of the cell in hand

    def divide(self, cells: list[dict]) -> Parts:
        for cell in cells:
            if cell["cell_type"] == "markdown":
                self._markdown(cell)
            elif self.solving:
                self.solving.solution.append(cell)
            else:
                self.parts.main.append(cell)
        return self.parts

    def _markdown(self, cell: dict) -> None:
        found: list[Exercise] = []
        for piece in parse(source_of(cell)):
            if isinstance(piece, Directive) and self._boundary(piece, found):
                continue
            self._add(self.converter.pieces([piece]), isinstance(piece, Text))
        if self.text:
            self.parts.main.append({**cell, "metadata": {}, "source": "\n\n".join(self.text)})
            self.text = []
        self.parts.main += found

    def _add(self, text: str, plain: bool) -> None:
        if not text:
            return
        if self.solving:
            self.solving.solution.append(text)
        elif self.posing and plain and self.text:
            self.text[-1] += f"\n>\n{quote(text)}"
        else:
            self.text.append(quote(text) if self.posing else text)

    def _boundary(self, piece: Directive, found: list[Exercise]) -> bool:
        """Whether the piece begins or ends something and is done with."""
        if piece.name in ("exercise", "exercise-start"):
            label = piece.options["label"]
            exercise = Exercise(label, self.converter.titled(piece))
            self.parts.exercises[label] = exercise
            if piece.name == "exercise":
                found.append(exercise)
                return False
            self.posing = exercise
            self.text.append(quote(f"**{exercise.title}.**"))
        elif piece.name == "exercise-end":
            found.append(self.posing)
            self.posing = None
        elif piece.name == "solution":
            self.parts.exercises[piece.argument].solution.append(self.converter.text(piece.body))
        elif piece.name == "solution-start":
            self.solving = self.parts.exercises[piece.argument]
        elif piece.name == "solution-end":
            self.solving = None
        else:
            return False
        return True
