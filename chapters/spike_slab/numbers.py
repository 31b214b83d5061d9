"""Numbers that the lesson's sentences quote from the stored results, as texts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from book import lab

NOT_RUN = "(not run)"
ONE_A, TWO, SWEEP, MNIST = "svbnn-simulation-1a", "svbnn-simulation-2", "svbnn-lambda", "svbnn-mnist"
UNIFORM, NORMAL = "U(-1,1)", "N(0,1)"
RIVALS = ("VBNN", "VD", "HS-BNN", "AGP", "LOT")


def stored(rows: Mapping[str, list]) -> dict[str, str]:
    """{key: text} of every number that the lesson takes from the store.

    Args:
        rows: `book.lab.compare` of the experiments above, by name.
    """
    said = {}
    for method in ("SVBNN", "VBNN", "VD", "HS-BNN"):
        for metric, key in (("coverage", "mean"), ("coverage_predictive", "response")):
            value = lab.stored_mean(rows[ONE_A], "dense", method, metric)
            said[f"1a-{key}-{method}"] = _text(value, "{:.1f}")
    said["1a-lot"] = difference(ONE_A, "dense", "LOT", "VBNN", "rmse_test", 5)
    said["1a-ours"] = difference(ONE_A, "dense", "SVBNN", "VBNN", "rmse_test", 4)
    two = {name: lab.stored_mean(rows[TWO], UNIFORM, "SVBNN", name) for name in ("rmse_test", "fpr", "fnr", "sparsity")}
    said["2-rmse"], said["2-fpr"] = _text(two["rmse_test"], "{:.2f}"), _text(two["fpr"], "{:.2f}")
    said["2-fnr"], said["2-active"] = _text(two["fnr"], "{:.0f}"), _text(two["sparsity"], "{:.1f}")
    said["2-slab"] = _text(lab.stored_mean(rows[TWO], f"{UNIFORM}, sigma0^2=2", "SVBNN", "rmse_test"), "{:.2f}")
    said["2-next"] = difference(TWO, UNIFORM, "SVBNN", "VD", "rmse_test", 2)
    for metric, key, form in (("rmse_test", "normal", "{:.2f}"), ("sparsity", "normal-active", "{:.0f}")):
        said[f"2-{key}"] = _text(lab.stored_mean(rows[TWO], NORMAL, "SVBNN", metric), form)
    for metric, key in (("coverage", "mean"), ("coverage_predictive", "response")):
        said[f"2-{key}"] = _text(lab.stored_mean(rows[TWO], UNIFORM, "SVBNN", metric), "{:.0f}")
    missed = lab.stored_values(TWO, UNIFORM, "SVBNN", "fnr")
    said["2-complete"], said["2-replicates"] = (
        str(n) if missed.size else NOT_RUN for n in ((missed == 0).sum(), missed.size)
    )
    return said | _trap() | _mnist(rows[MNIST])


def difference(name: str, setting: str, method: str, other: str, metric: str, digits: int) -> str:
    """ "d ± s.e." of a method less another on the same data."""
    mean, error, n = lab.paired_difference(name, setting, method, other, metric)
    return NOT_RUN if n < 2 else f"{mean:+.{digits}f} ± {error:.{digits}f}".replace("-", "−")


def trapped() -> np.ndarray:
    """n/2 RMSE^2 + KL of each replicate of the sweep's smallest lambda: its objective, but for a constant, in nats."""
    smallest = (SWEEP, "2/lambda=1e-200", "SVBNN")
    return 3_000 / 2 * lab.stored_values(*smallest, "rmse_train") ** 2 + lab.stored_values(*smallest, "kl")


def _trap() -> dict[str, str]:
    plateau, trap = lab.stored_values(SWEEP, "2/lambda=1e-200", "SVBNN", "rmse_train"), trapped()
    return {
        "plateau": _text(np.median(plateau) if plateau.size else None, "{:.2f}"),
        "trap-kept": _text(trap.min() if trap.size else None, "{:,.0f}"),
        "trap-empty": _text(np.median(trap) if trap.size else None, "{:,.0f}"),
    }


def _mnist(rows: list) -> dict[str, str]:
    def values(setting: str, metric: str) -> np.ndarray:
        return lab.stored_values(MNIST, setting, "SVBNN", metric)

    def mean(setting: str, metric: str, form: str, convert=lambda value: value) -> str:
        found = values(setting, metric)
        return _text(convert(found.mean()) if found.size else None, form)

    def error(percent: float) -> float:
        return 100 - percent

    return {
        "exact-runs": str(values("exact", "accuracy").size or NOT_RUN),
        "exact-error": mean("exact", "accuracy", "{:.1f}", error),
        "exact-active": mean("exact", "sparsity", "{:.2f}"),
        "exact-price": mean("exact", "kl_per_active_weight", "{:.0f}"),
        "exact-selected": mean("exact", "sparsity_selected", "{:.2f}"),
        "exact-selected-error": mean("exact", "accuracy_selected", "{:.1f}", error),
        "exact-objective": mean("exact", "negative_elbo_nats", "{:,.0f}"),
        "empty-objective": mean("exact", "nll_null_nats", "{:,.0f}"),
        "tempered-error": mean("tempered", "accuracy", "{:.1f}", error),
        "tempered-active": mean("tempered", "sparsity", "{:.1f}"),
        "tempered-objective": mean("tempered", "negative_elbo_nats", "{:,.0f}"),
    }


def _text(value: float | None, form: str) -> str:
    return NOT_RUN if value is None else form.format(value)
