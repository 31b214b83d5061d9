"""Numbers from the store that the chapter on foundations says in its text."""

import math
from collections.abc import Mapping

import numpy as np

from book import lab
from book.lab.queries import Rows, replicates
from chapters.foundations.figures.results import stored_probabilities
from chapters.shared.said import Gap, less

BANDS = ("Exact", "Mean field", "MC dropout", "HMC")
PLACES = ("inside", "away")  # of the inputs, like those of the data or not
SAID = ("Mean field", "SVBNN", "sBNN", "SGHMC-SA", "AVO")
SHOWN = ("Mean field", "SGHMC-SA")
LOW = ("Mean field", "SVBNN", "SGHMC-SA")  # of the inputs that are probably in, these say too little
NARROW, SCORE = "sBNN, narrow spike", "|mean| / sd"
VARIANTS = ("Mean field, best start", "sBNN, best start", NARROW, "SGHMC-SA, longer")
CORRELATED = "rho=0.9"
REMOVED, AFTER = "90 % removed", ", 50 epochs after"
STOPPED, FIVE, LONGER = "Deterministic, stopped", "MAP, five networks", "Mean field, longer"
NETWORKS = ("Truth", "Deterministic", STOPPED, "MAP", "Ensemble", FIVE, "Mean field", "SGHMC")


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


def excess(rows: Rows, setting: str, metric: str, method: str, other: str) -> Gap:
    """Mean paired difference of two methods over the replicates, its standard error, and their number."""
    return across(rows, metric, (setting, method), (setting, other))


def across(rows: Rows, metric: str, cell: tuple[str, str], other: tuple[str, str]) -> Gap:
    """As `excess`, of two (setting, method)."""
    return less(*(replicates(rows, *one, metric) for one in (cell, other)))


def above(rows: Rows, setting: str, metric: str, method: str, other: str) -> bool:
    """Whether the first method's value is decided to be larger; True where nothing is stored."""
    return lab.shows(excess(rows, setting, metric, method, other), 1)


def _linear(rows: Rows) -> dict[str, str]:
    said = {}
    for place in PLACES:
        for method in BANDS:
            for key, metric in (("", "band_coverage"), ("new-", "outcome_coverage")):
                value = lab.stored_mean(rows, f"{CORRELATED}, {place}", method, metric)
                said[f"{key}{place}-{method}"] = lab.number(value, "{:.0f}")
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
    # the text: with ten inputs mean field's bands of the line miss it too often even at inputs like those of the data,
    # which new outcomes do not decide there, and do away from the data
    for method in ("Mean field", "MC dropout"):
        for place, side in zip(PLACES, (0, 1), strict=True):
            gap = excess(rows, f"{CORRELATED}, {place}", "outcome_coverage", "Exact", method)
            assert lab.shows(gap, side), (method, place)
    assert all(above(rows, f"{CORRELATED}, {place}", "band_coverage", "Exact", "Mean field") for place in PLACES)
    return said | {k: lab.number(lab.stored_mean(rows, CORRELATED, *cell), "{:.2f}") for k, cell in asked.items()}


def _inclusion(rows: Rows) -> dict[str, str]:
    said = {}
    for design in ("orthogonal", CORRELATED):
        for method in (*SAID, *VARIANTS, "Prior", "Gibbs"):
            value = lab.stored_mean(rows, design, method, "inclusion_error")
            said[f"error-{design}-{method}"] = lab.number(value, "{:.3f}")
    for method in ("sBNN", "sBNN, best start", "SGHMC-SA", "SGHMC-SA, longer", "AVO"):
        value = lab.stored_mean(rows, "orthogonal", method, "inclusion_error_own")
        said[f"own-orthogonal-{method}"] = lab.number(value, "{:.3f}")
    # with orthogonal inputs mean field is exact, and the relaxed gate is not
    assert (lab.stored_mean(rows, "orthogonal", "Mean field", "inclusion_error") or 0.0) < 0.001
    assert above(rows, "orthogonal", "inclusion_error", "SVBNN", "Mean field")
    for method in (*SAID, *VARIANTS, "Gibbs", "SBP", SCORE):
        value = lab.stored_mean(rows, CORRELATED, method, "rank_agreement")
        said[f"rank-{method}"] = lab.number(value, "{:.2f}")
    for method in (*SAID, *VARIANTS[:2], "SBP"):  # none ranks decidedly better than the trivial score; three rank worse
        gap = excess(rows, CORRELATED, "rank_agreement", method, SCORE)
        assert lab.shows(gap, -1 if method in LOW else 0), method
        if method in LOW:
            said[f"rank-gap-{method}"] = lab.gap(*gap)
    longer = excess(rows, CORRELATED, "rank_agreement", "SGHMC-SA, longer", "SGHMC-SA")
    assert lab.shows(longer, 1), "its short chain is a part of the learned prior's rank"
    assert lab.shows(excess(rows, CORRELATED, "rank_agreement", VARIANTS[-1], SCORE), -1), "and not all of it"
    for design in ("orthogonal", CORRELATED):
        assert above(rows, design, "inclusion_error", NARROW, "Prior"), "worse than one half, says the text"
    undecided = ("Mean field", "Mean field, best start", "SVBNN")
    for method in (*SAID, "Mean field, best start"):  # the text: of these it is not decided that they beat one half
        side = 0 if method in undecided else -1
        assert lab.shows(excess(rows, CORRELATED, "inclusion_error", method, "Prior"), side), method
    return said | _too_decided(rows)


