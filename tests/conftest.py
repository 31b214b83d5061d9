"""What several folders of tests need: the source tree, and the book built from it."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from filelock import FileLock  # PyTorch needs it, so it is there

from bnnlib.train import Checkpoint
from book.editions.project import BookError
from tests.seeded import seeded

ROOT = Path(__file__).resolve().parents[1]
# What takes longest, from the longest on. With `--dist loadfile --no-loadscope-reorder` (make test) files are given to
# the workers in this order, so that no worker stands alone at the end before a file of minutes.
LONGEST = (
    "book/editions/test_learner_chapters.py",
    "e2e/test_every_page.py",
    "chapters/test_resumed.py",
    "book/test_documents.py",
    "chapters/test_smoke.py",
    "e2e/test_learner.py",
    "book/test_one_draw.py",
    "e2e/test_print.py",
    "bnnlib/estimators/test_selection_of_five.py",
    "chapters/learned_priors/test_mnist.py",
    "bnnlib/estimators/test_checks.py",
    "book/lab/test_engine.py",
    "test_wheel.py",
    "bnnlib/contest/test_methods.py",
    "bnnlib/estimators/test_default.py",
    "book/editions/test_new_chapter.py",
    "book/editions/test_build.py",
    "book/editions/test_kept.py",
    "bnnlib/estimators/test_methods.py",
    "e2e/test_answers.py",
    "chapters/unit_noise/test_experiments.py",
    "chapters/batch_statistics/test_experiments.py",
)


def pytest_configure():
    """Undo an ignored Ctrl-C, which a background job of a shell inherits and passes on: several tests send one."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Begin with the files that take longest; the others, and the tests of a file, stay in their order."""
    place = {ROOT / "tests" / name: at for at, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(LONGEST)))


@pytest.fixture(autouse=True)
def same_numbers_on_every_run():
    """Global random states that depend neither on the run nor on the tests before."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture
def generator(request) -> torch.Generator:
    """Of the SEED that the test's module has."""
    return seeded(request.module.SEED)


@pytest.fixture(autouse=True)
def port_of_its_own(monkeypatch):
    """A meeting point for distributed processes that no other connection takes between the look and the use.

    Fabric would ask the system for a free port, from the range that it gives to every outgoing connection; on a busy
    machine another program had it first. Ports below that range are taken by those who name them.
    """
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            monkeypatch.setenv("MASTER_PORT", str(port))
            return


@pytest.fixture(scope="session")
def playwright():
    """The one Playwright driver of this process; a second one refuses to start."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: browser checks not run")
    with api.sync_playwright() as running:
        yield running


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the system's Chromium ($CHROMIUM, if it is set)."""
    from book.editions.typeset import browser  # here: few tests need what it imports

    try:
        return browser()
    except BookError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def launch(chromium, playwright):
    """``launch(*switches)`` -> a browser of this session."""
    opened = []

    def launched(*switches: str):
        # No sandbox: in a container there is none to be had, and only our own pages are opened.
        opened.append(playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", *switches]))
        return opened[-1]

    yield launched
    for one in opened:
        one.close()


@pytest.fixture(scope="session")
def browser(launch):
    return launch()


@pytest.fixture(scope="session")
def root() -> Path:
    """The source tree."""
    return ROOT


@contextlib.contextmanager
def alone(tmp_path_factory, name: str):
    """A folder that all workers of a run share, held by one of them at a time."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with FileLock(f"{folder}.lock"):
        folder.mkdir(exist_ok=True)
        yield folder


def build(tree: Path) -> None:
    """Bring the rendered book of a tree up to date."""
    command = [sys.executable, "-m", "book", "build"]
    done = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        pytest.fail(f"the book could not be built:\n{done.stdout}", pytrace=False)


@pytest.fixture(scope="session")
def built_book(tmp_path_factory) -> Path:
    """Folder of the rendered pages of this tree's book, brought up to date once for all workers."""
    with alone(tmp_path_factory, "built-book") as mark:
        if not (mark / "done").exists():
            build(ROOT)
            (mark / "done").touch()
    return ROOT / "_build" / "html"


class Dies(Checkpoint):
    """A checkpoint that is due after every step, and whose process is gone right after the given number of saves."""

    class Killed(Exception):
        """What stands for the end of the process."""

    def __init__(self, path: Path, saves: int) -> None:
        super().__init__(path)
        self.left, self.skipped = saves, False

    def due(self, seconds: float = 0.0) -> bool:
        return True

    def load(self) -> dict[str, Any] | None:
        assert not self.skipped, "what is read in the middle of a run has to be written too"
        return super().load()

    def save(self, state: dict[str, Any]) -> None:
        """Write the last one, which replaces all before it: to write each takes longer than the steps between them."""
        self.left -= 1
        if self.left == 0:
            super().save(state)
            raise self.Killed
        self.skipped = True


@pytest.fixture
def dies() -> type[Dies]:
    """The class: `dies(path, saves)` makes a checkpoint, `dies.Killed` is what it raises."""
    return Dies
