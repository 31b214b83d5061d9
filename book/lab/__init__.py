"""Where experiments run, and where their results are kept, checked and laid beside the published numbers."""

from __future__ import annotations

from bnnlib._files import StoreError
from book.lab.catalog import get, names
from book.lab.cells import Cell, CellResult, Experiment, ExperimentError
from book.lab.comparison import compare
from book.lab.published import paper_values
from book.lab.queries import best_method, stored_arrays, stored_mean, stored_values
from book.lab.store import home, load_arrays, load_result, result_path, save_result
from book.lab.tables import Table, table, table_html
from book.lab.verdicts import counts, distinct, verdict

__all__ = [
    "Cell",
    "CellResult",
    "Experiment",
    "ExperimentError",
    "StoreError",
    "Table",
    "best_method",
    "compare",
    "counts",
    "distinct",
    "get",
    "home",
    "load_arrays",
    "load_result",
    "names",
    "paper_values",
    "result_path",
    "run",
    "save_result",
    "stored_arrays",
    "stored_mean",
    "stored_values",
    "table",
    "table_html",
    "verdict",
]


def run(name: str, profile: str = "smoke", **options):
    """Run an experiment; see `book.lab.runner.run`."""
    from book.lab import runner

    return runner.run(name, profile, **options)
