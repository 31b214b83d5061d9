"""What the command lines of all benchmarks share: one measures, says what it does, and prints rows that are stored."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TextIO, TypeVar

Found = TypeVar("Found", list, dict)


def parser(name: str, about: str | None) -> argparse.ArgumentParser:
    """The parser of `python -m benchmarks.NAME` with its `--json`; `about` is the module's docstring."""
    made = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=(about or "").partition("\n")[0])
    made.add_argument("--json", action="store_true", help="print what was found as JSON and nothing else on stdout")
    return made


def progress(options: argparse.Namespace) -> TextIO:
    """Where a benchmark says what it does."""
    return sys.stderr if options.json else sys.stdout


def done(found: Found, options: argparse.Namespace) -> Found:
    """Print what was found, if JSON was asked for, and give it back."""
    if options.json:
        print(json.dumps(found, indent=1))
    return found
