"""Results with their provenance: written by the experiments, compared with the papers, read by the notebooks."""

from __future__ import annotations

from bnnlib.store.files import StoreError, home, load_arrays, load_result, result_path, save_result

__all__ = ["StoreError", "home", "load_arrays", "load_result", "result_path", "save_result"]
