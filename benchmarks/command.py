"""What the command lines of all benchmarks share: one measures, says what it does, and prints rows that are stored."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO, TypeVar

import torch

Found = TypeVar("Found", list, dict)


def parser(
    name: str,
    about: str | None,
    *,
    batch: Sequence[int] = (),
    rounds: int = 0,
    device: bool = False,
    goes_on: bool = False,
) -> argparse.ArgumentParser:
    """The parser of `python -m benchmarks.NAME` with what they share; `about` is the module's docstring."""
    made = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=(about or "").partition("\n")[0])
    made.add_argument("--json", action="store_true", help="print what was found as JSON and nothing else on stdout")
    if batch:
        made.add_argument("--batch", type=int, nargs="+", default=batch, help="batch sizes")
    if rounds:
        made.add_argument("--rounds", type=int, default=rounds, help="measurements for each ratio")
    if device:
        made.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    if goes_on:
        made.add_argument("--keep", type=Path, help="file of what was found, one JSON object a line, to go on from")
        made.add_argument("--minutes", type=float, default=float("inf"), help="start nothing after them")
    return made


def progress(options: argparse.Namespace) -> TextIO:
    """Where a benchmark says what it does."""
    return sys.stderr if options.json else sys.stdout


def start(options: argparse.Namespace, *about: str) -> tuple[torch.device, TextIO]:
    """The device, and where a benchmark says what it does: with what it runs, to begin with."""
    say = progress(options)
    machine = f"torch {torch.__version__}", options.device, f"{torch.get_num_threads()} threads"
    print(", ".join((*machine, *about)), file=say)
    return torch.device(options.device), say


def done(found: Found, options: argparse.Namespace) -> Found:
    """Print what was found, if JSON was asked for, and give it back."""
    if options.json:
        print(json.dumps(found, indent=1))
    return found


def kept(path: Path | None, *keys: str) -> dict[tuple, dict]:
    """The rows in a file of JSON lines by these columns; a line that a stopped run has cut is taken off."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path and path.exists() else []
    if path and lines and not lines[-1].endswith("\n"):
        path.write_text("".join(lines[:-1]), encoding="utf-8")
    found = [json.loads(line) for line in lines if line.endswith("\n")]
    return {tuple(one[key] for key in keys): one for one in found}


def keep(path: Path | None, row: dict) -> None:
    """Append a row to that file, if there is to be one."""
    if path:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
