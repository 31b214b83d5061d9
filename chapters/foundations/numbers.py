"""Numbers from the store that the chapter on Foundations says in its text."""

from __future__ import annotations

from collections.abc import Mapping

from book import lab
from book.lab.queries import Rows


def numbers(rows: Mapping[str, Rows]) -> dict[str, str]:
    """The texts by key; rows: {name: what `lab.compare("fnd-name")` returns}."""
    error = lab.stored_mean(rows["mean"], "n=100", "mean", "mse_test")
    return {"error": lab.number(error, "{:.3f}")}
