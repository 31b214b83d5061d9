"""Where experiments run, and where their results are kept, checked and laid beside the published numbers."""

import importlib

_MODULES = {
    "bnnlib._files": ["StoreError"],
    "book.lab.captions": ["budget_caption"],
    "book.lab.catalog": ["get", "names"],
    "book.lab.cells": ["Cell", "CellResult", "Experiment", "ExperimentError"],
    "book.lab.claims": ["ResultsBox"],
    "book.lab.comparison": ["compare"],
    "book.lab.intervals": ["FEW", "decided", "estimate", "half", "shows", "side", "spread"],
    "book.lab.pivots": ["pivot"],
    "book.lab.published": ["paper_values"],
    "book.lab.queries": ["paired_difference", "stored_arrays", "stored_mean", "stored_values"],
    "book.lab.runner": ["run"],
    "book.lab.wording": ["Said", "difference", "gap", "mean", "number", "with_error"],
    "book.lab.store": ["home", "load_arrays", "load_result", "result_path", "save_result"],
    "book.lab.tables": ["table"],
    "book.lab.verdicts": ["counts", "distinct", "verdict"],
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_WHERE)


def __getattr__(name: str):
    # at the first use: PyTorch takes seconds to import, and `python -m book --help` none
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