def _too_decided(rows: Rows) -> dict[str, str]:
    """Percentages of inputs that are put outside, of those between 0.2 and 0.8, and below, of those above 1/2.

    With how much lower than the exact probability the latter are: over all inputs a method that rounds every
    probability rightly would be too low as well, since most are below one half.
    """
    found, outside, low, lower = stored_probabilities(), {}, {}, {}
    counts = dict.fromkeys(("inputs-between", "inputs-above"))
    for method in (*SAID, *VARIANTS):
        problems = len(replicates(rows, CORRELATED, method, "inclusion_error"))
        if not problems or (CORRELATED, method) not in found:
            continue
        right, ours = found[CORRELATED, method]
        exact, stated = np.abs(right - 0.5), np.abs(ours - 0.5)
        farther = (stated - exact).reshape(problems, -1).mean(axis=1)
        assert method in VARIANTS or lab.shows(lab.estimate(farther), 1), (
            f"{method} is too decided with correlated inputs"
        )
        counts = {"inputs-between": int((exact < 0.3).sum()), "inputs-above": int((right > 0.5).sum())}
        outside[method] = 100.0 * float((stated[exact < 0.3] > 0.3).mean())
        low[method] = 100.0 * float((ours[right > 0.5] < 0.5).mean())
        if method in LOW:
            above_half = np.where(right > 0.5, ours - right, np.nan).reshape(problems, -1)
            each = np.nanmean(above_half[np.isfinite(above_half).any(axis=1)], axis=1)
            assert lab.shows(lab.estimate(each), -1), f"{method} says too little of inputs above one half"
            lower[method] = -float((ours - right)[right > 0.5].mean())
    said = {key: lab.number(count) for key, count in counts.items()} | {"too-low": lab.number(None)}
    if lower:
        said["too-low"] = lab.number(f"{min(lower.values()):.2f} to {max(lower.values()):.2f}")
        assert all((found[one, NARROW][1] > 0.999).all() for one in ("orthogonal", CORRELATED)), "every input is put in"
    asked = [("decided", outside, SHOWN), ("low", low, (*SAID, *VARIANTS))]
    return said | {f"{kind}-{one}": lab.number(of.get(one), "{:.0f}") for kind, of, those in asked for one in those}


def _gate(rows: Rows) -> dict[str, str]:
    asked = {
        "gate-relaxed": ("tau=0.5", "Straight-through"),
        "gate-cold": ("tau=0.05", "Straight-through"),
        "gate-longer": ("tau=0.05, longer", "Straight-through"),
        "gate-cold-limit": ("tau=0.05", "Limit"),
        "gate-exact": ("no relaxation", "Exact expectation"),
    }
    found = {key: lab.stored_mean(rows, *cell, "inclusion") for key, cell in asked.items()}
    limit = lab.stored_mean(rows, "tau=0.5", "Limit", "inclusion")
    said = {key: lab.number(value, "{:.3f}") for key, value in found.items()} | {"gate-scatter": lab.number(None)}
    if None not in (limit, *found.values()):  # what the text says of them
        assert abs(found["gate-relaxed"] - limit) < 0.03
        relaxed, cold, longer = (
            replicates(rows, *asked[key], "inclusion") for key in ("gate-relaxed", "gate-cold", "gate-longer")
        )
        assert cold.mean() > relaxed.mean() + 0.1, "a colder gate is closer"
        # in log-odds, since a mean of probabilities that scatter is lower than the probability of the mean log-odds
        bar = math.log(found["gate-cold-limit"] / (1.0 - found["gate-cold-limit"]))
        odds = [np.log(one / (1.0 - one)) for one in (cold, longer)]
        assert all(lab.shows(lab.estimate(one - bar), 0) for one in odds), "neither is decided to differ from the limit"
        assert found["gate-cold-limit"] < found["gate-exact"]
        said["gate-scatter"] = lab.number(float(odds[0].std(ddof=1)), "{:.1f}", of=[cold])
    for key in ("gate-cold-limit", "gate-exact"):
        said[key] = lab.Said(said[key])  # of no run: nothing is drawn there
    return said


