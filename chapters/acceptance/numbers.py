"""Numbers from the store that the chapter on the Metropolis-Hastings view says in its text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from book import lab
from book.lab.queries import Rows, replicates
from chapters.acceptance.experiments.six_gaussians import MODES
from chapters.acceptance.figures.results import METHODS, crossing

WIDE, NARROW = "start sd 3", "start sd 1"
SETS = ("Heart", "Australian", "German")
RACE = ("VI", "Acceptance rate", "Symmetric KL", "Laplace", "HMC")
LENET = "reduced LeNet"


def numbers(rows: Mapping[str, Rows]) -> dict[str, str]:
    """The texts by key.

    Args:
        rows: {name: what `lab.compare("mh-name")` returns}, for six-gaussians, logistic and lenet.

    Raises:
        AssertionError: a stored result no longer says what the lesson's sentences say of it.
    """
    return _six(rows["six-gaussians"]) | _logistic(rows["logistic"]) | _lenet(rows["lenet"])


def spread(values: np.ndarray, form: str = "{:.1f}") -> str:
    """ "mean ± standard error" of replicates."""
    if len(values) < 2:
        return lab.number(form.format(values[0]) if len(values) else None)
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{form.format(values.mean())} ± {form.format(error)}"


def _six(rows: Rows) -> dict[str, str]:
    said = {}
    for setting, key in ((WIDE, "six"), (NARROW, "narrow")):
        for method in METHODS:
            found = replicates(rows, setting, method, "modes_found")
            said[f"{key}-all-{method}"] = lab.number(int((found == MODES).sum()) if len(found) else None)
            said[f"{key}-runs-{method}"] = lab.number(len(found) or None)
            said[f"{key}-modes-{method}"] = lab.number(f"{found.mean():.1f}" if len(found) else None)
            for metric in ("acceptance", "acceptance_chain"):
                said[f"{key}-{metric}-{method}"] = spread(replicates(rows, setting, method, metric))
    gap = lab.paired_difference("mh-six-gaussians", WIDE, "Acceptance rate", "VI", "acceptance")
    said["six-gap"] = lab.number(f"{gap[0]:+.1f} ± {gap[1]:.1f}" if gap[2] > 1 else None)
    assert gap[2] < 2 or gap[0] > 2 * gap[1], "six Gaussians: learned by it, the acceptance rate is higher than by VI"
    return said


def _logistic(rows: Rows) -> dict[str, str]:
    said = {}
    for name in SETS:
        for method in RACE:
            for metric, form in (
                ("acceptance", "{:.1f}"),
                ("seconds_training", "{:.0f}"),
                ("ess_per_second", "{:,.0f}"),
            ):
                said[f"{name}-{metric}-{method}"] = lab.number(lab.stored_mean(rows, name, method, metric), form)
            draws = crossing(rows, name, method) if method != "HMC" else None
            said[f"{name}-crossing-{method}"] = "never" if draws is None else f"{draws / 1e6:.1f} million"
    errors = [
        value
        for name in SETS
        for method in RACE
        for metric in ("mean_error", "sd_error")
        for value in replicates(rows, name, method, metric)
    ]
    learned = [
        value
        for name in SETS
        for method in METHODS
        for metric in ("mean_error", "sd_error")
        for value in replicates(rows, name, method, metric)
    ]
    assert not learned or max(learned) < 0.05, "logistic regression: moments within 0.05 posterior sds of long HMC"
    said["moments"] = lab.number(max(learned) if learned else None, "{:.3f}")
    said["moments-all"] = lab.number(max(errors) if errors else None, "{:.3f}")
    away = [
        row for row in rows if row["published"] is not None and row["mean"] is not None and row["profile"] != "smoke"
    ]
    agreeing = sum(row["verdict"].startswith("agrees") for row in away)
    said["published-agree"] = lab.number(agreeing if away else None)
    said["published"] = lab.number(len(away) or None)
    said["published-gap"] = lab.number(max((abs(r["mean"] - r["published"]) for r in away), default=None), "{:.3f}")
    for method in ("Acceptance rate", "Symmetric KL"):
        gaps = [lab.paired_difference("mh-logistic", name, method, "VI", "acceptance") for name in SETS]
        for name, (mean, error, n) in zip(SETS, gaps, strict=True):
            said[f"{name}-gap-{method}"] = lab.number(f"{mean:+.2f} ± {error:.2f}" if n > 1 else None)
    return said


def _lenet(rows: Rows) -> dict[str, str]:
    said = {}
    for method in ("VI", "Symmetric KL", "No entropy", "Adam"):
        for metric, form in (("accuracy", "{:.2f}"), ("nll", "{:.4f}"), ("weight_sd", "{:.4f}")):
            said[f"lenet-{metric}-{method}"] = spread(replicates(rows, LENET, method, metric), form)
    said["lenet-acceptance"] = spread(replicates(rows, LENET, "Symmetric KL", "acceptance"))
    for other in ("VI", "No entropy"):
        for metric, digits in (("accuracy", 2), ("nll", 4)):
            mean, error, n = lab.paired_difference("mh-lenet", LENET, "Symmetric KL", other, metric)
            text = f"{mean:+.{digits}f} ± {error:.{digits}f}".replace("-", "−")
            said[f"lenet-{metric}-less-{other}"] = lab.number(text if n > 1 else None)
    return said
