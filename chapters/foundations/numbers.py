"""Numbers from the store that the chapter on foundations says in its text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from book import lab
from book.lab.queries import Rows, replicates
from chapters.foundations.figures.results import stored_probabilities

BANDS = ("Exact", "Mean field", "MC dropout", "HMC")
PLACES = ("inside", "away")  # of the inputs, like those of the data or not
SAID = ("Mean field", "SVBNN", "sBNN", "SGHMC-SA", "AVO")
SHOWN = ("Mean field", "SGHMC-SA")
CORRELATED = "rho=0.9"
REMOVED = "90 % removed"
NETWORKS = ("Truth", "Deterministic", "MAP", "Ensemble", "Mean field", "SGHMC")


def numbers(rows: Mapping[str, Rows]) -> dict[str, str]:
    """The texts by key.

    Args:
        rows: {name: what `lab.compare("fnd-name")` returns}, for linear, inclusion, gate, sparsity and calibration.

    Raises:
        AssertionError: a stored result no longer says what the lesson's sentences say of it.
    """
    parts = [part(rows[name]) for name, part in PARTS.items()]
    said = {key: text for part in parts for key, text in part.items()}
    assert len(said) == sum(map(len, parts)), "two experiments say the same key"
    return said


def excess(rows: Rows, setting: str, metric: str, method: str, other: str) -> tuple[float, float, int]:
    """Mean paired difference of two methods over the replicates, its standard error, and their number."""
    first, second = (replicates(rows, setting, name, metric) for name in (method, other))
    return lab.estimate(first - second if len(first) == len(second) else [])


def above(rows: Rows, setting: str, metric: str, method: str, other: str) -> bool:
    """Whether the first method's value is decided to be larger; True where nothing is stored."""
    return lab.shows(excess(rows, setting, metric, method, other), 1)


def _linear(rows: Rows) -> dict[str, str]:
    said = {}
    for place in PLACES:
        for method in BANDS:
            value = lab.stored_mean(rows, f"{CORRELATED}, {place}", method, "band_coverage")
            said[f"{place}-{method}"] = lab.number(value, "{:.0f}")
    asked = {
        "widest-field": ("Mean field", "sd_ratio_widest"),
        "narrowest-field": ("Mean field", "sd_ratio_narrowest"),
        "sgld-all": ("SGLD, all rows", "sd_ratio_narrowest"),
        "sgld-batch": ("SGLD", "sd_ratio_narrowest"),
        "sghmc-batch": ("SGHMC", "sd_ratio_narrowest"),
    }
    assert above(rows, CORRELATED, "sd_ratio_narrowest", "SGLD", "SGLD, all rows")
    hats = {lab.number(lab.stored_mean(rows, CORRELATED, one, "r_hat"), "{:.1f}") for one in ("SGLD", "SGLD, all rows")}
    assert len(hats) == 1, "the text has one R-hat for SGLD with all rows and with a tenth of them"
    said["sgld-r-hat"] = hats.pop()
    # the text: with ten inputs mean field is too sure even where the inputs are like those of the data
    assert all(above(rows, f"{CORRELATED}, {place}", "band_coverage", "Exact", "Mean field") for place in PLACES)
    return said | {k: lab.number(lab.stored_mean(rows, CORRELATED, *cell), "{:.2f}") for k, cell in asked.items()}


def _inclusion(rows: Rows) -> dict[str, str]:
    said = {}
    for design in ("orthogonal", CORRELATED):
        for method in (*SAID, "Prior", "Gibbs"):
            value = lab.stored_mean(rows, design, method, "inclusion_error")
            said[f"error-{design}-{method}"] = lab.number(value, "{:.3f}")
    for method in ("sBNN", "SGHMC-SA", "AVO"):
        value = lab.stored_mean(rows, "orthogonal", method, "inclusion_error_own")
        said[f"own-orthogonal-{method}"] = lab.number(value, "{:.3f}")
    # with orthogonal inputs mean field is exact, and the relaxed gate is not
    assert (lab.stored_mean(rows, "orthogonal", "Mean field", "inclusion_error") or 0.0) < 0.001
    assert above(rows, "orthogonal", "inclusion_error", "SVBNN", "Mean field")
    for method in ("SBP", "|mean| / sd"):
        value = lab.stored_mean(rows, CORRELATED, method, "rank_agreement")
        said[f"rank-{method}"] = lab.number(value, "{:.2f}")
    assert lab.shows(excess(rows, CORRELATED, "rank_agreement", "SBP", "|mean| / sd"), 0), "undecided, says the text"
    for method in SAID:  # the text: of two it is not decided that they are better than saying one half
        side = 0 if method in ("Mean field", "SVBNN") else -1
        assert lab.shows(excess(rows, CORRELATED, "inclusion_error", method, "Prior"), side), method
    return said | _too_decided(rows)


