"""The experiments of the papers: the only place that knows a paper's settings."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable

from bnnlib.experiments.base import Cell, CellResult, Checkpoint, Experiment, ExperimentError

__all__ = [
    "Cell",
    "CellResult",
    "Checkpoint",
    "Experiment",
    "ExperimentError",
    "find",
    "get",
    "module_of",
    "names",
    "register",
    "run",
    "unknown",
]

_MODULES = [
    "bnnlib.experiments.aeb_fgsm",
    "bnnlib.experiments.aeb_logistic",
    "bnnlib.experiments.aeb_mnist",
    "bnnlib.experiments.aeb_regression",
    "bnnlib.experiments.aeb_resnet",
    "bnnlib.experiments.aeb_uci",
    "bnnlib.experiments.sbnn_lenet",
    "bnnlib.experiments.sbnn_mnist",
    "bnnlib.experiments.sbnn_uci",
    "bnnlib.experiments.sbnn_vgg",
    "bnnlib.experiments.sbnn_simulations",
    "bnnlib.experiments.sbnn_selection",
    "bnnlib.experiments.sbn_cifar5",
    "bnnlib.experiments.sbn_mnist",
    "bnnlib.experiments.sbp_mnist",
    "bnnlib.experiments.sbp_random_labels",
    "bnnlib.experiments.sbp_vgg",
    "bnnlib.experiments.svbnn_simulations",
    "bnnlib.experiments.svbnn_mnist",
]


def register(module: str) -> None:
    """Add a module of your own, importable by the workers too, whose ``EXPERIMENTS`` is a list of `Experiment`."""
    if module not in _MODULES:
        _MODULES.append(module)


def _table() -> dict[str, tuple[str, Experiment]]:
    table: dict[str, tuple[str, Experiment]] = {}
    for module in _MODULES:
        for experiment in importlib.import_module(module).EXPERIMENTS:
            if experiment.name in table:
                raise ExperimentError(f"{experiment.name!r} is in both {table[experiment.name][0]} and {module}")
            table[experiment.name] = (module, experiment)
    return table


def names() -> list[str]:
    """Names of all experiments."""
    return list(_table())


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
    table = _table()
    if name not in table:
        raise unknown("experiment", name, table)
    return table[name]


def find(module: str, name: str) -> Experiment:
    """The experiment in a module, for a worker process that knows nothing of `register`."""
    return next(one for one in importlib.import_module(module).EXPERIMENTS if one.name == name)


def unknown(kind: str, given: str, allowed: Iterable[str]) -> ExperimentError:
    """The error for a name that does not exist: what was given, what was probably meant, what is allowed."""
    allowed = list(allowed)
    close = difflib.get_close_matches(given, allowed, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(repr(one) for one in close)}?" if close else ""
    return ExperimentError(f"unknown {kind} {given!r}.{hint} Available: {', '.join(allowed) or 'none'}.")


def run(name: str, profile: str = "smoke", **options):
    """Run an experiment; see `bnnlib.experiments.runner.run`."""
    from bnnlib.experiments import runner

    return runner.run(name, profile, **options)
