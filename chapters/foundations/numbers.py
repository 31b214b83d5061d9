"""Numbers from the store that the chapter on foundations says in its text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from book import lab
from book.lab.queries import Rows, replicates

BANDS = ("Mean field", "MC dropout", "HMC")
SAID = ("Mean field", "SVBNN", "sBNN", "SGHMC-SA")
CORRELATED = "rho=0.9"


def numbers(rows: Mapping[str, Rows]) -> dict[str, str]:
    """The texts by key.

    Args:
        rows: {name: what `lab.compare("fnd-name")` returns}, for linear, inclusion, gate, sparsity and calibration.

    Raises:
        AssertionError: a stored result no longer says what the lesson's sentences say of it.
    """
    return _linear(rows["linear"]) | _inclusion(rows["inclusion"]) | _gate(rows["gate"])


def excess(rows: Rows, setting: str, metric: str, method: str, other: str) -> tuple[float, float] | None:
    """Mean paired difference of two methods over the replicates and its standard error; None if one was not run."""
    pair = [replicates(rows, setting, name, metric) for name in (method, other)]
    if min(map(len, pair)) < 2:
        return None
    difference = pair[0] - pair[1]
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(len(difference)))


def above(rows: Rows, setting: str, metric: str, method: str, other: str) -> bool:
    """Whether the first method's value is larger by more than two standard errors; True where nothing is stored."""
    found = excess(rows, setting, metric, method, other)
    return found is None or found[0] > 2 * found[1]


def _linear(rows: Rows) -> dict[str, str]:
    said = {}
    for place in ("inside", "away"):
        for method in BANDS:
            value = lab.stored_mean(rows, f"{CORRELATED}, {place}", method, "band_coverage")
            said[f"{place}-{method}"] = lab.number(value, "{:.0f}")
    value = lab.stored_mean(rows, CORRELATED, "Mean field", "weight_sd_ratio")
    return said | {"sd-field": lab.number(value, "{:.2f}")}


def _inclusion(rows: Rows) -> dict[str, str]:
    said = {}
    for design in ("orthogonal", CORRELATED):
        for method in SAID:
            value = lab.stored_mean(rows, design, method, "inclusion_error")
            said[f"error-{design}-{method}"] = lab.number(value, "{:.3f}")
        assert above(rows, design, "inclusion_error", "SVBNN", "Mean field") or design != "orthogonal"
    for method in ("SBP", "|mean| / sd"):
        value = lab.stored_mean(rows, CORRELATED, method, "rank_agreement")
        said[f"rank-{method}"] = lab.number(value, "{:.2f}")
    return said


def _gate(rows: Rows) -> dict[str, str]:
    asked = {
        "gate-relaxed": ("tau=0.5", "Straight-through"),
        "gate-cold": ("tau=0.05", "Straight-through"),
        "gate-exact": ("no relaxation", "Exact expectation"),
    }
    return {key: lab.number(lab.stored_mean(rows, *cell, "inclusion"), "{:.3f}") for key, cell in asked.items()}
