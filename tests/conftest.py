"""What several folders of tests need: the source tree, and the book built from it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def pytest_configure():
    """Undo an ignored Ctrl-C, which a background job of a shell inherits and passes on: several tests send one."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def playwright():
    """The one Playwright driver of this process; a second one refuses to start."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: browser checks not run")
    with api.sync_playwright() as running:
        yield running


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