def _too_decided(rows: Rows) -> dict[str, str]:
    """Percentages of inputs that are put outside, of those between 0.2 and 0.8, and below, of those above 1/2."""
    found, outside, low = stored_probabilities(), {}, {}
    for method in SAID:
        problems = len(replicates(rows, CORRELATED, method, "inclusion_error"))
        if not problems or (CORRELATED, method) not in found:
            continue
        right, ours = found[CORRELATED, method]
        exact, stated = np.abs(right - 0.5), np.abs(ours - 0.5)
        farther = (stated - exact).reshape(problems, -1).mean(axis=1)
        assert lab.shows(lab.estimate(farther), 1), f"{method} is too decided with correlated inputs"
        outside[method] = 100.0 * float((stated[exact < 0.3] > 0.3).mean())
        low[method] = 100.0 * float((ours[right > 0.5] < 0.5).mean())
        lower = (ours - right).reshape(problems, -1).mean(axis=1)
        assert lab.shows(lab.estimate(lower), -1), f"{method} is mostly too low with correlated inputs"
    asked = [("decided", outside, SHOWN), ("low", low, (*SHOWN, "sBNN"))]
    return {f"{kind}-{one}": lab.number(of.get(one), "{:.0f}") for kind, of, names in asked for one in names}


def _gate(rows: Rows) -> dict[str, str]:
    asked = {
        "gate-relaxed": ("tau=0.5", "Straight-through"),
        "gate-cold": ("tau=0.05", "Straight-through"),
        "gate-cold-limit": ("tau=0.05", "Limit"),
        "gate-exact": ("no relaxation", "Exact expectation"),
    }
    found = {key: lab.stored_mean(rows, *cell, "inclusion") for key, cell in asked.items()}
    limit = lab.stored_mean(rows, "tau=0.5", "Limit", "inclusion")
    if None not in (limit, *found.values()):  # what the text says of them
        assert abs(found["gate-relaxed"] - limit) < 0.03
        relaxed, cold = (replicates(rows, *asked[key], "inclusion") for key in ("gate-relaxed", "gate-cold"))
        assert lab.shows(lab.estimate(cold - relaxed), 1), "a colder gate is closer"
        assert lab.shows(lab.estimate(cold - found["gate-cold-limit"]), -1), "and has not arrived"
        assert found["gate-cold-limit"] < found["gate-exact"]
    said = {key: lab.number(value, "{:.3f}") for key, value in found.items()}
    for key in ("gate-cold-limit", "gate-exact"):
        said[key] = lab.Said(said[key])  # of no run: nothing is drawn there
    return said


def _sparsity(rows: Rows) -> dict[str, str]:
    asked = {
        "bytes-zeros": ("Weights", "bytes_ratio_zeros"),
        "bytes-csr": ("Weights", "bytes_ratio_csr"),
        "bytes-units": ("Units", "bytes_ratio"),
        "bytes-inputs": ("Inputs", "bytes_ratio"),
    }
    assert abs((lab.stored_mean(rows, REMOVED, *asked["bytes-zeros"]) or 1.0) - 1.0) < 0.05  # "no smaller at all"
    said = {key: lab.number(lab.stored_mean(rows, REMOVED, *cell), "{:.1f}") for key, cell in asked.items()}
    gap = excess(rows, REMOVED, "accuracy", "Weights", "Units")
    assert lab.shows(gap, 1), "weights cost less accuracy than units"
    said["accuracy-Weights-Units"] = lab.gap(*gap, digits=1)
    for kind in ("Weights", "Units", "Inputs"):
        said[f"accuracy-{kind}"] = lab.number(lab.stored_mean(rows, REMOVED, kind, "accuracy"), "{:.1f}")
    return said | {
        "left-units": lab.number(lab.stored_mean(rows, REMOVED, "Units", "weights_left"), "{:.1f}"),
        "accuracy-whole": lab.number(lab.stored_mean(rows, "0 % removed", "Nothing", "accuracy"), "{:.1f}"),
    }


def _calibration(rows: Rows) -> dict[str, str]:
    said = {}
    for method in NETWORKS:
        for metric, digits in (("nll", 3), ("ece", 1), ("nll_scaled", 3)):
            value = lab.stored_mean(rows, "plane", method, metric)
            said[f"{metric}-{method}"] = lab.number(value, f"{{:.{digits}f}}")
        value = lab.stored_mean(rows, "plane, away", method, "epistemic")
        said[f"far-{method}"] = lab.number(value, "{:.2f}")
    for method in ("Mean field", "SGHMC"):
        said[f"near-{method}"] = lab.number(lab.stored_mean(rows, "plane", method, "epistemic"), "{:.2f}")
    assert above(rows, "plane", "epistemic", "Mean field", "SGHMC")
    assert above(rows, "plane", "nll", "Ensemble", "MAP")
    warm = replicates(rows, "plane", "Mean field", "temperature")
    mean, error, n = lab.estimate(warm)
    said["temperature-Mean field"] = lab.number(f"{mean:.2f} ± {error:.2f}" if n > 1 else None)
    assert not n or lab.shows((mean - 1.0, error, n), -1), "mean field is underconfident, says the text"
    said["nll-SGHMC-MAP"] = lab.gap(*excess(rows, "plane", "nll", "SGHMC", "MAP"), digits=4)
    return said


PARTS = {
    "linear": _linear,
    "inclusion": _inclusion,
    "gate": _gate,
    "sparsity": _sparsity,
    "calibration": _calibration,
}
