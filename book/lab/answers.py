"""What verify and the tests say of mutants, kept so that a stopped run goes on."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from bnnlib._files import write_atomic
from book.lab import store

NOTICED, SILENT, NOTHING, LATE = "noticed", "silent", "nothing to ask", "timed out"


@dataclass(frozen=True)
class Answer:
    """What verify or the tests say of a mutant.

    Args:
        word: "noticed", "silent", "nothing to ask" or "timed out".
        detail: what notices it.
        asked: results, or files of tests.
        seconds: that it took.
    """

    word: str
    detail: str = ""
    asked: tuple[str, ...] = ()
    seconds: float = 0.0


class Kept:
    """Answers of earlier runs, and results whose probes ran on this machine, in ``data/cache/``.

    Args:
        again: the answers do not count.
    """

    def __init__(self, again: bool = False) -> None:
        self.path, self.home = store.home() / "cache" / "mutants.json", store.home() / "cache" / "mutants"
        self.lock, self.again = threading.RLock(), again
        try:
            self.known = json.loads(self.path.read_text())
        except (OSError, ValueError):
            self.known = {}

    def get(self, name: str) -> dict[str, Any]:
        """What is kept under a name, {} if nothing is."""
        return self.known.get(name, {})

    def keep(self, name: str, value: dict[str, Any]) -> None:
        """Keep it at once, so that a stopped run loses nothing."""
        with self.lock:
            self.known[name] = value
            write_atomic(self.path, json.dumps(self.known, indent=0).encode())

    def answer(self, name: str, evidence: Callable[[tuple[str, ...]], str], ask: Callable[[], Answer]) -> Answer:
        """The kept answer while what it depends on is as it was, else a new one.

        Args:
            name: of the question.
            evidence: hash of what it depends on, a function of what was asked.
            ask: gives the new answer.
        """
        if (found := self.get(name)) and not self.again:
            old = Answer(**found["answer"] | {"asked": tuple(found["answer"]["asked"])})
            if found["evidence"] == evidence(old.asked):
                return old
        new = ask()
        self.keep(name, {"answer": asdict(new), "evidence": evidence(new.asked)})
        return new
