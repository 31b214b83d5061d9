"""Results with their provenance: written by the experiments, compared with the papers, read by the notebooks."""

from __future__ import annotations

from bnnlib.store.comparison import compare
from bnnlib.store.files import StoreError, home, load_arrays, load_result, result_path, save_result
from bnnlib.store.tables import Table, table, table_html
from bnnlib.store.verdicts import paper_values, verdict

__all__ = [
    "StoreError",
    "Table",
    "compare",
    "home",
    "load_arrays",
    "load_result",
    "paper_values",
    "result_path",
    "save_result",
    "table",
    "table_html",
    "verdict",
]
