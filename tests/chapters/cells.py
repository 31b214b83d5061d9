"""Cells of the smoke profiles, and the numbers that they give."""

from dataclasses import replace

import pytest
import torch

from bnnlib import datasets
from book import lab
from book.lab import Cell, CellResult

CPU = torch.device("cpu")
needs_digits = pytest.mark.skipif(
    not datasets.available("digits"), reason="scikit-learn, which has the digits, is absent"
)


def smoke(name: str, method: str | None = None, setting: str | None = None, **params) -> Cell:
    """An experiment's first smoke cell of a method and a setting, None for any, with some parameters others."""
    cells = lab.get(name).profiles["smoke"]()
    cell = next(one for one in cells if method in (None, one.method) and setting in (None, one.setting))
    return replace(cell, params=cell.params | params)


def values(result: CellResult, **where) -> dict[str, float]:
    """The value of each metric, in the rows that have this setting, method or replicate."""
    rows = (row for row in result.rows if all(row[key] == value for key, value in where.items()))
    return {row["metric"]: row["value"] for row in rows}
