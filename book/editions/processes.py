"""Calls in processes of their own, some at a time, which end with all that they have started."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import psutil

from book import forks


class Processes:
    """A context in which calls run; whoever leaves it, by an error or Ctrl-C too, leaves none of them behind.

    Args:
        function: importable by its name; what it returns must survive pickling.
        calls: a name for each call, and its arguments.
        jobs: how many run at a time.
    """

    def __init__(self, function: Callable[..., Any], calls: dict[str, tuple], jobs: int) -> None:
        self.function, self.jobs = function, jobs
        self.waiting = dict(calls)
        self.running: dict[str, BaseProcess] = {}
        self._answers: dict[Connection, tuple[str, float]] = {}
        self._context = forks.context("book.editions.execute", "book.editions.preloaded")

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            _end(process)

    def __bool__(self) -> bool:
        return bool(self.waiting or self.running)

    def finished(self, seconds: float) -> list[tuple[str, Any, float]]:
        """Start what can start, and wait at most so long.

        Returns:
            Name, result and seconds of the calls that have ended; the result is None where the process died.
        """
        while self.waiting and len(self.running) < self.jobs:
            self._start(next(iter(self.waiting)))
        found = []
        for answer in wait(list(self._answers), timeout=seconds):
            name, started = self._answers.pop(answer)
            try:
                result = answer.recv()
            except EOFError:
                result = None
            answer.close()
            self.running.pop(name).join()
            found.append((name, result, time.perf_counter() - started))
        return found

    def _start(self, name: str) -> None:
        answer, question = self._context.Pipe(duplex=False)
        arguments = (question, {**os.environ}, self.function, *self.waiting.pop(name))
        process = self._context.Process(target=_call, args=arguments)
        with forks.out_of_reach():
            process.start()
            self.running[name] = process
        question.close()  # the process then holds the only end: its death is heard
        self._answers[answer] = name, time.perf_counter()


def _call(question: Connection, environment: dict[str, str], function: Callable[..., Any], *arguments: Any) -> None:
    os.environ.clear()
    os.environ.update(environment)
    forks.hold_back(signal.SIGINT)  # where the server had been started by others
    forks.end_with_parent()  # a kernel notices within a second that its parent has gone, and goes as well
    question.send(function(*arguments))


def _end(process: BaseProcess) -> None:
    """Kill a process and all that it has started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        one = psutil.Process(process.pid)
        one.suspend()  # it starts nothing more while its children are counted
        for child in one.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        one.kill()
    process.join()
