"""Find, download, verify and load a data set by its name."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bnnlib.datasets import bundled, cifar, idx, logistic, registry, uci
from bnnlib.datasets.content import Content, file_digest, gunzip, sha256
from bnnlib.datasets.dataset import Dataset
from bnnlib.datasets.download import download, lock
from bnnlib.datasets.errors import DownloadError, IntegrityError, NotAvailableError
from bnnlib.datasets.registry import Entry, FileSpec

_READERS = {
    "idx": (idx.read, idx.missing),
    "cifar": (cifar.read, cifar.missing),
    "uci": (uci.read, uci.missing),
    "year": (uci.read_year, uci.missing_year),
    "logistic": (logistic.read, logistic.missing),
    "bundled": (bundled.read, bundled.missing),
}


def available(name: str, root: str | os.PathLike | None = None) -> bool:
    """Whether a data set can be loaded without the network: its files are here (their content is not checked).

    Raises:
        UnknownDatasetError: there is no data set of this name.

    Example:
        >>> available("digits")
        True
    """
    entry = registry.entry(name)
    if entry.reader == "bundled":
        return bundled.installed()
    return not _READERS[entry.reader][1](entry, registry.data_root(root) / entry.folder)


def fetch(name: str, root: str | os.PathLike | None = None, *, progress: bool = True) -> Path | None:
    """Download what is missing of a data set, verified; files that are already here are left alone.

    Args:
        name: one of `names()`.
        root: folder of all data sets; default $BNNLIB_DATA, else data/cache/sets.
        progress: report on stderr.

    Returns:
        The folder of the set, or None for a set that comes with scikit-learn.

    Raises:
        UnknownDatasetError: there is no data set of this name.
        DownloadError: no source could deliver, or the folder cannot be written.

    Example:
        >>> fetch("digits") is None  # there is nothing to download
        True
    """
    entry = registry.entry(name)
    if entry.reader == "bundled":
        return None
    folder = registry.data_root(root) / entry.folder
    if not _READERS[entry.reader][1](entry, folder):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock(folder / ".download" / f"{name}.lock", entry.title):
            # Asked again under the lock: another process may have finished the work meanwhile.
            for spec in _READERS[entry.reader][1](entry, folder):
                target, fault = folder / spec.path, partial(_fault, entry, spec)
                if not target.exists():
                    download(entry.urls(spec), target, check=fault, size=spec.size, progress=progress)
                if entry.members:
                    cifar.unpack(entry, target, folder)
    except DownloadError as error:
        raise DownloadError(
            f"{entry.title} is not in {folder} and could not be downloaded. {error}\n"
            "Check the network and try again (a broken download resumes), or put the files into that folder yourself "
            "(data/README.md gives the layout), or set BNNLIB_DATA to a folder that holds the data sets."
        ) from None
    except OSError as error:
        raise DownloadError(
            f"{folder} cannot be written: {error.strerror or error}. Set BNNLIB_DATA to a folder that you may write to."
        ) from error
    return folder


def _fault(entry: Entry, spec: FileSpec, path: Path) -> str | None:
    """What is wrong with a downloaded file, or None."""
    for algorithm, expected in (("sha256", spec.sha256), ("md5", spec.md5)):
        if expected and (digest := file_digest(path, algorithm)) != expected:
            return f"the {algorithm} is {digest}, published is {expected}"
    if spec.content_sha256:
        try:
            digest = sha256(gunzip(path))
        except IntegrityError:
            return "it is not a complete gzip file"
        if digest != spec.content_sha256:
            return f"the sha256 of its content is {digest}, published is {spec.content_sha256}"
    return uci.check_zip(path, entry.options["member"]) if entry.reader == "year" else None


def load(
    name: str, root: str | os.PathLike | None = None, download: bool = True, *, split: int | None = None
) -> Dataset:
    """Load a data set, downloading it first when it is not here.

    Args:
        name: one of `names()`.
        root: folder of all data sets; default $BNNLIB_DATA, else data/cache/sets.
        download: whether the network may be used.
        split: which of the standard splits of a UCI set, from 0; other sets have one split and take None.

    Returns:
        The data in their own units (images in [0, 1]); use `standardize` for zero mean and unit variance. A copy that
        is known to differ from the published set says so in its `name` and in `info["note"]`.

    Raises:
        UnknownDatasetError: there is no data set of this name.
        NotAvailableError: it is not here and `download` is False.
        DownloadError: it is not here and no source could deliver it.
        IntegrityError: a file is here but it is neither the published one nor a known variant.
        ValueError: the split does not exist.

    Example:
        >>> digits = load("digits")  # comes with scikit-learn
        >>> digits.train_x.shape, digits.test_x.shape, digits.task
        (torch.Size([1438, 1, 8, 8]), torch.Size([359, 1, 8, 8]), 'classification')
    """
    entry = registry.entry(name)
    content = _content(entry, root, download, split)
    variant = _variant(entry, content)
    title = variant.title if variant else entry.title
    info: dict[str, Any] = {
        "key": entry.name,
        "license": entry.license,
        "citation": entry.citation,
        "homepage": entry.homepage,
        "note": " ".join(filter(None, (variant.note if variant else "", entry.note))),
        "variant": variant is not None,
        "split": content.split,
        "fingerprint": content.fingerprint,
    }
    if "classes" in entry.options:
        info["classes"] = entry.options["classes"]
    x = [_inputs(array, entry) for array in (content.train_x, content.test_x)]
    y = [_targets(array, entry) for array in (content.train_y, content.test_y)]
    return Dataset(title, x[0], y[0], x[1], y[1], entry.task, info)


def fingerprint(name: str, root: str | os.PathLike | None = None) -> str:
    """sha256 of the content that `load` would use, for the provenance of a result; the network is not used.

    Raises:
        As `load` with `download=False`.

    Example:
        >>> len(fingerprint("digits"))
        64
    """
    entry = registry.entry(name)
    content = _content(entry, root, download=False, split=None)
    _variant(entry, content)
    return content.fingerprint


def _content(entry: Entry, root: str | os.PathLike | None, download: bool, split: int | None) -> Content:
    if split is not None and entry.reader != "uci":
        raise ValueError(f"split is {split}, but {entry.name} has only one split; leave the argument out.")
    folder = registry.data_root(root) / entry.folder
    if absent := _READERS[entry.reader][1](entry, folder):
        if not download:
            size = sum(spec.size for spec in entry.files) / 1e6
            raise NotAvailableError(
                f"{entry.title} is not in {folder} ({', '.join(spec.path for spec in absent)} missing). Run `python -m "
                f"bnnlib data {entry.name}` to download {size:.1f} MB, or set BNNLIB_DATA to a folder that has it."
            )
        fetch(entry.name, root)
    return _READERS[entry.reader][0](entry, folder, split)


def _variant(entry: Entry, content: Content) -> registry.Variant | None:
    """None for the published set, else the known variant that it is."""
    if not content.faults:
        return None
    for variant in entry.variants:
        if variant.fingerprint == content.fingerprint:
            return variant
    faults = "\n".join(f"  - {fault}" for fault in content.faults)
    raise IntegrityError(
        f"{entry.title}: these files are not the published ones, nor a known variant:\n{faults}\n"
        f"Delete them and run `python -m bnnlib data {entry.name}` to download them anew."
    )


def _inputs(array: np.ndarray, entry: Entry) -> torch.Tensor:
    x = torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
    return x.div_(entry.options["levels"]) if "levels" in entry.options else x


def _targets(array: np.ndarray, entry: Entry) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32 if entry.task == "regression" else np.int64))
