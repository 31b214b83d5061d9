"""Reader for the three sets of the logistic-regression experiments: Heart, Australian and German credit."""

from pathlib import Path

import numpy as np

from bnnlib.datasets.content import Content, sha256
from bnnlib.datasets.errors import IntegrityError
from bnnlib.datasets.registry import Entry
from bnnlib.datasets.uci import REPAIR, missing

__all__ = ["missing", "read"]


def _array(path: Path) -> np.ndarray:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise IntegrityError(f"{path} is not a NumPy array of numbers: {error}. {REPAIR}") from None


def read(entry: Entry, folder: Path, split: int | None) -> Content:
    """All rows for training and none for test: these sets are targets for samplers, without a standard split."""
    parts, faults = {}, []
    for spec in entry.files:
        digest = sha256((folder / spec.path).read_bytes())
        parts[Path(spec.path).stem] = digest
        if digest != spec.sha256:
            faults.append(f"{folder / spec.path}: the sha256 is {digest}, published is {spec.sha256}")
    x, y = (_array(folder / spec.path) for spec in entry.files)
    y = y.reshape(-1)
    if x.ndim != 2 or len(x) != len(y) or not np.isin(y, (0, 1)).all():
        raise IntegrityError(
            f"{folder} holds data {x.shape} and labels {y.shape}, not a table with labels 0 and 1. {REPAIR}"
        )
    return Content(x, y, x[:0], y[:0], parts, faults, split="none: all rows train")