def _sparsity(rows: Rows) -> dict[str, str]:
    asked = {
        "bytes-zeros": ("Weights", "bytes_ratio_zeros"),
        "bytes-csr": ("Weights", "bytes_ratio_csr"),
        "bytes-units": ("Units", "bytes_ratio"),
        "bytes-inputs": ("Inputs", "bytes_ratio"),
        "left-Weights": ("Weights", "weights_left"),
        "left-Units": ("Units", "weights_left"),
        "left-Inputs": ("Inputs", "weights_left"),
    }
    assert abs((lab.stored_mean(rows, REMOVED, *asked["bytes-zeros"]) or 1.0) - 1.0) < 0.05  # "no smaller"
    said = {key: lab.number(lab.stored_mean(rows, REMOVED, *cell), "{:.1f}") for key, cell in asked.items()}
    fewer, gaps = "75 % removed", []
    for key, metric in (("bytes", "bytes_ratio"), ("left", "weights_left")):
        said[f"{key}-fewer"] = lab.number(lab.stored_mean(rows, fewer, "Units", metric), "{:.1f}")
    for after, epochs in (("", "5"), (AFTER, "50")):
        cells = {kind: (REMOVED + after, kind) for kind in ("Weights", "Units", "Inputs")}
        cells |= {"whole": ("0 % removed" + after, "Nothing"), "fewer": (fewer + after, "Units")}
        for kind, cell in cells.items():
            said[f"accuracy-{epochs}-{kind}"] = lab.number(lab.stored_mean(rows, *cell, "accuracy"), "{:.1f}")
        gaps.append(across(rows, "accuracy", cells["Weights"], cells["Units"]))
        assert lab.shows(gaps[-1], 1), "weights cost less accuracy than the same share of units"
        same = across(rows, "accuracy", cells["fewer"], cells["Weights"])
        assert lab.shows(same, 1), "and more than the units that leave about as many weights"
        said |= {f"share-{epochs}": lab.gap(*gaps[-1], digits=1), f"number-{epochs}": lab.gap(*same, digits=1)}
    first, second = (
        replicates(rows, REMOVED + after, "Weights", "accuracy")
        - replicates(rows, REMOVED + after, "Units", "accuracy")
        for after in ("", AFTER)
    )
    assert lab.shows(lab.estimate(first - second), 1), "the short training after is a part of that difference"
    return said


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
    # the text: not to fit the labels to the end helps most, by a prior or by stopping; five networks are no substitute
    for method, other, side in (
        ("Ensemble", "MAP", 1),
        ("Ensemble", STOPPED, 1),
        (STOPPED, "MAP", 0),
        (FIVE, "MAP", 0),
        ("SGHMC", "MAP", 1),
        ("SGHMC, half step", "MAP", 1),
    ):
        assert lab.shows(excess(rows, "plane", "nll", method, other), side), (method, other)
    for key, pair in {"nll-stopped-MAP": (STOPPED, "MAP"), "nll-SGHMC-MAP": ("SGHMC", "MAP")}.items():
        said[key] = lab.gap(*excess(rows, "plane", "nll", *pair), digits=3)
    # neither short chains nor the step are why
    assert lab.shows(excess(rows, "plane", "nll", "SGHMC, half step", "SGHMC"), 0)
    for key, method in {"SGHMC": "SGHMC", "half": "SGHMC, half step"}.items():
        said[f"r-hat-{key}"] = lab.number(lab.stored_mean(rows, "plane", method, "r_hat"), "{:.2f}")
    for key, method in {"field": "Mean field", "longer": LONGER}.items():
        warm = replicates(rows, "plane", method, "temperature")
        said[f"temperature-{key}"] = lab.mean(warm, "{:.2f}")
        mean, error, n = lab.estimate(warm)
        assert not n or lab.shows((mean - 1.0, error, n), -1), f"{method} is underconfident, says the text"
    for metric, side in (("omega", -1), ("ece", -1), ("nll", 0), ("temperature", 0)):  # the text: steps are not why
        gap = excess(rows, "plane", metric, LONGER, "Mean field")
        assert lab.shows(gap, side), metric
        if side:
            said[f"{metric}-longer"] = lab.gap(*gap, digits=1)
    return said


PARTS = {"linear": _linear, "inclusion": _inclusion, "gate": _gate, "sparsity": _sparsity, "calibration": _calibration}
