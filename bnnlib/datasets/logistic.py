"""Reader for the three sets of the logistic-regression experiments: Heart, Australian and German credit."""

from pathlib import Path

import numpy as np

from bnnlib.datasets.content import Content, sha256
from bnnlib.datasets.errors import IntegrityError
from bnnlib.datasets.registry import Entry
from bnnlib.datasets.uci import REPAIR, missing

__all__ = ["missing", "read"]


def read(entry: Entry, folder: Path, split: int | None) -> Content:
    """All rows for training and none for test: these sets are targets for samplers, without a standard split."""
    parts, faults, arrays = {}, [], []
    for spec in entry.files:
        path = folder / spec.path
        parts[path.stem] = sha256(path.read_bytes())
        if parts[path.stem] != spec.sha256:
            faults.append(f"{path}: the sha256 is {parts[path.stem]}, published is {spec.sha256}")
        try:
            arrays.append(np.load(path, allow_pickle=False))
        except (ValueError, EOFError, OSError) as error:
            raise IntegrityError(f"{path} is not a NumPy array of numbers: {error}. {REPAIR}") from None
    x, y = arrays[0], arrays[1].reshape(-1)
    if x.ndim != 2 or len(x) != len(y) or not np.isin(y, (0, 1)).all():
        raise IntegrityError(
            f"{folder} holds data {x.shape} and labels {y.shape}, not a table with labels 0 and 1. {REPAIR}"
        )
    return Content(x, y, x[:0], y[:0], parts, faults, split="none: all rows train")
