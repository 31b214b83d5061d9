"""Take a chapter apart: what is read in order, and the solutions, which come last."""

from dataclasses import dataclass, field

from book.editions.learner.directives import Converter
from book.editions.learner.fences import Directive, parse
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


def divide(cells: list[dict], converter: Converter) -> Parts:
    """Walk through the cells of a chapter; between solution-start and solution-end all goes to the solution."""
    parts, solving = Parts(), None
    for cell in cells:
        if cell["cell_type"] != "markdown":
            (solving.solution if solving else parts.main).append(cell)
            continue
        text: list[str] = []
        posed: list[Exercise] = []
        for piece in parse(source_of(cell)):
            name = piece.name if isinstance(piece, Directive) else ""
            if name == "exercise":
                posed.append(Exercise(piece.options["label"], converter.titled(piece)))
                parts.exercises[posed[-1].label] = posed[-1]
            if name == "solution":
                parts.exercises[piece.argument].solution.append(converter.text(piece.body))
            elif name in ("solution-start", "solution-end"):
                solving = parts.exercises[piece.argument] if name == "solution-start" else None
            elif shown := converter.pieces([piece]):
                (solving.solution if solving else text).append(shown)
        if text:
            parts.main.append({**cell, "metadata": {}, "source": "\n\n".join(text)})
        parts.main += posed
    return parts
