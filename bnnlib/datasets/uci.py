"""Readers for the UCI regression sets with the standard 90/10 splits, and for Year Prediction MSD."""

import io
import zipfile
import zlib
from pathlib import Path

import numpy as np

from bnnlib.datasets.content import Content, sha256, sha256_of_array
from bnnlib.datasets.errors import DatasetError, IntegrityError
from bnnlib.datasets.registry import Entry, FileSpec

REPAIR = "Delete it and load the data set again to download it anew."


def standard_splits(rows: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The random 90/10 splits that the literature shares, as (train, test) indices in their published order.

    They are drawn one after another from NumPy's legacy generator with seed 1, whose stream is frozen.
    """
    random = np.random.RandomState(1)
    cut = round(rows * 0.9)
    orders = [random.permutation(rows) for _ in range(count)]
    return [(order[:cut], order[cut:]) for order in orders]


def _table(data: bytes, delimiter: str | None, source: Path) -> np.ndarray:
    try:
        table = np.loadtxt(io.BytesIO(data), delimiter=delimiter, ndmin=2)
    except ValueError as error:
        raise IntegrityError(f"{source} is not a table of numbers: {error}. {REPAIR}") from None
    if not np.isfinite(table).all():
        raise IntegrityError(f"{source} has entries that are not finite numbers. {REPAIR}")
    return table


def _indices(path: Path) -> np.ndarray:
    return _table(path.read_bytes(), None, path).ravel()


def _check_files(folder: Path, k: int, split: tuple[np.ndarray, np.ndarray], entry: Entry) -> None:
    """Compare the published index files, where present, with what the registry and the seed say."""
    features, target = folder / "index_features.txt", folder / "index_target.txt"
    if features.exists() and not np.array_equal(_indices(features), np.arange(entry.options["features"])):
        raise IntegrityError(f"{features} does not name the first {entry.options['features']} columns. {REPAIR}")
    if target.exists() and _indices(target).tolist() != [entry.options["target"]]:
        raise IntegrityError(f"{target} does not name column {entry.options['target']}. {REPAIR}")
    paths = [folder / f"index_{part}_{k}.txt" for part in ("train", "test")]
    if all(path.exists() for path in paths):
        if not all(np.array_equal(_indices(path), rows) for path, rows in zip(paths, split, strict=True)):
            raise IntegrityError(f"{paths[0]} and {paths[1].name} are not the published split {k}. {REPAIR}")


def read(entry: Entry, folder: Path, split: int | None) -> Content:
    """One of the standard splits: inputs (N, features) and targets (N, 1), float64, in the data's units."""
    count, split = entry.options["splits"], split or 0
    if not 0 <= split < count:
        raise ValueError(f"split is {split}, but {entry.name} has the splits 0 to {count - 1}.")
    spec = entry.files[0]
    path = folder / spec.path
    data = path.read_bytes()
    faults = []
    if sha256(data) != spec.sha256:
        faults.append(f"{path}: the sha256 is {sha256(data)}, published is {spec.sha256}")
    table = _table(data, None, path)
    splits = standard_splits(len(table), count)
    digest = sha256_of_array(np.stack([np.concatenate(pair) for pair in splits]).astype("<i8"))
    if not faults and digest != entry.options["splits_sha256"]:
        raise DatasetError(
            f"NumPy {np.__version__} does not draw the published splits of {entry.name}: its legacy generator changed. "
            "Please report this, and use the NumPy version pinned in requirements.txt."
        )
    train, test = splits[split]
    if not faults:
        _check_files(folder, split, (train, test), entry)
    x, y = table[:, : entry.options["features"]], table[:, [entry.options["target"]]]
    parts = {"data": sha256(data), "splits": digest}
    return Content(x[train], y[train], x[test], y[test], parts, faults, split=f"{split} of {count}, published")


def missing(entry: Entry, folder: Path) -> list[FileSpec]:
    """Files of the entry that are not here."""
    return [spec for spec in entry.files if not (folder / spec.path).exists()]


def missing_year(entry: Entry, folder: Path) -> list[FileSpec]:
    """The archive, unless it or the text in it is here."""
    return [] if (folder / entry.options["member"]).exists() else missing(entry, folder)


def _year_text(entry: Entry, folder: Path) -> tuple[bytes, Path]:
    member = entry.options["member"]
    if (folder / member).exists():
        return (folder / member).read_bytes(), folder / member
    path = folder / entry.files[0].path
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(member), path
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise IntegrityError(f"{path} is not a zip archive with {member} in it: {error}. {REPAIR}") from None


def check_zip(path: Path, member: str) -> str | None:
    """What is wrong with a zip archive that should hold `member`, or None; its own CRC-32 is checked."""
    try:
        with zipfile.ZipFile(path) as archive:
            if member not in archive.namelist():
                return f"it holds {', '.join(archive.namelist())} and no {member}"
            return "its content does not match its CRC-32" if archive.testzip() else None
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        return f"it is not a sound zip archive ({error})"


def read_year(entry: Entry, folder: Path, split: int | None) -> Content:
    """Year Prediction MSD: target (the year) first in each line; the first rows train, the last rows test.

    The order matters: it keeps every artist on one side of the split.
    """
    data, path = _year_text(entry, folder)
    table = _table(data, ",", path)
    train, test, features = (entry.options[key] for key in ("train_rows", "test_rows", "features"))
    faults = []
    if table.shape != (train + test, features + 1):
        faults.append(f"{path}: the table is {table.shape}, published is {(train + test, features + 1)}")
    x, y = table[:, 1:], table[:, :1]
    parts = {"data": sha256(data)}
    return Content(x[:train], y[:train], x[train:], y[train:], parts, faults)
