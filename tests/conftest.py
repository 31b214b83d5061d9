"""What several folders of tests need: the source tree, and the book built from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    """The source tree."""
    return ROOT


@pytest.fixture(scope="session")
def built_book() -> Path:
    """Folder of the rendered pages of this tree's book, brought up to date first (at once when nothing changed)."""
    done = subprocess.run(
        [sys.executable, "-m", "book.build"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.fail(f"the book could not be built:\n{done.stdout}", pytrace=False)
    return ROOT / "_build" / "html"
