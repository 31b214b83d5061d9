"""The experiments of all chapters, found where they lie: ``chapters/STUDY/experiments/*.py``.

A module with a list ``EXPERIMENTS`` is found because it is there; there is nothing to register.
"""

import difflib
import functools
import importlib
from collections.abc import Iterable

from book import studies
from book.lab.cells import Experiment, ExperimentError


def modules() -> list[str]:
    """Names of the modules that may hold experiments; tests put others in their place."""
    return [name for study in studies.all(without_lesson=True) for name in study.modules("experiments")]


def table() -> dict[str, tuple[str, Experiment]]:
    """Experiment name to (module, experiment), in the book's order.

    Raises:
        ExperimentError: two modules have an experiment of the same name.
    """
    names = modules()
    chapters = [name for name in names if name.startswith("chapters.")]  # which stay as they are while a process lives
    return _named([name for name in names if name not in chapters], _of_chapters(tuple(chapters)))


@functools.cache
def _of_chapters(names: tuple[str, ...]) -> dict[str, tuple[str, Experiment]]:
    return _named(names, {})


def _named(names: Iterable[str], known: dict[str, tuple[str, Experiment]]) -> dict[str, tuple[str, Experiment]]:
    found = dict(known)
    for module in names:
        for experiment in getattr(importlib.import_module(module), "EXPERIMENTS", []):
            if experiment.name in found:
                raise ExperimentError(f"{experiment.name!r} is in both {found[experiment.name][0]} and {module}")
            found[experiment.name] = (module, experiment)
    return found


def names() -> list[str]:
    """Names of all experiments."""
    return list(table())


def get(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        ExperimentError: there is none; the message suggests the nearest names.
    """
    return _entry(name)[1]


def module_of(name: str) -> str:
    """The module that holds the experiment."""
    return _entry(name)[0]


def _entry(name: str) -> tuple[str, Experiment]:
    found = table()
    if name not in found:
        raise unknown("experiment", name, found)
    return found[name]


def paper_of(name: str) -> str:
    """The number of the paper whose chapter has the experiment; "all" where the chapter is about all of them."""
    return next((one.paper for one in studies.all(without_lesson=True) if name.startswith(f"{one.prefix}-")), "")


def find(module: str, name: str) -> Experiment:
    """The experiment in a module, for a worker process, which need not know all others."""
    return next(one for one in importlib.import_module(module).EXPERIMENTS if one.name == name)


def unknown(kind: str, given: str, allowed: Iterable[str]) -> ExperimentError:
    """The error for a name that does not exist: what was given, what was probably meant, what is allowed."""
    allowed = list(allowed)
    close = difflib.get_close_matches(given, allowed, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(repr(one) for one in close)}?" if close else ""
    return ExperimentError(f"unknown {kind} {given!r}.{hint} Available: {', '.join(allowed) or 'none'}.")
