"""A small notebook that keeps every rule for chapters, and functions that break one."""

import copy

from book import lab
from book.editions.numbers import placeholders
from book.editions.source import NOTEBOOK_METADATA, Chapter, canonical

TEXT = """\
# A chapter

The prior is {eq}`svbnn-prior`, and {numref}`fig-svbnn-idea` shows it.
Its error is {eval}`said["error"]`, see {numref}`fig-svbnn-move`.

```{math}
:label: svbnn-prior
x = 1.5 \\% \\text{ error}. Then more.
```
"""
EXERCISES = """\
````{exercise} One
:label: svbnn-ex-one

Guess.

```{hint}
Think.
```
````

```{solution-start} svbnn-ex-one
```
"""
FIGURE = {
    "mystnb": {
        "figure": {"name": "fig-svbnn-idea", "caption": "The prior of one weight."},
        "image": {"alt": "A tall bar at zero and a wide bell around it."},
    }
}
CHECKS = "".join(f'exercises.check("svbnn-{i}", {i}, strict=True)\n' for i in (1, 2, 3))


def markdown(name: str, text: str, **metadata) -> dict:
    cell = {"cell_type": "markdown", "id": name, "metadata": metadata, "source": text}
    if expressions := placeholders(cell):
        metadata["user_expressions"] = expressions
    return cell


def code(name: str, text: str, **metadata) -> dict:
    empty = {"execution_count": None, "outputs": []}
    return {"cell_type": "code", "id": name, "metadata": metadata, "source": text, **empty}


def good() -> dict:
    """A small notebook without a fault but its size."""
    move = {"figure": {"name": "fig-svbnn-move", "caption": "Move the slider."}}
    return {
        "cells": [
            markdown("svbnn-title", TEXT.strip()),
            code("svbnn-parameters", 'PROFILE = "smoke"\nSEED = 0', tags=["parameters", "remove-cell"]),
            code("svbnn-fig-idea", "svbnn.idea()", **copy.deepcopy(FIGURE)),
            code("svbnn-fig-move", "curves(plot, controls, title='Move', alt=words)", mystnb=move),
            markdown("svbnn-exercises", EXERCISES.strip()),
            code("svbnn-solution", CHECKS.strip()),
        ],
        "metadata": NOTEBOOK_METADATA,
        "nbformat": 4,
        "nbformat_minor": 5,
    }


SAID = {
    "error": lab.Said("1.20", runs=10),
    "gap": lab.Said("−0.10 ± 0.02", 10, ordered=True),
    "noise": lab.Said("−0.10 ± 0.09", 10, ordered=False),
    "once": lab.Said("1.31", runs=1),
    "later": lab.number(None),
}
CONTEXT = {"tested": {"svbnn-prior"}, "exercises": ["svbnn-1", "svbnn-2", "svbnn-3"]}
CONTEXT["spoken"] = lambda: (SAID, ["SVBNN", "Dropout"])


def chapter(notebook: dict, **context) -> Chapter:
    return Chapter(canonical(notebook), **{**CONTEXT, **context})


def change(name: str, **changes):
    """A function that alters one cell of a notebook."""

    def altered(notebook: dict) -> dict:
        next(cell for cell in notebook["cells"] if cell["id"] == name).update(changes)
        return notebook

    return altered


def add(text: str, kind=markdown, name="svbnn-more", **metadata):
    def altered(notebook: dict) -> dict:
        notebook["cells"].append(kind(name, text, **metadata))
        return notebook

    return altered


def without_figure(**changes):
    """The figure cell with other figure or image settings."""
    figure = {**FIGURE["mystnb"]["figure"], **changes.pop("figure", {})}
    image = {**FIGURE["mystnb"]["image"], **changes.pop("image", {})}
    return change("svbnn-fig-idea", metadata={"mystnb": {"figure": figure, "image": image}})


def solved(source: str):
    return change("svbnn-solution", source=source)


def parameters_late(notebook: dict) -> dict:
    cells = notebook["cells"]
    cells[1], cells[2] = cells[2], cells[1]
    return notebook


def exercises_text(old: str, new: str):
    return change("svbnn-exercises", source=EXERCISES.strip().replace(old, new))
