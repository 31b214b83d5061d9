"""Reader for the idx files of MNIST and Fashion-MNIST."""

from pathlib import Path

import numpy as np

from bnnlib.datasets.content import Content, file_digest, gunzip, sha256
from bnnlib.datasets.errors import IntegrityError
from bnnlib.datasets.registry import Entry, FileSpec


def parse(data: bytes, magic: int, source: str) -> np.ndarray:
    """Array of unsigned bytes in an idx file: images (N, 1, H, W) of magic 0x803 or labels (N,) of 0x801."""
    axes = magic & 0xFF
    header = np.frombuffer(data[: 4 * (axes + 1)], dtype=">u4")
    if len(header) != axes + 1 or header[0] != magic:
        raise IntegrityError(f"{source} is no idx file of {'images' if axes == 3 else 'labels'}; download it again.")
    shape = tuple(int(size) for size in header[1:])
    values = np.frombuffer(data, dtype=np.uint8, offset=4 * (axes + 1))
    if values.size != np.prod(shape):
        raise IntegrityError(f"{source} holds {values.size} bytes, but announces {shape}; download it again.")
    return values.reshape(shape[0], 1, *shape[1:]) if axes == 3 else values


def _content(folder: Path, spec: FileSpec, faults: list[str]) -> bytes:
    path = folder / spec.path
    if not path.exists():
        path = path.with_suffix("")
    data = gunzip(path) if path.suffix == ".gz" else path.read_bytes()
    if spec.content_sha256 and sha256(data) != spec.content_sha256:
        faults.append(f"{path}: the sha256 of the content is {sha256(data)}, published is {spec.content_sha256}")
    if spec.md5 and (path.suffix != ".gz" or file_digest(path, "md5") != spec.md5):
        faults.append(f"{path}: it is not the published .gz file with md5 {spec.md5}")
    return data


def missing(entry: Entry, folder: Path) -> list[FileSpec]:
    """Files that are neither here as .gz nor decompressed."""
    return [s for s in entry.files if not (folder / s.path).exists() and not (folder / s.path).with_suffix("").exists()]


def read(entry: Entry, folder: Path, split: int | None) -> Content:
    """Images uint8 (N, 1, 28, 28) and labels from the four files of the registry entry."""
    parts: dict[str, str] = {}
    faults: list[str] = []
    arrays = []
    for spec in entry.files:
        data = _content(folder, spec, faults)
        name = Path(spec.path).stem
        parts[name] = sha256(data)
        arrays.append(parse(data, 0x803 if "images" in name else 0x801, str(folder / spec.path)))
    train_x, train_y, test_x, test_y = arrays
    for part, x, y in (("training", train_x, train_y), ("test", test_x, test_y)):
        if len(x) != len(y):
            raise IntegrityError(f"{folder} holds {len(x)} {part} images and {len(y)} labels; download it again.")
    return Content(train_x, train_y, test_x, test_y, parts, faults)
