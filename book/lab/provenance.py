"""Where a number comes from: code, machine and versions, without anything that names a person or a computer."""

import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

_TREE = Path(__file__).resolve().parents[2]
_OPTIONAL = ("scikit-learn", "scipy")


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(_TREE), *arguments], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


# What can change a number. Not the results: one that is being written must not mark itself as unclean.
_CODE = ("bnnlib", "book/lab", ":(glob)chapters/**/*.py")


@cache
def commit() -> dict[str, Any]:
    """``{"commit", "dirty"}``: the source tree's commit, and whether its code had changes beside it.

    Asked once, when this process has just read the code. Both are None for an installed package outside a repository.
    """
    if not (_TREE / ".git").exists():
        return {"commit": None, "dirty": None}
    changes = _git("status", "--porcelain", "--", *_CODE)
    return {"commit": _git("rev-parse", "HEAD"), "dirty": None if changes is None else bool(changes)}


@cache
def machine() -> dict[str, Any]:
    """Processor model, number of cores and operating system; no host name and no path."""
    model = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {"cpu": model or platform.machine(), "cores": os.cpu_count(), "system": platform.system()}


def device_name(device: torch.device) -> str:
    """The device in words: the processor's or the graphics card's model."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"{device.type} ({machine()['cpu']})"


def noise(device: str) -> str:
    """Where random numbers come from on a kind of device: rows of another source are another draw, not an error."""
    return {"cpu": "torch.Generator, mt19937", "cuda": "torch.Generator, philox"}.get(device, f"torch, {device}")


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that can change a number."""
    found = {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__}
    for package in _OPTIONAL:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
