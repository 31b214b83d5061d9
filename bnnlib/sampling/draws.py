"""Where draws are kept: in memory, or one file each in a folder."""

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from bnnlib._files import DamagedFileError, write_atomic

Draw = dict[str, Tensor]
_NAME = re.compile(r"draw-(\d{8})-[0-9a-f]{16}\.pt")


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


class DrawsInMemory(list[Draw]):
    """Draws in a list."""

    @property
    def nbytes(self) -> int:
        return sum(value.numel() * value.element_size() for draw in self for value in draw.values())

    def add(self, draw: Draw, offer: int) -> None:
        self.append(draw)

    def halve(self) -> None:
        """Drop the first draw, the third, and so on."""
        self[:] = self[1::2]


class DrawsInFolder(Sequence[Draw]):
    """Draws in a folder: a file of `torch.save` each, whose name has the number of the offer and a checksum.

    A tensor is written from where it is and read by mapping the file, so that no draw is ever copied in memory.
    """

    def __init__(self, folder: str | os.PathLike) -> None:
        self.folder = Path(folder)
        self.names: list[str] = []

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Draw:  # type: ignore[override]  # no slices: they would be a folder again
        path = self.folder / self.names[index]
        if path.stem[-16:] != _checksum(path):
            raise DamagedFileError(f"{path.name} is not as it was written: its checksum is another one. Sample again.")
        return torch.load(path, map_location="cpu", mmap=True, weights_only=True)

    def __iter__(self) -> Iterator[Draw]:
        return (self[index] for index in range(len(self)))

    @property
    def nbytes(self) -> int:
        return sum((self.folder / name).stat().st_size for name in self.names)

    def add(self, draw: Draw, offer: int) -> None:
        """Write a draw."""
        if not self.names and (strange := self._files()):
            raise ValueError(
                f"'{self.folder.name}' has {len(strange)} draws of an earlier chain. Give the store an empty folder, "
                "or let it go on from that chain: load_state_dict(...), or load(...) of what it saved."
            )
        # of a view on more, all would be written
        tensors = {n: v if v.untyped_storage().nbytes() == v.nbytes else v.clone() for n, v in draw.items()}
        path = self.folder / f"draw-{offer:08d}.pt"
        write_atomic(path, lambda file: torch.save(tensors, file))
        self.names.append(path.rename(path.with_stem(f"{path.stem}-{_checksum(path)}")).name)

    def halve(self) -> None:
        """Drop the first draw, the third, and so on."""
        for name in self.names[::2]:
            (self.folder / name).unlink(missing_ok=True)
        self.names = self.names[1::2]

    def restore(self, names: Sequence[str], offered: int) -> int:
        """Go on from draws of an earlier time, there may be more by now, or fewer by a factor: that is returned."""
        names, factor, there = list(names), 1, {path.name for path in self._files()}
        if strange := [name for name in names if not _NAME.fullmatch(name)]:
            raise DamagedFileError(f"{strange[0]!r} is no name of a draw.")
        if names and not there:
            raise DamagedFileError(f"{names[0]} is missing in '{self.folder.name}'. Copy it, or sample again.")
        while not there.issuperset(names):
            names, factor = names[1::2], 2 * factor
        for path in self._files():
            if int(path.name.split("-")[1]) > offered:  # the chain goes through these offers again
                path.unlink()
        self.names = names
        return factor

    def _files(self) -> list[Path]:
        return [path for path in sorted(self.folder.glob("draw-*.pt")) if _NAME.fullmatch(path.name)]
