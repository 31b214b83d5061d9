"""The sets that come with scikit-learn and need no network: what the book uses when nothing else is there."""

import importlib.util
from pathlib import Path

import numpy as np

from bnnlib.datasets.content import Content, sha256_of_array
from bnnlib.datasets.errors import DatasetError
from bnnlib.datasets.registry import Entry, FileSpec


def missing(entry: Entry, folder: Path) -> list[FileSpec]:
    """Nothing to download."""
    return []


def installed() -> bool:
    """Whether scikit-learn can be imported."""
    return importlib.util.find_spec("sklearn") is not None


def read(entry: Entry, folder: Path, split: int | None) -> Content:
    """The rows with a fixed fifth of them for test; images (N, 1, 8, 8) on the scale 0 to 16."""
    if not installed():
        raise DatasetError(f"{entry.name} comes with scikit-learn: install that with `pip install scikit-learn`.")
    from sklearn import datasets

    # scikit-learn's own scaling of diabetes uses every row; the raw units leave the test rows out of it.
    options = {"scaled": False} if entry.name == "diabetes" else {}
    x, y = getattr(datasets, f"load_{entry.name}")(return_X_y=True, **options)
    if "image" in entry.options:
        x = x.reshape(len(x), *entry.options["image"])
    parts = {"x": sha256_of_array(x), "y": sha256_of_array(y)}
    if entry.task == "regression":
        y = y.reshape(-1, 1)
    order = np.random.RandomState(0).permutation(len(x))
    cut = round(len(x) * 0.8)
    train, test = order[:cut], order[cut:]
    return Content(x[train], y[train], x[test], y[test], parts, split="80/20, drawn once with a fixed seed")
