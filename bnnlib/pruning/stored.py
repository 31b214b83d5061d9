"""Files of tensors that are checked when they are read: what is damaged says so and never loads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


def digest(plan: list[dict[str, Any]], state: Mapping[str, Tensor]) -> str:
    """SHA-256 of names, types, shapes and values."""
    checksum = hashlib.sha256(repr(plan).encode())
    for name, values in state.items():
        checksum.update(f"{name} {values.dtype} {tuple(values.shape)}".encode())
        checksum.update(values.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return checksum.hexdigest()


def read_tensors(path: Path, saver: str) -> Any:
    """What a file of the function `saver` holds; nothing in it is executed."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged archive fails in its pickles, its text, its sizes or its types
        raise ValueError(
            f"{path} cannot be read: it is damaged, cut off, or no file of {saver}. Copy or save it again."
        ) from error


def check_digest(path: Path, plan: Any, stored: Mapping[str, Any]) -> None:
    """Raise if the plan and the tensors of a file are not those that were written."""
    try:
        same = stored.get("digest") == digest(plan, stored["state"])
    except Exception:  # not even tensors by name
        same = False
    if not same:
        raise ValueError(f"{path} is damaged: its contents do not fit its checksum. Copy or save it again.")
