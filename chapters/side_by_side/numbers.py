"""Numbers from the store that the chapter side by side says in its text."""

from __future__ import annotations

from collections.abc import Mapping

from book import lab
from book.lab.intervals import estimate
from book.lab.queries import Rows
from chapters.side_by_side.matrix import SIMULATIONS
from chapters.side_by_side.standing import standing, values

SHORT = {"simulation-2": "second", "sparse-teacher": "teacher", "correlated": "correlated"}
# key: (method, the other) of a difference in RMSE
PAIRS = {
    "gain": ("sghmc_sa", "ensemble"),
    "pruned": ("gradual_pruning", "ensemble"),
    "laplace": ("laplace", "ensemble"),
    "trees": ("gradient_boosting", "ensemble"),
}


def _gap(task: str, method: str, other: str, budget: int = 1) -> lab.Said:
    one, two = (values(task, budget, name, "rmse") for name in (method, other))
    return lab.gap(*estimate((one - two).tolist())) if len(one) == len(two) > 1 else lab.number(None)


def numbers(rows: Mapping[str, Rows] | None = None) -> dict[str, str]:
    """The texts by key; `rows` are not asked, the comparison reads the store by itself."""
    said: dict[str, str] = {}
    for task, short in SHORT.items():
        for key, (method, other) in PAIRS.items():
            said[f"{key}-{short}"] = _gap(task, method, other)
    for key, method in (("gain", "sghmc_sa"), ("dirac", "spike_slab")):
        for task in ("sparse-teacher", "correlated"):
            said[f"{key}-{SHORT[task]}-4"] = _gap(task, method, "ensemble", 4)
    for budget in (1, 4):
        error = values("sparse-teacher", budget, "spike_slab", "selection_error")
        said[f"dirac-error-{budget}"] = lab.number(error.mean() if len(error) else None, "{:.0f}")
    for key, method, metric, form, kind in (
        ("coverage-ensemble", "ensemble", "coverage", "{:.1f}", "tuned"),
        ("coverage-one", "deterministic", "coverage", "{:.1f}", "tuned"),
        ("lasso-error", "lasso", "selection_error", "{:.0f}", "tuned"),
        ("lasso-missed", "lasso", "fnr", "{:.0f}", "tuned"),
        ("spike-wrong", "spike_slab", "fpr", "{:.0f}", "tuned"),
        ("knockoffs-missed", "knockoffs", "fnr", "{:.0f}", "tuned"),
        ("gauss-missed", "gaussian_spike_slab", "fnr", "{:.0f}", "tuned"),
        ("one-default", "deterministic", "rmse", "{:.2f}", "default"),
        ("one-tuned", "deterministic", "rmse", "{:.2f}", "tuned"),
    ):
        found = values("simulation-2", 1, method, metric, kind)
        said[key] = lab.number(found.mean() if len(found) else None, form)
    return said


def verdicts(method: str, metric: str, budget: int = 1) -> list[str]:
    """What is decided of a method on the three simulations; "not run" where nothing is stored."""
    found = []
    for task in SIMULATIONS:
        rows = {row["method"]: row["verdict"] for row in standing(task, budget, metric)}
        found.append(rows.get(method, "not run"))
    return found
