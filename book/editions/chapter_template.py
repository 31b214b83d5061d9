"""What a new chapter starts as: small, but whole. Each text is a `string.Template` of `new_chapter.facts`."""

from __future__ import annotations

CARD = """\
number = $number
title = "$title"
notebook = "$notebook"
source = "$source"
prefix = "$prefix"
"""

PUBLISHED = """\
# Published numbers of $source; book/lab/metrics.toml says what the keys mean. For example:
#
# [[source]]
# paper = "$paper"
# table = "Table 1"
# experiment = "$prefix-mean"
# own = ["mean"]
# replicates = 1
# values = [
#   { setting = "n=100", method = "mean", metric = "mse_test", cell = "n = 100, error", mean = 0.01 },
# ]
"""

CLAIMS = """\
# What $source claims; book/lab/claims.py says what the keys mean. For example:
#
# [[claim]]
# id = "$prefix-falls"
# paper = "$paper"
# place = "Table 1"
# text = "The error falls below a tenth with a hundred draws."
# box = "A hundred draws are enough"  # its words in the box on top of the chapter, for the claims that matter most
# kind = "value"
# rows = [{ experiment = "$prefix-mean", setting = "n=100", metric = "mse_test", says = "below", than = 0.1 }]
"""

EXPERIMENT = '''\
"""The mean of n draws as an estimate: a first experiment, to be replaced by the chapter's own."""

from __future__ import annotations

import torch
from torch import Tensor

from book.lab.cells import Cell, CellResult, Experiment, profiles


def mean(draws: Tensor) -> Tensor:
    """The mean over the last axis, equation ($prefix-mean)."""
    return draws.sum(-1) / draws.shape[-1]


def run_cell(cell: Cell, device: torch.device, checkpoint=None) -> CellResult:
    """Squared error of the mean of normal draws around zero, one row a replicate."""
    rows = []
    for replicate in cell.replicates:
        generator = torch.Generator().manual_seed(replicate)
        error = mean(torch.randn(cell.params["draws"], generator=generator)).square()
        where = {"setting": cell.setting, "method": cell.method, "replicate": replicate}
        rows.append({**where, "metric": "mse_test", "value": error.item()})
    return CellResult(rows)


def _cells(*sizes: int) -> list[Cell]:
    return [Cell(f"n={draws}", "mean", (0, 1, 2), {"draws": draws}) for draws in sizes]


EXPERIMENTS = [
    Experiment(
        name="$prefix-mean",
        paper="$paper",
        summary="the mean of n draws, in place of the chapter's first experiment",
        profiles=profiles(_cells, smoke=(10, 100)),
        run_cell=run_cell,
        version=1,
        unavailable=dict.fromkeys(("book", "paper"), "not run: not written yet"),
    )
]
'''

FIGURES = '''\
"""Pictures of the chapter on $title."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from book.display.style import figure


def idea() -> Figure:
    """The variance of a mean of n draws."""
    shown, axes = figure()
    number = np.arange(1, 51)
    axes.plot(number, 1 / number)
    axes.set(xlabel="number of draws n", ylabel="variance of their mean", ylim=(0, 1))
    return shown
'''

NUMBERS = '''\
"""Numbers from the store that the chapter on $title says in its text."""

from __future__ import annotations

from collections.abc import Mapping

from book import lab
from book.lab.queries import Rows


def numbers(rows: Mapping[str, Rows]) -> dict[str, str]:
    """The texts by key; rows: {name: what `lab.compare("$prefix-name")` returns}."""
    error = lab.stored_mean(rows["mean"], "n=100", "mean", "mse_test")
    return {"error": lab.number(error, "{:.3f}")}
'''

EXERCISES = '''\
"""Exercises of the chapter on $title."""

from __future__ import annotations

from book.display.exercises.registry import Exercise

# Each is checked by the notebook's solution cell: exercises.check("$prefix-1", ..., strict=True).
EXERCISES: list[Exercise] = []
'''

