"""Sparse Bayesian deep learning: exact objectives, layers, samplers, pruning and stacked replicates.

The packages from the ground up: `functional` (pure functions on tensors) and `posteriors` (of weights); `nn`, `optim`,
`sampling`, `pruning`, `models`, `metrics` and `datasets`; `replicates` and `train`; `contest`, one interface over all
methods, and `estimators` for scikit-learn, its extra. Nothing imports upward. Each is imported when it is first used:
``import bnnlib; bnnlib.nn``.
"""

import importlib
import pkgutil
from types import ModuleType

__version__ = "1.0.0"


def _names() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]


def __getattr__(name: str) -> ModuleType:
    if name in _names():
        return importlib.import_module(f"bnnlib.{name}")
    raise AttributeError(f"module 'bnnlib' has no attribute {name!r}; its packages are {', '.join(_names())}.")


def __dir__() -> list[str]:
    return sorted([*_names(), *(name for name in globals() if name.startswith("__"))])
