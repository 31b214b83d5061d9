"""The state of unfinished work on disk, so that what was killed goes on where it was."""

import io
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bnnlib._files import StoreError, remove_unfinished, sealed, unsealed, write_atomic

_HEAD, _ZIP = b"bnnlib checkpoint 1\n", b"PK\x03\x04"


class Checkpoint:
    """The state of unfinished work in a file, so that what was killed goes on where it was; for `fit` and `sample`.

    Args:
        path: the file.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     checkpoint = Checkpoint(f"{folder}/work.pt")
        ...     checkpoint.save({"epoch": 3})
        ...     print(checkpoint.load())
        {'epoch': 3}
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        remove_unfinished(self.path)  # of a run that was killed while it saved
        self._saved_at = time.monotonic()
        self._warned = False

    def load(self) -> dict[str, Any] | None:
        """The last saved state with its tensors on the CPU, or None when the work starts from the beginning."""
        if not self.path.exists():
            return None
        try:
            if self.path.read_bytes()[:4] == _ZIP:  # of a version without a checksum
                return torch.load(self.path, map_location="cpu", weights_only=True)
            body = unsealed(self.path, _HEAD, "a checkpoint", "It is of no use.")
            return torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises many types for a damaged file; starting over is always right
            warnings.warn(f"checkpoint {self.path.name} cannot be read ({error}); the work starts over", stacklevel=2)
            return None

    def due(self, seconds: float = 60.0) -> bool:
        """True when the last save (or the start) is at least this many seconds ago."""
        return time.monotonic() - self._saved_at >= seconds

    def save(self, state: dict[str, Any]) -> None:
        """Write the state atomically; a disk that is full is reported once and the work goes on.

        Args:
            state: nested dict, list or tuple of tensors, numbers, strings and None. Include the generator's state,
                ``generator.get_state()``: without it the resumed work is not bit-identical.

        Raises:
            TypeError: for any other type (a NumPy array, a module), which could not be read back safely.
        """
        buffer = io.BytesIO()
        torch.save(plain(state, "state"), buffer)
        try:
            write_atomic(self.path, sealed(_HEAD, buffer.getvalue()))
        except StoreError as error:
            if not self._warned:
                warnings.warn(f"no checkpoint could be saved, the work goes on without one: {error}", stacklevel=2)
            self._warned = True
        self._saved_at = time.monotonic()

    def delete(self) -> None:
        """Remove the file; nothing happens when there is none."""
        self.path.unlink(missing_ok=True)


def plain(value: Any, where: str) -> Any:
    """The value with Python's numbers for those of NumPy; a container without any stays the object that it is."""
    if isinstance(value, dict):
        pairs = [(k.item() if isinstance(k, np.generic) else k, plain(v, f"{where}[{k!r}]")) for k, v in value.items()]
        same = all(a is c and b is d for (a, b), (c, d) in zip(pairs, value.items(), strict=True))
        return value if same else dict(pairs)
    if isinstance(value, (list, tuple)):
        made = [plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
        same = all(one is item for one, item in zip(made, value, strict=True))
        return value if same else tuple(made) if isinstance(value, tuple) else made
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, (torch.Tensor, str, int, float, bool, type(None))):
        raise TypeError(
            f"{where} is a {type(value).__name__}; a checkpoint holds tensors, numbers, strings, None, and dicts, "
            "lists and tuples of them. Convert it first (torch.as_tensor for a NumPy array, .state_dict() for a module)"
        )
    return value
