"""What a reader hands over, and the fingerprint by which a copy of a data set is recognized."""

import gzip
import hashlib
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bnnlib.datasets.errors import IntegrityError


@dataclass
class Content:
    """Arrays as stored in the files (images uint8 (N, C, H, W)), before any scaling.

    `parts` maps each piece of content to its sha256; `faults` says what differs from the published files.
    """

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    parts: dict[str, str]
    faults: list[str] = field(default_factory=list)
    split: str = "published"

    @property
    def fingerprint(self) -> str:
        """sha256 over the sorted (piece, sha256) pairs: it does not depend on compression or on file order."""
        lines = "".join(f"{part}:{digest}\n" for part, digest in sorted(self.parts.items()))
        return hashlib.sha256(lines.encode()).hexdigest()


def sha256(data: bytes | memoryview) -> str:
    """Hexadecimal sha256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_of_array(array: np.ndarray) -> str:
    """Hexadecimal sha256 of an array's type, shape and little-endian content."""
    array = np.ascontiguousarray(array)
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return sha256(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())


def file_digest(path: Path, algorithm: str) -> str:
    """Hexadecimal digest of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()


def gunzip(path: Path) -> bytes:
    """Decompressed content of a .gz file."""
    try:
        return gzip.decompress(path.read_bytes())
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise IntegrityError(
            f"{path} is truncated or is not gzip ({error}). Delete it and load the data set again to download it anew."
        ) from None