TEST_EXPERIMENTS = '''\
"""Experiments of the chapter on $title."""

import pytest
import torch

from book import lab


def test_the_error_is_that_of_the_mean_of_the_seeded_draws():
    experiment = lab.get("$prefix-mean")
    cell = experiment.profiles["smoke"]()[0]
    rows = experiment.run_cell(cell, torch.device("cpu")).rows
    assert [row["replicate"] for row in rows] == [0, 1, 2]
    draws = torch.randn(10, generator=torch.Generator().manual_seed(2))
    # float32 sums of ten numbers
    assert rows[2]["value"] == pytest.approx(float(draws.double().mean() ** 2), rel=1e-4)
'''

TEST_EQUATIONS = '''\
"""The equations of the chapter on $title, each checked by a number computed another way."""

import torch

from chapters.$name.experiments.mean import mean

# Every labeled equation is tested.
UNTESTED: dict[str, str] = {}


# equation: $prefix-mean
def test_the_mean_worked_out_by_hand():
    assert mean(torch.tensor([[1.0, 2.0, 6.0], [0.0, 0.0, 3.0]])).tolist() == [3.0, 1.0]
'''

FILES = {
    "chapters/$name/__init__.py": '"""The study of the chapter on $title; its card is card.toml."""\n',
    "chapters/$name/card.toml": CARD,
    "chapters/$name/published.toml": PUBLISHED,
    "chapters/$name/claims.toml": CLAIMS,
    "chapters/$name/exercises.py": EXERCISES,
    "chapters/$name/numbers.py": NUMBERS,
    "chapters/$name/experiments/__init__.py": '"""Experiments of the chapter on $title."""\n',
    "chapters/$name/experiments/mean.py": EXPERIMENT,
    "chapters/$name/figures/__init__.py": FIGURES,
    "tests/chapters/$name/test_experiments.py": TEST_EXPERIMENTS,
    "tests/equations/test_$prefix.py": TEST_EQUATIONS,
}

TITLE = """\
# $title

The problem, why anyone should care, and what the reader will be able to do.
What the reader needs, with links, and the minutes that the live parts take."""

SETUP = """\
import torch

from book import lab
from book.display import use_style
from book.display.equations import equation_table
from chapters.$name import figures
from chapters.$name.experiments.mean import mean
from chapters.$name.numbers import numbers

use_style()
torch.set_num_threads(1)  # small problems: threads would only wait for each other
generator = torch.Generator().manual_seed(SEED)
said = numbers({"mean": lab.compare("$prefix-mean")})"""

IDEA = """\
## The idea in words

The idea, and one picture of it before any formula: {numref}`fig-$prefix-idea`."""

FIGURE = {
    "mystnb": {
        "figure": {"name": "fig-$prefix-idea", "caption": "The variance of a mean falls as one over n."},
        "image": {"alt": "A curve that falls from one towards zero, steeply at first."},
    }
}

MODEL = """\
## Model and derivation

Every displayed equation that is used later has a label, and a test in `tests/equations/test_$prefix.py`:

```{math}
:label: $prefix-mean
\\bar x = \\frac{1}{n} \\sum_{i=1}^{n} x_i .
```

What a reader could doubt is checked where it stands."""

CHECK = """\
draws = torch.randn(1_000, 100, generator=generator)
assert abs(mean(draws).var().item() - 1 / 100) < 0.002, "the variance is 1 / n"
print(f"variance of the mean of 100 draws: {mean(draws).var():.4f}")"""

RESULTS = """\
## Experiments

One picture for each experiment, and what it shows; the rest is in the table.
With 100 draws the squared error is {eval}`said["error"]`."""

WHERE = """\
## Where the equations live

The table is generated from docstrings that name {eq}`$prefix-mean` and the others."""

# (name, source of Markdown) or (name, source of code, metadata); the names get the chapter's prefix.
CELLS = [
    ("title", TITLE),
    ("parameters", 'PROFILE = "smoke"\nSEED = 0', {"tags": ["parameters", "remove-cell"]}),
    ("setup", SETUP, {"tags": ["hide-input"]}),
    ("idea", IDEA),
    ("fig-idea", "figures.idea();", FIGURE),
    ("model", MODEL),
    ("mean-check", CHECK, {}),
    ("results", RESULTS),
    ("results-table", 'lab.table("$prefix-mean")', {}),
    ("where", WHERE),
    ("where-table", 'equation_table("$prefix")', {}),
]
