"""Put the learner's edition of a chapter together."""

import hashlib
import json
import posixpath
import re
from dataclasses import dataclass, field

from book.editions.learner import answers
from book.editions.learner.answers import is_bookkeeping, without_idle
from book.editions.learner.directives import Converter, Directive, fold, parse
from book.editions.learner.names import Names
from book.editions.project import code_cells, source_of, tags_of

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
# Hidden in JupyterLab and VS Code, and in Colab.
HIDDEN = {"cellView": "form", "jupyter": {"source_hidden": True}}
SILENT = {"cellView": "form", "jupyter": {"outputs_hidden": True, "source_hidden": True}}
FOLDED = {"jp-MarkdownHeadingCollapsed": True}
EQUATIONS = re.compile(r"equation_table\(\s*[\"'](\w+)[\"']\s*\)")


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


def edition(notebook: dict, names: Names, first: tuple[str, str]) -> dict:
    """The learner's edition of an executed chapter, without outputs, behind what is `first`: text and code."""
    converter = Converter(names)
    parts = divide(without_idle(notebook["cells"]), converter)
    known = answers.imported("\n".join(source_of(cell) for cell in code_cells(notebook)))
    start = posixpath.basename(names.page).partition("_")[0]
    told, found = _markdown(f"{start}-needs", first[0]), _code(f"{start}-finds", first[1], HIDDEN)
    cells = [told, found, *_main(parts, converter, known, names.tables(notebook))]
    cells += [*_references(notebook, names), *_solutions(parts)]
    made = {"cells": cells, "metadata": {"kernelspec": KERNEL, "language_info": {"name": "python"}},
            "nbformat": 4, "nbformat_minor": 5}  # fmt: skip
    made["metadata"]["bnn_learner"] = {"page": names.page, "sources": fingerprint(made)}
    return made


def fingerprint(notebook: dict) -> str:
    """Hash of what a learner writes: kinds and sources of the cells, not outputs or what is folded."""
    parts = [[cell["cell_type"], source_of(cell)] for cell in notebook["cells"]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _markdown(name: str, text: str, metadata: dict | None = None) -> dict:
    return {"cell_type": "markdown", "id": name, "metadata": metadata or {}, "source": text}


def _code(name: str, source: str, metadata: dict | None = None) -> dict:
    made = {"cell_type": "code", "execution_count": None, "id": name, "metadata": metadata or {}, "outputs": []}
    return {**made, "source": source}


def _main(parts: Parts, converter: Converter, known: set[str], tables: dict[str, list[str]]) -> list[dict]:
    """The chapter without its solutions: bookkeeping merged and hidden, captions below figures, answer cells."""
    cells: list[dict] = []
    for part in parts.main:
        if isinstance(part, Exercise):
            cells += _answers(part, known)
        elif part["cell_type"] == "markdown":
            cells.append(part)
        elif is_bookkeeping(part):
            if cells and cells[-1]["metadata"] == SILENT:
                cells[-1]["source"] += f"\n\n{source_of(part)}"
            else:
                cells.append(_code(part["id"], source_of(part), SILENT))
        elif table := _equations(source_of(part), converter.names):
            cells.append(_markdown(part["id"], table))
        else:
            cells += _shown(part, converter, tables.get(part["id"], []))
    return cells


def _equations(code: str, names: Names) -> str | None:
    """The chapter's table of equations with numbers in place of labels, if all that the cell does is to show it."""
    if not (call := EQUATIONS.fullmatch(code.strip())):
        return None
    from book.display.equations import equation_sources  # here, since book.display imports matplotlib

    rows = sorted(equation_sources(call[1]).items(), key=lambda row: [*map(int, names.number(row[0]).split("."))])
    lines = (f"| {names.reference(label)} | {', '.join(f'`{name}`' for name, _ in at)} |" for label, at in rows)
    return "\n".join(["| Equation | In the library |", "|---|---|", *lines])


def _shown(cell: dict, converter: Converter, tables: list[str]) -> list[dict]:
    """A code cell, and the caption of what it shows."""
    metadata = HIDDEN if "hide-input" in tags_of(cell) else {}
    if "parameters" in tags_of(cell):
        metadata = {"tags": ["parameters"]}
    cells = [_code(cell["id"], source_of(cell), metadata)]
    if tables:
        which = "is the one above" if len(tables) == 1 else "are those above"
        text = f"{' and '.join(f'**{table}**' for table in tables)} {which}."
        cells.append(_markdown(f"{cell['id']}-tables", text))
    figure = cell["metadata"].get("mystnb", {}).get("figure", {})
    if caption := figure.get("caption"):
        number = f"**{converter.names.label(figure['name'])['text']}.** " if "name" in figure else ""
        cells.append(_markdown(f"{cell['id']}-caption", number + converter.inline(caption)))
    return cells


def _answers(exercise: Exercise, known: set[str]) -> list[dict]:
    code = "\n".join(source_of(cell) for cell in exercise.solution if isinstance(cell, dict))
    ids = answers.checked(code)
    if not ids:
        return [_code(f"{exercise.label}-answer", answers.OPEN)]
    return [_code(f"{name}-answer", answers.answer_cell(name, known)) for name in ids]


def _solutions(parts: Parts) -> list[dict]:
    """The last section, folded, and in it each solution by itself: to open one shows no other.

    Code and texts are hidden besides, for Colab and VS Code, which open all headings.
    """
    solved = [exercise for exercise in parts.exercises.values() if exercise.solution]
    if not solved:
        return []
    prefix = solved[0].label.partition("-")[0]
    told = "## Solutions\n\nTry each exercise first; the button below opens the list, where each solution has its own."
    # JupyterLab shows no button for the first folded heading of a list unless a text stands before it
    cells = [_markdown(f"{prefix}-solutions", told, FOLDED), _markdown(f"{prefix}-solutions-each", "Each by itself:")]
    for exercise in solved:
        cells.append(_markdown(f"{exercise.label}-solved", f"### {exercise.title}", FOLDED))
        texts = 0
        for piece in exercise.solution:
            if isinstance(piece, dict):
                cells.append(_code(piece["id"], source_of(piece), SILENT))
            else:
                texts += 1
                cells.append(_markdown(f"{exercise.label}-solved-{texts}", fold("Solution", piece)))
    if cells[-1]["cell_type"] == "code":  # there, Run All of JupyterLab would open the section
        cells.append(_markdown(f"{prefix}-solutions-end", "*These were all.*"))
    return cells


def _references(notebook: dict, names: Names) -> list[dict]:
    """The cited works, as the bibliography of the book lists them."""
    prose = "\n".join(source_of(cell) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    cited = {key.strip() for keys in re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", prose) for key in keys.split(",")}
    lines = [f"- {work['entry']}" for key, work in names.citations.items() if key in cited]
    name = f"{posixpath.basename(names.page).partition('_')[0]}-references"
    return [_markdown(name, "## References\n\n" + "\n".join(lines))] if lines else []
