"""Reader for the pickled batches of CIFAR-10, and the unpacking of its archive."""

import io
import os
import pickle
import tarfile
import tempfile
from pathlib import Path

import numpy as np

from bnnlib.datasets.content import Content, file_digest, sha256
from bnnlib.datasets.errors import IntegrityError
from bnnlib.datasets.registry import Entry, FileSpec

# Loading a pickle runs code that it names: only what an array of numbers needs is allowed to be named.
_RECONSTRUCT = np.empty(0).__reduce__()[0]
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str):
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which a batch of images has no use for")
        return _ALLOWED[module, name]


def read_batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 (N, 3, 32, 32) and labels uint8 (N,) of one batch."""
    try:
        batch = _ArrayUnpickler(io.BytesIO(path.read_bytes()), encoding="bytes").load()
        images, labels = batch[b"data"], np.asarray(batch[b"labels"])
        rows = len(labels)
        if images.dtype != np.uint8 or images.shape != (rows, 3072) or labels.min() < 0 or labels.max() > 9:
            raise ValueError(f"its arrays are {images.dtype} {images.shape} for {rows} labels")
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise IntegrityError(
            f"{path} is not a CIFAR-10 batch: {error}. Delete it and load the data set again to download it anew."
        ) from None
    return images.reshape(rows, 3, 32, 32), labels.astype(np.uint8)


def missing(entry: Entry, folder: Path) -> list[FileSpec]:
    """The archive, unless every file that it holds is here."""
    return [] if all((folder / member).exists() for member in entry.members) else list(entry.files)


def unpack(entry: Entry, archive: Path, folder: Path) -> None:
    """Take the members named in the registry out of the archive, and nothing else; then delete the archive."""
    with tempfile.TemporaryDirectory(dir=folder / ".download") as scratch, tarfile.open(archive) as tar:
        # Paths inside the archive are never used, so that none can lead outside the folder.
        members = {Path(item.name).name: item for item in tar if item.isfile()}
        if absent := set(entry.members) - set(members):
            raise IntegrityError(f"{archive} holds no {', '.join(sorted(absent))}; delete it and download it again.")
        for member in entry.members:
            stream = tar.extractfile(members[member])
            assert stream is not None  # only of what is no file
            (Path(scratch) / member).write_bytes(stream.read())
        for member in entry.members:
            os.replace(Path(scratch) / member, folder / member)
    archive.unlink()


def read(entry: Entry, folder: Path, split: int | None) -> Content:
    """Images uint8 (N, 3, 32, 32) and labels: every batch but `test_batch` is for training."""
    parts, faults = {}, []
    train: list[tuple[np.ndarray, np.ndarray]] = []
    tests: list[tuple[np.ndarray, np.ndarray]] = []
    for member, md5 in entry.members.items():
        path = folder / member
        if file_digest(path, "md5") != md5:
            faults.append(f"{path}: the md5 is {file_digest(path, 'md5')}, published is {md5}")
        if member == "batches.meta":
            continue
        images, labels = read_batch(path)
        # The content, not the pickle: the same arrays are pickled differently by each version of NumPy.
        parts[member] = sha256(images.tobytes() + labels.tobytes())
        (tests if member == "test_batch" else train).append((images, labels))
    train_x, train_y = (np.concatenate(arrays) for arrays in zip(*train, strict=True))
    test_x, test_y = tests[0]
    return Content(train_x, train_y, test_x, test_y, parts, faults)
