"""Files of tensors that are checked when they are read: what is damaged says so and never loads."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


def digest(plan: list[dict[str, Any]], state: Mapping[str, Tensor]) -> str:
    """SHA-256 of names, types, shapes and values."""
    checksum = hashlib.sha256(repr(plan).encode())
    for name, values in state.items():
        checksum.update(f"{name} {values.dtype} {tuple(values.shape)}".encode())
        checksum.update(values.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return checksum.hexdigest()


def write_tensors(path: str | os.PathLike, form: str, plan: list[dict[str, Any]], model: nn.Module) -> None:
    """Write the tensors of a model, the plan of its layers and the checksum of both."""
    state = {name: values.detach().cpu() for name, values in model.state_dict().items()}
    torch.save({"format": form, "plan": plan, "state": state, "digest": digest(plan, state)}, Path(path))


def read_tensors(path: str | os.PathLike, form: str, saver: str) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
    """The plan and the tensors that the function `saver` has written; nothing in the file is executed."""
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged archive fails in its pickles, its text, its sizes or its types
        raise ValueError(
            f"{path} cannot be read: it is damaged, cut off, or no file of {saver}. Copy or save it again."
        ) from error
    if not isinstance(stored, dict) or stored.get("format") != form:
        raise ValueError(f"{path} is not a file of {saver} ({form}). A plain state_dict loads with load_state_dict.")
    plan = stored.get("plan", [])
    try:
        same = stored.get("digest") == digest(plan, stored["state"])
    except Exception:  # not even tensors by name
        same = False
    if not same:
        raise ValueError(f"{path} is damaged: its contents do not fit its checksum. Copy or save it again.")
    return plan, stored["state"]
